"""Control groups as folders with the files of the kernel, which is as strict with their contents as it is."""

import logging

import pytest

from jupyter_gq.backends import control_groups
from jupyter_gq.backends.control_groups import (
    ParentGroup,
    RunLimits,
    describe_limits,
    freeze_group,
    make_group,
    prepare_parent,
)

ALL = frozenset({"cpu", "memory", "pids"})


def a_group(folder, *, offered="cpu io memory pids", enabled="", pids=""):
    folder.mkdir(parents=True, exist_ok=True)
    files = {"cgroup.controllers": offered, "cgroup.subtree_control": enabled, "cgroup.procs": pids, "cgroup.type": ""}
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


class Kernel:
    """Plays the kernel: a group with processes refuses controllers, and a process is in one group only."""

    def __init__(self, monkeypatch, *, refused=()):
        self.refused, self._write, self._mkdir = refused, control_groups.Path.write_text, control_groups.Path.mkdir
        monkeypatch.setattr(control_groups.Path, "write_text", lambda path, text: self.write(path, text))
        monkeypatch.setattr(control_groups.Path, "mkdir", lambda path, **options: self.mkdir(path, **options))

    def write(self, path, text):
        group, word = path.parent, text.strip()
        if path.name in self.refused:
            raise OSError(22, "Invalid argument")
        if path.name == "cgroup.subtree_control":
            if (group / "cgroup.procs").read_text():
                raise OSError(16, "Device or resource busy")
            text = f"{path.read_text()} {word[1:]}"
        elif path.name == "cgroup.procs":
            above = group.parent / "cgroup.procs"
            self._write(above, " ".join(pid for pid in above.read_text().split() if pid != word))
            text = f"{path.read_text()} {word}"
        self._write(path, text)

    def mkdir(self, path, **options):
        self._mkdir(path, **options)
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.controllers"):
            self._write(path / name, "")


@pytest.fixture
def kernel(monkeypatch):
    return lambda **options: Kernel(monkeypatch, **options)


def test_a_container_s_outermost_group_is_emptied_so_that_its_groups_have_limits(tmp_path, kernel):
    own = a_group(tmp_path / "own", pids="1 7")
    kernel()
    parent = prepare_parent(own)
    assert parent == ParentGroup(folder=own, controllers=ALL)
    assert (own / "jupyter-gq-hub/cgroup.procs").read_text().split() == ["1", "7"]
    assert prepare_parent(own / "jupyter-gq-hub") == parent, "a service that the Hub starts again"
    assert describe_limits(parent).startswith("Control groups limit each job")


def test_no_process_is_moved_in_a_group_of_others(tmp_path, kernel):
    """A session, or the unit of a Hub without Delegate=yes; and the root of the machine, which has no type."""
    a_group(tmp_path / "slice")
    own = a_group(tmp_path / "slice/own", pids="1 7")
    root = a_group(tmp_path / "root", pids="1 7")
    (root / "cgroup.type").unlink()
    kernel()
    for group in (own, root):
        parent = prepare_parent(group)
        assert parent == ParentGroup(folder=group)
        assert (group / "cgroup.procs").read_text() == "1 7"
        assert "Nothing limits the CPU, memory, number of processes of jobs" in describe_limits(parent)
    assert describe_limits(prepare_parent(None)) == describe_limits(ParentGroup(folder=own))


def test_what_the_kernel_does_not_offer_is_named(tmp_path, kernel):
    own = a_group(tmp_path / "own", offered="cpu pids")
    kernel()
    parent = prepare_parent(own)
    assert parent is not None
    assert "Nothing limits the memory of jobs" in describe_limits(parent)
    assert set(RunLimits(cpu_milli=1000, memory_mib=4, processes=9).files(parent.controllers)) == {
        "cpu.weight",
        "pids.max",
    }


@pytest.mark.parametrize(("cpu_milli", "weight"), [(1, "1"), (100, "4"), (1000, "39"), (300_000, "10000")])
def test_weights_are_those_of_kubernetes(cpu_milli, weight):
    assert RunLimits(cpu_milli=cpu_milli).files(ALL) == {"cpu.weight": weight}


def test_what_is_not_requested_is_not_limited():
    assert RunLimits().files(ALL) == {}


def test_a_limit_that_the_kernel_refuses_is_logged_and_the_others_are_set(tmp_path, kernel, caplog):
    own = a_group(tmp_path / "own", enabled="cpu memory pids")
    kernel(refused=("memory.swap.max",))
    parent = ParentGroup(folder=own, controllers=ALL)
    with caplog.at_level(logging.WARNING):
        group = make_group(parent, "run", RunLimits(memory_mib=4, processes=9))
    assert "memory.swap.max of the control group" in caplog.text
    limits = {name: (own / "run" / name).read_text().strip() for name in ("memory.max", "pids.max")}
    assert (group, limits) == (str(own / "run"), {"memory.max": str(4 * 2**20), "pids.max": "9"})


def test_a_group_is_frozen_and_thawed_where_the_kernel_can_do_it(tmp_path):
    freeze_group("", True)
    freeze_group(str(tmp_path), True)
    assert list(tmp_path.iterdir()) == [], "an old Linux has no such file"
    file = tmp_path / "cgroup.freeze"
    file.write_text("0\n")
    freeze_group(str(tmp_path), True)
    assert file.read_text() == "1\n"
    freeze_group(str(tmp_path), False)
    assert file.read_text() == "0\n"
