"""No part of a failed copy of checkpoints stays, whenever the run is told to stop."""

import errno
import itertools
import os
import sys
from contextlib import contextmanager

import pytest

from jupyter_gq.client.files.checkpoint_folder import COPYING, OWN_PREFIX, has_checkpoints
from jupyter_gq.runner.files import continuing
from jupyter_gq.runner.files.continuing import EarlierJob, StoppedWhileCopying, continue_from_job
from jupyter_gq.runner.pod.sigterm import StoppedBeforeStart
from jupyter_gq.runner.problems import RunError


@pytest.fixture
def earlier(tmp_path):
    folder = tmp_path / "job-1" / "checkpoint"
    (folder / "shards").mkdir(parents=True)
    (folder / "1.pt").write_text("one")
    (folder / "shards/0.pt").write_text("zero")
    return EarlierJob(id="job-1", checkpoint=folder)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "job-2" / "checkpoint"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def full_disk(monkeypatch):
    """A disk without room for the second file."""
    copies = 0

    def refuse(reading, writing, most):
        nonlocal copies
        copies += 1
        if copies % 2 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(writing, os.read(reading, most))

    monkeypatch.setattr(os, "copy_file_range", refuse)


def stop_at(line, run):
    """Call `run`, and raise what SIGTERM raises in a pod before the so-manieth line of the copy; return the lines."""
    lines = 0

    def trace(frame, event, _argument):
        nonlocal lines
        if frame.f_code.co_filename != continuing.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                raise StoppedBeforeStart
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was just opened
def test_a_stop_at_any_line_of_a_copy_that_fails_leaves_nothing(earlier, folder, full_disk):
    """A pod is told to stop once; the stop also comes while the part is taken back because of the failure."""

    def run():
        continue_from_job(earlier, folder, task=0, look=lambda: None)

    line, ends = 0, []
    while not ends or ends[-1] is not RunError:
        line += 1
        with pytest.raises((RunError, StoppedBeforeStart)) as end:
            stop_at(line, run)
        ends.append(end.type)
        assert list(folder.iterdir()) == [], f"line {line} of the copy"
    assert ends.count(StoppedBeforeStart) > 50


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk on which the removal of a copy takes longer than a run that is told to stop has for it."""
    times = itertools.count()
    monkeypatch.setattr(continuing, "monotonic", lambda: next(times) * 0.6)


def read(folder):
    """Return the content of the checkpoints in a folder, without the product's own files."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(OWN_PREFIX))
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def assert_whole_or_marked(earlier, folder, told):
    """Check that a folder is empty, whole or marked, and that the next run makes it whole."""
    content = read(folder)
    if has_checkpoints(folder):
        assert content == read(earlier.checkpoint), told
    assert (folder / COPYING).exists() or has_checkpoints(folder) or not content, told
    continue_from_job(earlier, folder, task=0, look=lambda: None)
    assert read(folder) == read(earlier.checkpoint), told
    assert not (folder / COPYING).exists(), told


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was just opened
def test_a_stop_at_any_line_of_a_copy_that_succeeds_leaves_no_part_without_its_mark(earlier, tmp_path, slow_disk):
    """The removal of a copy that is nearly whole, or that has just become whole, is given up half-way."""
    ends, marked = [], 0
    while not ends or ends[-1] is not None:
        folder = tmp_path / f"job-{len(ends)}" / "copy"
        folder.mkdir(parents=True)
        try:
            stop_at(len(ends) + 1, lambda: continue_from_job(earlier, folder, task=0, look=lambda: None))  # noqa: B023
            ends.append(None)
        except StoppedBeforeStart as stop:
            ends.append(type(stop))
            marked += 0 < len(read(folder)) < 2
        assert_whole_or_marked(earlier, folder, f"line {len(ends)} of the copy")
    assert len(ends) > 50
    assert marked > 5, "removals that were given up half-way"


@pytest.fixture
def lost_disk(monkeypatch):
    """A disk that fails from the so-manieth write to it on: no more is written or made, and only so much deleted."""
    fsync, opened, unlink = os.fsync, os.open, os.unlink

    @contextmanager
    def lose(writes, *, deletes):
        left = writes

        def refuse_write(handle):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "Input/output error")
            fsync(handle)

        def refuse_new(path, flags, *more, **named):
            if left < 0 and flags & os.O_CREAT and not os.path.lexists(path):
                raise OSError(errno.EIO, "Input/output error")
            return opened(path, flags, *more, **named)

        def refuse_removal(path, *more, **named):
            nonlocal deletes
            if left < 0:
                deletes -= 1
                if deletes < 0:
                    raise OSError(errno.EIO, "Input/output error")
            unlink(path, *more, **named)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", refuse_write)
            patch.setattr(os, "open", refuse_new)
            patch.setattr(os, "unlink", refuse_removal)
            yield

    return lose


@pytest.mark.parametrize("deletes", [0, 1, 100])
def test_a_disk_that_fails_at_any_write_leaves_no_part_without_its_mark(earlier, tmp_path, lost_disk, deletes):
    writes, has_failed = 0, True
    while has_failed:
        folder = tmp_path / f"job-{writes}" / "copy"
        folder.mkdir(parents=True)
        try:
            with lost_disk(writes, deletes=deletes):
                continue_from_job(earlier, folder, task=0, look=lambda: None)
            has_failed = False
        except RunError:
            assert_whole_or_marked(earlier, folder, f"write {writes}")
        writes += 1
    assert writes > 4


def test_a_run_that_is_told_to_stop_while_it_deletes_the_part_of_a_killed_one_stops(earlier, folder):
    for number in range(100):
        (folder / f"part-{number}").touch()
    (folder / COPYING).touch()
    looks = 0

    def stop():
        nonlocal looks
        looks += 1
        if looks == 10:
            raise StoppedWhileCopying

    with pytest.raises(StoppedWhileCopying):
        continue_from_job(earlier, folder, task=0, look=stop)
    assert list(folder.iterdir()) == []


def test_the_removal_after_a_stop_has_a_bound_and_the_next_run_ends_it(earlier, folder, full_disk, monkeypatch):
    monkeypatch.setattr(continuing, "_STOP_SECONDS", 0.0)

    def stop():
        raise StoppedBeforeStart

    (folder / "part").write_text("a part")
    (folder / COPYING).touch()
    with pytest.raises(StoppedBeforeStart):
        continue_from_job(earlier, folder, task=0, look=stop)
    assert (folder / COPYING).exists()
    assert not has_checkpoints(folder)
    with pytest.raises(RunError):
        continue_from_job(earlier, folder, task=0, look=lambda: None)
    assert list(folder.iterdir()) == []


def test_the_part_of_a_killed_run_goes_also_if_there_is_nothing_to_copy_any_more(tmp_path, folder):
    (folder / "part").write_text("a part")
    (folder / COPYING).touch()
    with pytest.raises(RunError, match="has no checkpoints any more"):
        continue_from_job(EarlierJob(id="job-1", checkpoint=tmp_path / "gone"), folder, task=0, look=lambda: None)
    assert list(folder.iterdir()) == []
