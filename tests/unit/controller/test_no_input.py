"""Standard input is empty while config files are executed, and is what it was afterwards."""

import os
import subprocess
import sys
import threading

import pytest

from jupyter_gq.controller.settings.no_input import no_input
from tests.patience import scaled


@pytest.fixture
def typed():
    """Let a pipe with a word in it be standard input; return its inode."""
    before = os.dup(0)
    reading, writing = os.pipe()
    os.write(writing, b"word\n")
    os.dup2(reading, 0)
    yield os.fstat(0).st_ino
    os.dup2(before, 0)
    for handle in (before, reading, writing):
        os.close(handle)


def test_programs_find_standard_input_empty_and_it_is_put_back_after_an_error(typed):
    before = sys.stdin

    def execute():
        with no_input():
            assert sys.stdin.read() == ""
            assert subprocess.run(["cat"], capture_output=True, check=True).stdout == b""
            assert os.fstat(0).st_ino != typed
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        execute()
    assert sys.stdin is before
    assert os.fstat(0).st_ino == typed


def test_of_two_files_that_are_executed_at_the_same_time_the_last_one_puts_it_back(typed):
    before, entered, leave = sys.stdin, threading.Event(), threading.Event()

    def execute():
        with no_input():
            entered.set()
            assert leave.wait(scaled(10))

    other = threading.Thread(target=execute)
    with no_input():
        other.start()
        assert entered.wait(scaled(10))
    assert os.fstat(0).st_ino != typed
    leave.set()
    other.join()
    assert sys.stdin is before
    assert os.fstat(0).st_ino == typed


def test_a_process_that_began_without_standard_input_keeps_the_file_that_has_its_number(typed, monkeypatch):
    monkeypatch.setattr(sys, "__stdin__", None)
    with no_input():
        assert os.fstat(0).st_ino == typed
    assert os.fstat(0).st_ino == typed


def test_a_closed_standard_input_is_closed_afterwards(typed):
    os.close(0)
    with no_input():
        assert sys.stdin.read() == ""
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(0)
