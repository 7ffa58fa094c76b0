"""What a machine has: its own, or what the control groups around the service leave of it."""

import os

import pytest

from jupyter_gq.backends.local import machine
from jupyter_gq.backends.local.settings import LocalBackend

CORES = len(os.sched_getaffinity(0)) * 1000


def a_root(folder, *, group="0::/user/service\n", **limits):
    """A file system with 16 GiB, and limits such as `user__memory_max="max"`."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text("MemFree: 12 kB\nMemTotal:       16777216 kB\n")
    if group is not None:
        (folder / "proc/self/cgroup").write_text(group)
    for path, text in limits.items():
        *names, controller, what = path.split("_")
        file = folder.joinpath("sys/fs/cgroup", *filter(None, names), f"{controller}.{what}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return folder


def test_without_limits_it_is_the_whole_machine(tmp_path):
    root = a_root(tmp_path, user_service_memory_max="max", user_service_cpu_max="max 100000")
    assert (machine.memory(root), machine.cpus(root)) == (16384, CORES)


def test_the_smallest_limit_on_the_way_up_counts(tmp_path):
    root = a_root(tmp_path, user_service_memory_max=8 * 2**30, user_memory_max=4 * 2**30, user_cpu_max="50000 100000")
    assert (machine.memory(root), machine.cpus(root)) == (4096, 500)


def test_a_limit_beyond_the_machine_adds_nothing(tmp_path):
    root = a_root(tmp_path, user_service_memory_max=64 * 2**30)
    assert machine.memory(root) == 16384


@pytest.mark.parametrize("group", [None, "4:memory:/somewhere\n", ""])
def test_without_control_groups_of_version_2_the_machine_counts(tmp_path, group):
    assert machine.memory(a_root(tmp_path, group=group, memory_max=2**30)) == 16384


def test_an_administrator_can_leave_room_for_others(tmp_path):
    backend = LocalBackend(cpus="1.5", memory="2 GiB").backend(
        state_dir=tmp_path, probe=_NoDevices(), now=lambda: 0.0, service_url=""
    )
    (node,) = backend.nodes()
    assert (node.cpu_milli, node.memory) == (1500, 2048)


@pytest.mark.parametrize(("trait", "value"), [("cpus", "many"), ("memory", "2 X")])
def test_what_is_no_amount_is_refused_with_the_setting_and_the_value(trait, value):
    with pytest.raises(Exception, match=rf"c\.LocalBackend\.{trait} = '{value}': it is not a number; write"):
        LocalBackend(**{trait: value})


class _NoDevices:
    def devices(self):
        return ()
