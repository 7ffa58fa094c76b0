"""The room for GPU state in host memory is that of the tightest control group of its processes, or of the machine."""

import os

import pytest

from jupyter_gq.devices.suspension.host_memory import HostRoom, LinuxHostMemory

MIB = 1024 * 1024


@pytest.fixture
def machine(tmp_path):
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc / "meminfo", "MemTotal:  9999999 kB\nMemAvailable:    8192000 kB\n")
    write(proc / "7/cgroup", "0::/user.slice/server\n")
    write(proc / "8/cgroup", "0::/\n")
    groups.mkdir()
    return proc, groups


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def room(machine, *pids):
    proc, groups = machine
    return LinuxHostMemory(proc=proc, groups=groups).room(pids)


def test_machine_without_limits_has_what_is_available(machine):
    write(machine[1] / "user.slice/memory.max", "max\n")
    write(machine[1] / "user.slice/memory.current", f"{MIB}\n")
    assert room(machine, 7) == HostRoom(memory=8000, place="this machine")


@pytest.mark.parametrize("folder", ["user.slice/server", "user.slice", "."])
def test_limit_of_any_group_above_a_process_counts(machine, folder):
    write(machine[1] / folder / "memory.max", f"{500 * MIB}\n")
    write(machine[1] / folder / "memory.current", f"{200 * MIB}\n")
    name = "/" if folder == "." else f"/{folder}"
    assert room(machine, 8, 7) == HostRoom(memory=300, place=f"the control group {name}")


def test_the_name_of_a_group_may_have_every_character_but_a_line_feed(machine):
    """Users choose the names of their groups. The group of another user has less room."""
    (machine[0] / "7/cgroup").write_bytes(b"0::/own\xff\r0::/other\x0c0::/other\n")
    own = os.fsdecode(b"own\xff\r0::/other\x0c0::/other")
    for name, most in ((own, 500), ("other", 1)):
        write(machine[1] / name / "memory.max", f"{most * MIB}\n")
        write(machine[1] / name / "memory.current", "0\n")
    found = room(machine, 7)
    assert found.memory == 500
    assert found.place.encode().startswith(b"the control group /own")


def test_file_cache_can_be_reclaimed(machine):
    write(machine[1] / "user.slice/memory.max", f"{500 * MIB}\n")
    write(machine[1] / "user.slice/memory.current", f"{600 * MIB}\n")
    assert room(machine, 7).memory == 0
    write(machine[1] / "user.slice/memory.stat", f"anon 5\ninactive_file {150 * MIB}\nactive_file 7\n")
    assert room(machine, 7).memory == 50


def test_control_groups_of_version_1(machine):
    write(machine[0] / "7/cgroup", "5:cpu:/other\n4:memory:/docker/abc\n")
    write(machine[1] / "memory/docker/abc/memory.limit_in_bytes", f"{500 * MIB}\n")
    write(machine[1] / "memory/docker/abc/memory.usage_in_bytes", f"{100 * MIB}\n")
    assert room(machine, 7) == HostRoom(memory=400, place="the control group /memory/docker/abc")


def test_process_that_has_ended_has_no_limit(machine):
    assert room(machine, 99).memory == 8000


def test_room_is_unknown_without_the_memory_of_the_machine(machine):
    (machine[0] / "meminfo").unlink()
    assert room(machine, 7) is None


def test_room_of_this_machine_is_known():
    assert LinuxHostMemory().room([os.getpid()]).memory > 0


@pytest.mark.parametrize(
    ("text", "is_seen"),
    [
        ("0::/kubepods/pod1/c\n", True),
        ("0::/kubepods/pod2/c\n", False),
        ("0::/../cgroup/kubepods/pod1/c\n", False),
        ("0::/\n", False),
        ("4:memory:/kubepods/pod1/c\n0::/elsewhere\n", True),
    ],
)
def test_beside_other_containers_a_group_that_is_not_seen_makes_the_room_unknown(machine, text, is_seen):
    proc, groups = machine
    for root in ("kubepods/pod1/c", "memory/kubepods/pod1/c"):
        write(groups / root / "memory.max", f"{500 * MIB}\n")
        write(groups / root / "memory.current", f"{200 * MIB}\n")
        write(groups / root / "memory.limit_in_bytes", f"{500 * MIB}\n")
    write(proc / "7/cgroup", text)
    memory = LinuxHostMemory(proc=proc, groups=groups, must_see_groups=True)
    assert memory.sees_groups(7) is is_seen
    assert (memory.room([7]) is not None) is is_seen
    if is_seen:
        assert memory.room([7]).memory == 300
