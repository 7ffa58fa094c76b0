"""Processes are assigned to the pods that they belong to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.agent.processes import (
    Processes,
    find_pod_by_cgroup,
    find_pod_by_environment,
    parse_pod_of_cgroup,
    parse_pod_of_environment,
)

from .proc import OTHER, UID, FakeProc

UNDERSCORES = UID.replace("-", "_")
STATIC = "3c1d7cbb0f0e4f0d8c6a4d1e2b3a4c5d"


@pytest.mark.parametrize(
    ("path", "pod"),
    [
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORES}.slice/cri-containerd-1f.scope",
            UID,
        ),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORES}.slice/crio-1f.scope", UID),
        (f"/kubepods/besteffort/pod{UID}/1f", UID),
        (f"/kubepods/pod{UID}", UID),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{UNDERSCORES}.slice/cri-containerd-1f.scope/init",
            UID,
        ),
        (f"/../../kubepods-besteffort-pod{UNDERSCORES}.slice/cri-containerd-1f.scope", UID),
        (f"/kubepods/burstable/pod{STATIC}/1f", STATIC),
        ("/system.slice/containerd.service", None),
        ("/user.slice/user-1000.slice/tripod.service", None),
        (f"/machine.slice/libpod-{UID}.scope", None),
        ("/kubepods.slice/kubepods-burstable.slice", None),
        (f"/kubepods/burstable/pod{UID}0/1f", None),
        ("/", None),
    ],
)
def test_pod_is_found_in_each_spelling_of_a_cgroup_path(path, pod):
    assert parse_pod_of_cgroup(f"0::{path}\n") == pod
    assert parse_pod_of_cgroup(f"12:pids:/\n5:cpu,cpuacct:{path}\n1:name=systemd:/\n0::/\n") == pod, "version 1"


@pytest.mark.parametrize(
    ("block", "pod"),
    [
        (b"A=1\0JUPYTER_GQ_POD_UID=x-1\0B=2\0", "x-1"),
        (b"A=JUPYTER_GQ_POD_UID=x\0XJUPYTER_GQ_POD_UID=y\0", None),
        (b"JUPYTER_GQ_POD_UID=\0", None),
        (b"", None),
    ],
)
def test_pod_is_found_only_in_the_variable_of_exactly_that_name(block, pod):
    assert parse_pod_of_environment(block) == pod


def test_processes_are_listed_by_pod_and_pods_without_processes_are_left_out(tmp_path):
    proc = FakeProc(tmp_path)
    for pid, pod in ((30, UID), (4, UID), (5, OTHER), (6, None)):
        proc.add(pid, pod=pod)
    (tmp_path / "self").mkdir()
    seen = Processes(tmp_path, find_pod_by_cgroup)
    assert seen.by_pod([UID]) == {UID: (4, 30)}
    assert seen.by_pod([UID, OTHER, STATIC]) == {UID: (4, 30), OTHER: (5,)}
    assert seen.by_pod([]) == {}


def test_process_that_ends_meanwhile_or_may_not_be_read_belongs_to_no_pod(tmp_path):
    proc = FakeProc(tmp_path)
    proc.add(4, pod=UID)
    (proc.add(5, pod=UID) / "cgroup").unlink()
    home = proc.add(6, pod=UID) / "cgroup"
    home.unlink()
    home.mkdir()  # a folder cannot be read as a file, which stands for a missing permission
    assert Processes(tmp_path, find_pod_by_cgroup).by_pod([UID]) == {UID: (4,)}


def test_no_process_is_found_without_a_proc(tmp_path):
    assert Processes(tmp_path / "none", find_pod_by_cgroup).by_pod([UID]) == {}


def test_real_process_and_its_children_are_found_by_their_environment():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    pod = f"pod-of-{os.getpid()}"  # tests beside this one start processes of pods too
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "JUPYTER_GQ_POD_UID": pod},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdout.readline() == b"1\n"
        seen = Processes(Path("/proc"), find_pod_by_environment)
        pids = seen.by_pod([pod])[pod]
        assert started.pid in pids
        assert len(pids) == 2
        assert set(seen.without_entry_processes(pids)) == set(pids) - {started.pid}
        started.communicate(b"\n")


def test_entry_processes_are_left_out_once_they_have_children(tmp_path):
    proc = FakeProc(tmp_path)
    for pid, parent, name in ((10, 1, "a (tini) b"), (11, 10, "server"), (12, 11, "kernel"), (13, 1, "orphan")):
        proc.add(pid, pod=UID, parent=parent, name=name)
    seen = Processes(tmp_path, find_pod_by_cgroup)
    assert seen.without_entry_processes((10, 11, 12, 13)) == (11, 12, 13)
    assert seen.without_entry_processes((11, 12)) == (12,), "the server is the entry process"
    assert seen.without_entry_processes((12,)) == (12,), "a single process is no entry process"
