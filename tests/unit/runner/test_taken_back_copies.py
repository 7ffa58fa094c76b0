"""No part of a failed copy of checkpoints stays, whenever the run is told to stop."""

import errno
import os
import sys

import pytest

from jupyter_gq.client.files.checkpoint_folder import COPYING, has_checkpoints
from jupyter_gq.runner.files import continuing
from jupyter_gq.runner.files.continuing import EarlierJob, continue_from_job
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
