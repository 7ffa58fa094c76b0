"""Which process belongs to which pod."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.agent.processes import Processes, by_cgroup, by_environment, pod_in_cgroup, pod_in_environment

from .proc import OTHER, UID, AProc

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
def test_the_pod_stands_in_the_path_of_the_cgroup_in_every_spelling(path, pod):
    assert pod_in_cgroup(f"0::{path}\n") == pod
    assert pod_in_cgroup(f"12:pids:/\n5:cpu,cpuacct:{path}\n1:name=systemd:/\n0::/\n") == pod, "version 1"


@pytest.mark.parametrize(
    ("block", "pod"),
    [
        (b"A=1\0JUPYTER_GQ_POD_UID=x-1\0B=2\0", "x-1"),
        (b"A=JUPYTER_GQ_POD_UID=x\0XJUPYTER_GQ_POD_UID=y\0", None),
        (b"JUPYTER_GQ_POD_UID=\0", None),
        (b"", None),
    ],
)
def test_the_mark_is_a_variable_of_that_very_name(block, pod):
    assert pod_in_environment(block) == pod


def test_each_pod_has_its_processes_and_one_without_any_is_left_out(tmp_path):
    proc = AProc(tmp_path)
    for pid, pod in ((30, UID), (4, UID), (5, OTHER), (6, None)):
        proc.process(pid, pod=pod)
    (tmp_path / "self").mkdir()
    seen = Processes(tmp_path, by_cgroup)
    assert seen.of_pods([UID]) == {UID: (4, 30)}
    assert seen.of_pods([UID, OTHER, STATIC]) == {UID: (4, 30), OTHER: (5,)}
    assert seen.of_pods([]) == {}


def test_a_process_that_ends_meanwhile_or_may_not_be_read_belongs_to_no_pod(tmp_path):
    proc = AProc(tmp_path)
    proc.process(4, pod=UID)
    (proc.process(5, pod=UID) / "cgroup").unlink()
    home = proc.process(6, pod=UID) / "cgroup"
    home.unlink()
    home.mkdir()  # reading it fails, as it does without the right to
    assert Processes(tmp_path, by_cgroup).of_pods([UID]) == {UID: (4,)}


def test_without_a_proc_nothing_is_seen(tmp_path):
    assert Processes(tmp_path / "none", by_cgroup).of_pods([UID]) == {}


def test_a_real_process_is_known_by_its_mark_and_so_are_its_children():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "JUPYTER_GQ_POD_UID": UID},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdout.readline() == b"1\n"
        seen = Processes(Path("/proc"), by_environment)
        pids = seen.of_pods([UID])[UID]
        assert started.pid in pids
        assert len(pids) == 2
        assert set(seen.without_entry(pids)) == set(pids) - {started.pid}
        started.communicate(b"\n")


def test_what_a_pod_was_started_with_is_left_out_once_it_has_children(tmp_path):
    proc = AProc(tmp_path)
    for pid, parent, name in ((10, 1, "a (tini) b"), (11, 10, "server"), (12, 11, "kernel"), (13, 1, "orphan")):
        proc.process(pid, pod=UID, parent=parent, name=name)
    seen = Processes(tmp_path, by_cgroup)
    assert seen.without_entry((10, 11, 12, 13)) == (11, 12, 13)
    assert seen.without_entry((11, 12)) == (12,), "the server is what it was started with"
    assert seen.without_entry((12,)) == (12,), "a process alone is the share"
