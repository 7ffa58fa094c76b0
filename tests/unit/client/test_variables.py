"""The smaller memory limit wins, of the user and of the share, wherever their variables are put together."""

import os

import pytest

from jupyter_gq.backends.kubernetes.objects.merging import with_additions
from jupyter_gq.backends.local.accounts import UnixAccount
from jupyter_gq.backends.local.environment import base_environment
from jupyter_gq.client.environment.kernel import prepare
from jupyter_gq.client.environment.variables import LIMIT_VARIABLES, add_share_variables
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.hub.kubernetes.pod_parts import PodParts, add_share
from jupyter_gq.runner.pod.folder import merge_environment, read_variables
from tests.builders import a_device

NEW, OLD, CUPY = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "CUPY_GPU_MEMORY_LIMIT"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
SHARE = share_environment([a_device("GPU-1")], MilliGpu(250))
CAP, BYTES = SHARE[NEW], SHARE[CUPY]


def limits_of(variables):
    return {name: value for name, value in variables.items() if name in LIMIT_VARIABLES}


@pytest.mark.parametrize(
    ("theirs", "kept"),
    [
        ({}, {NEW: CAP, CUPY: BYTES}),
        ({NEW: "0.1", CUPY: "10%"}, {NEW: "0.1", CUPY: "10%"}),
        ({NEW: "0.9", CUPY: "90%"}, {NEW: CAP, CUPY: BYTES}),
        ({OLD: "0.1", CUPY: "1048576"}, {OLD: "0.1", CUPY: "1048576"}),
        ({OLD: "0.9", CUPY: str(int(BYTES) + 1)}, {OLD: CAP, CUPY: BYTES}),
        ({NEW: "0.2", OLD: "0.1", CUPY: "0"}, {NEW: "0.1", CUPY: BYTES}),
        ({NEW: "", OLD: "", CUPY: ""}, {NEW: CAP, CUPY: BYTES}),
        ({NEW: "nan", CUPY: "inf%"}, {NEW: CAP, CUPY: BYTES}),
        ({NEW: "tenth", CUPY: "1 GB"}, {NEW: "tenth", CUPY: "1 GB"}),
    ],
)
def test_a_smaller_limit_of_the_user_wins_and_a_larger_one_is_capped(theirs, kept):
    """JAX refuses both names together; a text that is no number is refused by its framework."""
    merged = add_share_variables({**theirs, GROWTH: "false", "COLOUR": "blue"}, SHARE)
    assert limits_of(merged) == {**kept, GROWTH: "true"}
    assert {**merged, **SHARE} == {**SHARE, "COLOUR": "blue", **limits_of(merged), **SHARE}


def test_a_whole_device_leaves_the_limits_of_the_user():
    theirs = {NEW: "0.9", CUPY: "90%", GROWTH: "false"}
    assert limits_of(add_share_variables(theirs, share_environment([a_device("GPU-1")], ONE_GPU))) == theirs


def test_limits_of_the_launch_leave_those_of_a_job_to_the_share_of_each_task():
    account = UnixAccount(name="ann", uid=1, gid=1, groups=(1,), home="/home/ann", shell="/bin/bash", switch=False)
    base = base_environment(account, (), {NEW: "0.1"}, SHARE)
    assert limits_of(base) == {NEW: "0.1"}
    assert base["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_a_job_in_a_pod_keeps_its_smaller_limits(monkeypatch):
    for name, value in SHARE.items():
        monkeypatch.setenv(name, value)
    environment = {NEW: "0.1", CUPY: "90%", GROWTH: "false"}
    read = read_variables({"manifest": {"environment": environment}})
    assert limits_of(read) == {NEW: "0.1", CUPY: BYTES, GROWTH: "true"}


@pytest.mark.parametrize(
    ("pod", "job", "kept"),
    [
        ({}, {OLD: "0.1"}, {OLD: "0.1", CUPY: BYTES}),
        ({}, {NEW: "0.9", OLD: "0.2"}, {NEW: "0.2", CUPY: BYTES}),
        ({OLD: "0.1"}, {}, {OLD: "0.1", CUPY: BYTES}),
        ({OLD: "0.9"}, {NEW: "0.2"}, {NEW: "0.2", CUPY: BYTES}),
        ({CUPY: "10%"}, {CUPY: "5%"}, {NEW: CAP, CUPY: "5%"}),
        ({CUPY: "10%"}, {CUPY: "20%"}, {NEW: CAP, CUPY: "10%"}),
        ({CUPY: "10%"}, {CUPY: "1048576"}, {NEW: CAP, CUPY: "10%"}),
        ({NEW: "tenth", CUPY: "1 GB"}, {NEW: "0.1", CUPY: "5%"}, {NEW: "tenth", CUPY: "1 GB"}),
    ],
)
def test_runner_in_a_pod_has_one_limit_for_each_framework(monkeypatch, pod, job, kept):
    """The pod has the limits of its share, and those of its image or template beside them or in their place."""
    for name in LIMIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**SHARE, **pod}.items():
        monkeypatch.setenv(name, value)
    environment = merge_environment(
        os.environ, read_variables({"manifest": {"environment": {**job, "COLOUR": "blue"}}})
    )
    assert limits_of(environment) == {**kept, GROWTH: "true"}
    assert {**SHARE, "COLOUR": "blue"}.items() <= {**environment, **SHARE}.items()


@pytest.mark.parametrize(("older", "kept"), [("0.1", "0.1"), ("0.9", CAP), ("", None)])
def test_kernel_of_any_language_has_one_fraction_for_jax(older, kept):
    """A kernelspec of R, for one, may set the older name beside the newer one of the share."""
    command, environment = prepare(["R", "-e", "IRkernel::main()"], {**SHARE, OLD: older})
    found = {name: environment[name] for name in (NEW, OLD) if environment.get(name)}
    assert found == ({NEW: CAP} if kept is None else {OLD: kept})
    assert command == ["R", "-e", "IRkernel::main()"]


def test_kernel_without_a_part_of_a_device_keeps_what_its_user_has_set():
    assert prepare(["R"], {NEW: "0.9", OLD: "0.1"})[1] == {NEW: "0.9", OLD: "0.1"}


def test_container_of_a_job_has_one_fraction_for_jax():
    present = [{"name": NEW, "value": "0.2"}, {"name": OLD, "value": "0.1"}]
    pod = {"metadata": {}, "spec": {"containers": [{"name": "job", "env": present}]}}
    (container,) = with_additions(pod, PodAdditions(environment=SHARE))["spec"]["containers"]
    assert {each["name"]: each["value"] for each in container["env"] if each["name"] in (NEW, OLD)} == {NEW: "0.1"}


@pytest.mark.parametrize(("theirs", "kept"), [("10%", "10%"), ("90%", BYTES)])
def test_pods_keep_the_smaller_limits_of_their_templates(theirs, kept):
    present = [{"name": "COLOUR", "value": "blue"}, {"name": CUPY, "value": theirs}]
    additions = PodAdditions(environment=SHARE)
    of_notebook = add_share(PodParts(environment=present), additions).environment
    pod = {"metadata": {}, "spec": {"containers": [{"name": "job", "env": present}]}}
    of_job = with_additions(pod, additions)["spec"]["containers"][0]["env"]
    for variables in (of_notebook, of_job):
        assert [each["value"] for each in variables if each["name"] == CUPY] == [kept]
        assert {"COLOUR", *SHARE} == {each["name"] for each in variables}
