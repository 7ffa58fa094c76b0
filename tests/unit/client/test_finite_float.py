"""Settings of seconds refuse what no clock can count, in one sentence that names the setting."""

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.backends.notifications.settings import Notifications
from jupyter_gq.backends.servers import ServersBackend

WRONG = [float("nan"), float("inf"), -1, -0.5, 10**400, 10**5000, 2e9, True, "5", None, [], b"5"]
SETTINGS = [
    (KubernetesBackend, "linger"),
    (KubernetesBackend, "lease_duration"),
    (LocalBackend, "gang_grace"),
    (ServersBackend, "attach_timeout"),
    (Notifications, "min_minutes"),
    (NodeAgent, "report_every"),
]


@pytest.mark.parametrize(("cls", "name"), SETTINGS)
def test_a_number_that_no_clock_can_count_is_refused_in_one_sentence(cls, name):
    for value in WRONG:
        with pytest.raises(TraitError) as refused:
            cls(config=Config({cls.__name__: {name: value}}))
        said = str(refused.value)
        assert said.startswith(f"c.{cls.__name__}.{name} = "), said
        assert "it is not a number from 0" in said, said
        assert len(said) < 500


def test_whole_and_broken_numbers_are_taken():
    for value in (0.5, 7, 1e9):
        assert KubernetesBackend(config=Config({"KubernetesBackend": {"linger": value}})).linger == value
    assert KubernetesBackend(linger=0).linger == 0
