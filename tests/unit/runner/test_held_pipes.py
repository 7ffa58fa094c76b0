"""The runner holds the pipes of its kernel, and nobody else's, whatever the kernel names."""

import mmap
import os
import subprocess

import pytest

from jupyter_gq.domain.last_words import SIZE, PrintedText
from jupyter_gq.runner.cells.last_words import LastWords


@pytest.fixture
def sleeper():
    """A process in a session of its own, whose standard input is a pipe with a word in it."""
    process = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE, start_new_session=True)
    process.stdin.write(b"word")
    process.stdin.flush()
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("own", "words"), [(True, [("stdout", "word")]), (False, [])])
def test_only_a_process_of_the_session_of_the_kernel_is_believed(sleeper, own, words):
    last_words = LastWords()
    with mmap.mmap(last_words.file, SIZE) as memory:
        PrintedText(memory, "stdout").begin(sleeper.pid, 0)
    last_words.hold_pipes(sleeper.pid if own else os.getsid(0))
    assert last_words.take(0) == words


def test_a_kernel_cannot_cut_off_the_memory_that_its_runner_reads():
    last_words = LastWords()
    for size in (0, 2 * SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(last_words.file, size)
    assert last_words.take(0) == []


@pytest.mark.parametrize("pid", [0, -1, 2**62])
def test_a_process_that_there_is_not_has_no_pipes(pid):
    last_words = LastWords()
    with mmap.mmap(last_words.file, SIZE) as memory:
        PrintedText(memory, "stdout").begin(pid, 0)
    last_words.hold_pipes(os.getsid(0))
    assert last_words.take(0) == []
