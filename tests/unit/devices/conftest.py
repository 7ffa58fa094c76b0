"""Fixtures of the tests of devices."""

import errno
from types import SimpleNamespace

import pytest

from jupyter_gq.devices.suspension.journal import FileJournal

from .suspender_world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "journal")


@pytest.fixture
def disk(monkeypatch):
    """A disk of the journal that refuses all writes while it is full; `tries` counts them."""
    disk = SimpleNamespace(full=False, tries=0)
    replace = FileJournal._replace

    def replace_if_there_is_room(journal, entries):
        disk.tries += 1
        if disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(journal, entries)

    monkeypatch.setattr(FileJournal, "_replace", replace_if_there_is_room)
    return disk
