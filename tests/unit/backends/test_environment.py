"""What a job sees of the service's environment and of its notebook server's."""

import pytest

from jupyter_gq.backends.local.accounts import Account
from jupyter_gq.backends.local.environment import KEPT, base_environment, gang_environment


def an_account(switch=False):
    return Account(name="ann", uid=1, gid=1, groups=(1,), home="/home/ann", shell="/bin/bash", switch=switch)


@pytest.fixture(autouse=True)
def service_environment(monkeypatch):
    for name, value in {"LC_ALL": "C.UTF-8", "HOME": "/root", "JUPYTERHUB_API_TOKEN": "t", "SECRET": "s"}.items():
        monkeypatch.setenv(name, value)


def test_of_the_service_only_what_is_kept_is_seen():
    environment = base_environment(an_account(), KEPT, {}, {})
    assert environment["LC_ALL"] == "C.UTF-8"
    assert not {"JUPYTERHUB_API_TOKEN", "SECRET"} & environment.keys()


@pytest.mark.parametrize("name", ["GQ_JOB_ID", "JUPYTER_GQ_GPUS", "JUPYTERHUB_USER", "CUDA_VISIBLE_DEVICES", "", "A=B"])
def test_a_manifest_cannot_set_what_is_ours_or_impossible(name):
    assert name not in base_environment(an_account(), (), {name: "4", "COLOUR": "blue"}, {})


@pytest.mark.parametrize("value", ["a\0b", 3, None, ["x"]])
def test_a_value_that_no_environment_can_have_is_left_out(value):
    assert base_environment(an_account(), (), {"COLOUR": value}, {}) == {}


def test_later_ones_win():
    environment = base_environment(an_account(), KEPT, {"HOME": "/tmp/ann", "A": "manifest"}, {"A": "launch"})
    assert (environment["HOME"], environment["A"]) == ("/tmp/ann", "launch")


def test_a_system_user_is_himself_whatever_the_manifest_says():
    environment = base_environment(an_account(switch=True), KEPT, {"HOME": "/root", "USER": "root"}, {})
    assert [environment[name] for name in ("HOME", "USER", "LOGNAME", "SHELL")] == [
        "/home/ann",
        "ann",
        "ann",
        "/bin/bash",
    ]


def test_a_single_task_is_no_gang():
    assert gang_environment(0, 1, 0) == {}
    assert gang_environment(1, 2, 5000) == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "5000",
    }
