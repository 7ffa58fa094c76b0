"""The lock on a state folder: one living service works in it, and a dead one is in nobody's way."""

import os
import subprocess
import sys

import pytest

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.store.folder_lock import lock_folder
from tests.contract.small_disk import fill

HOLD = """
import sys
from pathlib import Path
from jupyter_gq.store.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_service(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_second_service_is_refused_and_the_first_is_named(tmp_path, other_service):
    pauses = []
    with (
        pytest.raises(AdminError, match=rf"process {other_service.pid}, works in the state folder .*state_dir"),
        lock_folder(tmp_path, timeout=1, sleep=pauses.append),
    ):
        pass
    assert sum(pauses) == pytest.approx(1)


def test_a_service_waits_for_a_predecessor_that_ends(tmp_path, other_service):
    def end_the_other(_seconds):
        other_service.kill()
        other_service.wait()

    with lock_folder(tmp_path, sleep=end_the_other):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_the_lock_is_free_after_its_block(tmp_path):
    for _ in range(2):
        with lock_folder(tmp_path / "new", timeout=0):
            pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(AdminError, match=r"state folder .*file/state cannot be used: Not a directory.*writable"),
        lock_folder(tmp_path / "file" / "state"),
    ):
        pass


def test_on_a_full_disk_the_folder_is_locked_without_the_number_of_its_holder(small_disk):
    (small_disk / "lock").touch()
    fill(small_disk)
    with (
        lock_folder(small_disk),
        pytest.raises(AdminError, match="process of an unknown number, works in"),
        lock_folder(small_disk, timeout=0),
    ):
        pass
