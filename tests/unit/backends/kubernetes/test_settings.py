"""A setting with an impossible value is told in one sentence, before anything begins."""

import subprocess
import sys

import pytest
from traitlets import TraitError

from jupyter_gq.backends.kubernetes.settings import KubernetesBackend


@pytest.mark.parametrize("setting", ["starts_ahead", "creations"])
def test_none_at_one_time_is_refused_as_nothing_would_ever_start(setting, tmp_path):
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(
        "c.SchedulerService.backend = 'kubernetes'\n"
        f"c.SchedulerService.state_dir = {str(tmp_path)!r}\n"
        f"c.KubernetesBackend.hub_namespace = 'hub'\nc.KubernetesBackend.{setting} = 0\n"
    )
    code = "from jupyter_gq.service import SchedulerService; SchedulerService.launch_instance(['--config', {!r}])"
    command = [sys.executable, "-c", code.format(str(config))]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"The scheduler service cannot start. {config}: The value of the '{setting}' trait" in ended.stderr
    assert "should not be less than 1, but a value of 0 was specified" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["", "gq-{username}", "{username}.secrets", "a" * 200 + "{username}"])
def test_a_name_for_the_secret_of_each_user_is_taken(name):
    assert KubernetesBackend(user_secret=name).user_secret == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gq", "all users would have one Secret"),
        ("{username}/{username}", "all users would have one Secret"),
        ("GQ_{username}", "no Secret can have this name"),
        ("gq-{username}-{namespace}", "no Secret can have this name"),
        ("{username}-", "no Secret can have this name"),
        ("a" * 201 + "{username}", "at most 200 beside"),
    ],
)
def test_a_name_that_no_secret_of_one_user_can_have_is_refused_before_the_service_starts(name, problem):
    with pytest.raises(TraitError, match=problem):
        KubernetesBackend(user_secret=name)
