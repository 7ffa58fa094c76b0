"""One agent at a time acts by the journal of a node."""

import errno
import logging
import os
import subprocess
import sys

import pytest

from jupyter_gq.devices.suspension.journal_lock import OTHER_AGENT, JournalLock
from tests.patience import scaled, until

HOLD = """
import sys
from pathlib import Path
from jupyter_gq.devices.suspension.journal_lock import JournalLock
lock = JournalLock(Path(sys.argv[1]))
print(lock.hold() or "held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "suspensions.json"


@pytest.fixture
def other(journal):
    """Another process, which holds the lock."""
    command = [sys.executable, "-c", HOLD, str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_agent_is_told_once_who_has_the_journal(journal, other, caplog):
    lock = JournalLock(journal)
    told = OTHER_AGENT.format(holder=other.pid, journal=journal)
    assert [lock.hold(), lock.hold()] == [told, told]
    assert [record.getMessage() for record in caplog.records] == [told]


def test_an_agent_without_a_free_descriptor_takes_nothing(journal, other, monkeypatch):
    lock = JournalLock(journal)
    told = lock.hold()

    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as machine:
        machine.setattr(os, "open", refuse)
        assert "cannot be seen now (Too many open files)" in lock.hold()
        assert "cannot be seen now (Too many open files)" in JournalLock(journal).hold()
    assert lock.hold() == told


def test_the_kernel_gives_the_lock_back_when_the_process_dies(journal, other, caplog):
    lock = JournalLock(journal)
    assert lock.hold()
    other.kill()
    other.wait(scaled(30))
    with caplog.at_level(logging.INFO):
        until(lambda: lock.hold() == "", "the lock")
    assert "this agent notes suspensions in" in caplog.text
    assert journal.with_name("suspensions.json.lock").read_text() == str(os.getpid())
    assert JournalLock(journal).hold(), "it is held"


def test_an_agent_whose_lock_file_was_deleted_locks_the_new_one(journal):
    lock, file = JournalLock(journal), journal.with_name("suspensions.json.lock")
    assert lock.hold() == ""
    file.unlink()
    assert lock.hold() == ""
    assert file.read_text() == str(os.getpid())
    assert JournalLock(journal).hold(), "it is held again"


def test_of_two_agents_with_two_lock_files_only_the_second_one_goes_on(journal):
    first, second = JournalLock(journal), JournalLock(journal)
    assert first.hold() == ""
    journal.with_name("suspensions.json.lock").unlink()
    assert second.hold() == ""
    told = OTHER_AGENT.format(holder=os.getpid(), journal=journal)
    assert [first.hold(), first.told, second.hold()] == [told, told, ""]


def test_a_pipe_in_the_place_of_the_lock_holds_up_nothing(journal):
    os.mkfifo(journal.with_name("suspensions.json.lock"))
    assert JournalLock(journal).hold() == ""


def test_where_no_lock_can_be_made_nothing_tells_of_another_agent(tmp_path):
    assert JournalLock(tmp_path / "missing" / "suspensions.json").hold() == ""


def test_a_link_in_the_place_of_the_lock_is_not_followed(journal):
    victim = journal.with_name("victim")
    victim.write_text("kept")
    journal.with_name("suspensions.json.lock").symlink_to(victim)
    assert JournalLock(journal).hold() == ""
    assert victim.read_text() == "kept"
