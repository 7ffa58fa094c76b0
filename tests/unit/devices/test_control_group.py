"""Who was short of memory is told from what Linux counts in a control group, and nothing is told that it does not."""

from pathlib import Path

import pytest

from jupyter_gq.devices.linux import control_group
from jupyter_gq.devices.linux.control_group import MemoryWatch
from jupyter_gq.domain.memory_kill import MemoryKill


def count(group: Path, *, oom: int, killed: int) -> None:
    (group / "memory.events").write_text(f"low 0\nhigh 0\nmax 12\noom {oom}\noom_kill {killed}\noom_group_kill 0\n")


@pytest.fixture
def group(tmp_path: Path) -> Path:
    (tmp_path / "memory.max").write_text(f"{16 * 2**30}\n")
    count(tmp_path, oom=1, killed=1)
    return tmp_path


def test_a_group_that_reached_its_limit_is_told_with_the_limit(group: Path) -> None:
    watch = MemoryWatch(group)
    assert watch.find_kill() is None
    count(group, oom=2, killed=2)
    kill = watch.find_kill()
    assert kill is not None
    assert kill.explain("the job") == "the job used more than its memory of 16 GiB"
    watch.restart()
    assert watch.find_kill() is None


def test_a_group_below_its_limit_was_killed_for_the_machine(group: Path) -> None:
    watch = MemoryWatch(group)
    count(group, oom=1, killed=2)
    assert watch.find_kill() == MemoryKill(limit=None)


def test_a_group_that_reached_its_limit_without_a_kill_is_not_told(group: Path) -> None:
    watch = MemoryWatch(group)
    count(group, oom=5, killed=1)
    assert watch.find_kill() is None


def test_what_was_counted_before_the_service_looked_can_count_too(group: Path) -> None:
    kill = MemoryWatch(group, since_made=True).find_kill()
    assert kill is not None
    assert kill.limit == 16 * 1024


@pytest.mark.parametrize("content", [None, "", "oom many\noom_kill 1\n", "oom 1\n"])
def test_a_group_that_counts_nothing_tells_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "memory.events").write_text(content)
    watch = MemoryWatch(tmp_path)
    assert (watch.is_known, watch.find_kill()) == (False, None)
    assert MemoryWatch(None).is_known is False


@pytest.mark.parametrize(
    ("group", "in_pod", "is_own"),
    [("jupyter-gq-job-1-2", False, True), ("user.slice", False, False), ("", True, True)],
    ids=["run on one machine", "group of the service", "container"],
)
def test_only_a_group_of_the_run_itself_tells_why_it_was_killed(monkeypatch, tmp_path, group, in_pod, is_own):
    monkeypatch.setattr(control_group, "find_group", lambda _: tmp_path / group)
    assert (control_group.find_group_of_run(in_pod=in_pod) is not None) is is_own


def test_a_group_is_found_beside_mount_points_and_groups_with_any_names(tmp_path):
    (tmp_path / "mountinfo").write_bytes(
        b"30 21 0:40 / /home/ann/a\xff\x0c\x0c\xc2\xa0-\xc2\xa0cgroup2 rw - fuse x rw\n"
        b"31 21 0:41 / /sys/fs/my\\040cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
    )
    (tmp_path / "cgroup").write_bytes(b"1:name=x\x0c0::/wrong\xff:/\n0::/user/ann\xff\n")
    assert control_group.find_group(tmp_path) == Path("/sys/fs/my cgroup/user/ann\udcff")
