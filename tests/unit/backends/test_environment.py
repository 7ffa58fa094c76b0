"""The environment of a job is combined from the service, the notebook server and the launch."""

import pytest

from jupyter_gq.backends.local.accounts import UnixAccount
from jupyter_gq.backends.local.environment import KEPT_VARIABLES, base_environment


def an_account(switch=False):
    return UnixAccount(name="ann", uid=1, gid=1, groups=(1,), home="/home/ann", shell="/bin/bash", switch=switch)


@pytest.fixture(autouse=True)
def service_environment(monkeypatch):
    for name, value in {"LC_ALL": "C.UTF-8", "HOME": "/root", "JUPYTERHUB_API_TOKEN": "t", "SECRET": "s"}.items():
        monkeypatch.setenv(name, value)


def test_only_kept_variables_of_the_service_are_passed_on():
    environment = base_environment(an_account(), KEPT_VARIABLES, {}, {})
    assert environment["LC_ALL"] == "C.UTF-8"
    assert not {"JUPYTERHUB_API_TOKEN", "SECRET"} & environment.keys()


@pytest.mark.parametrize("name", ["GQ_JOB_ID", "JUPYTER_GQ_GPUS", "JUPYTERHUB_USER", "CUDA_VISIBLE_DEVICES", "", "A=B"])
def test_manifest_cannot_set_reserved_or_impossible_names(name):
    assert name not in base_environment(an_account(), (), {name: "4", "COLOUR": "blue"}, {})


@pytest.mark.parametrize("value", ["a\0b", 3, None, ["x"]])
def test_value_that_no_environment_can_have_is_left_out(value):
    assert base_environment(an_account(), (), {"COLOUR": value}, {}) == {}


def test_later_sources_override_earlier_ones():
    environment = base_environment(an_account(), KEPT_VARIABLES, {"HOME": "/tmp/ann", "A": "manifest"}, {"A": "launch"})
    assert (environment["HOME"], environment["A"]) == ("/tmp/ann", "launch")


def test_variables_of_a_system_user_override_the_manifest():
    environment = base_environment(an_account(switch=True), KEPT_VARIABLES, {"HOME": "/root", "USER": "root"}, {})
    assert [environment[name] for name in ("HOME", "USER", "LOGNAME", "SHELL")] == [
        "/home/ann",
        "ann",
        "ann",
        "/bin/bash",
    ]
