"""Files of users: opened with the rights of the user in one thread, and given up if no answer comes."""

import os
import threading
from pathlib import Path

import pytest

from jupyter_gq.backends.local import user_access
from jupyter_gq.backends.local.accounts import UnixAccount
from jupyter_gq.backends.local.files import read_owned_json
from jupyter_gq.backends.local.user_access import MOST_BLOCKED, MOST_OF_USER, NotAskedError, find_mount_point, run_as
from jupyter_gq.domain.errors import UnansweredFile, UnusableFile
from tests.patience import scaled

NOBODY = 65534


def an_account(name="ann", *, uid=NOBODY, switch=False):
    return UnixAccount(name=name, uid=uid, gid=uid, groups=(uid,), home="/", shell="", switch=switch)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(user_access, "DEADLINE", 0.05)
    monkeypatch.setattr(user_access, "PAUSE", 0.0)


@pytest.fixture
def answered(monkeypatch):
    """Return a function after which files that answer are waited for, however busy the machine is."""
    return lambda: monkeypatch.setattr(user_access, "DEADLINE", scaled(30))


def rights():
    """Effective user, group and groups of this thread, and its real user."""
    lines = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text().splitlines()
    told = {line.split(":")[0]: line.split()[1:] for line in lines}
    return told["Uid"][1], told["Gid"][1], told["Groups"], told["Uid"][0]


@pytest.mark.skipif(os.geteuid() != 0, reason="taking the rights of another user needs root")
def test_only_the_thread_that_opens_the_file_has_the_rights_of_the_user(tmp_path, answered):
    answered()
    mine = rights()

    assert run_as(an_account(switch=True), tmp_path, rights) == (str(NOBODY), str(NOBODY), [str(NOBODY)], "0")
    inside, go_on = threading.Event(), threading.Event()
    work = threading.Thread(
        target=run_as, args=(an_account(switch=True), tmp_path, lambda: (inside.set(), go_on.wait(scaled(30))))
    )
    work.start()
    inside.wait(scaled(30))
    assert rights() == mine
    assert os.geteuid() == 0
    go_on.set()
    work.join()


def test_an_error_of_the_operation_is_raised(tmp_path, answered):
    answered()
    with pytest.raises(FileNotFoundError):
        run_as(an_account(), tmp_path / "none", (tmp_path / "none").stat)


def test_a_caller_goes_on_if_no_answer_comes_and_then_asks_no_more(tmp_path, answered):
    pipe, others = tmp_path / "pipe", set(threading.enumerate())
    os.mkfifo(pipe)

    def blocks():
        return os.open(pipe, os.O_RDONLY)  # waits for a writer

    for _ in range(MOST_BLOCKED):
        with pytest.raises(TimeoutError, match=r"gave no answer for 0\.05 s"):
            run_as(an_account(), pipe, blocks, discard=os.close)
    with pytest.raises(TimeoutError, match="2 earlier accesses were not answered in time"):
        run_as(an_account(), pipe, lambda: 1)
    with pytest.raises(UnusableFile, match=r"The file result\.json cannot be used: the files of .* cannot be reached"):
        read_owned_json(tmp_path / "result.json", an_account(), limit=100)
    answered()
    other = tmp_path / "other"
    other.mkdir()
    assert run_as(an_account(), other / "file", lambda: 1) == 1, "other folders are not concerned"
    writer = os.open(pipe, os.O_RDWR)
    for thread in set(threading.enumerate()) - others:
        if thread.is_alive():  # a thread of others may be about to start
            thread.join(scaled(30))
    assert not user_access._blocked[str(tmp_path), ""]
    assert run_as(an_account(), pipe, lambda: 1) == 1, "everything was answered"
    os.close(writer)


MOUNTS = """21 1 8:1 / / rw - ext4 /dev/sda rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/ann/my\\040data rw - fuse x rw
32 30 0:42 / /home/bob/a\fb\vc\x85\u2028\udcff rw - fuse x rw
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    """The table of file systems, in place of that of this machine."""
    table = tmp_path / "mountinfo"
    table.write_bytes(os.fsencode(MOUNTS))
    monkeypatch.setattr(user_access, "_MOUNTS", table)
    return table


@pytest.fixture
def blocked(monkeypatch):
    """Let users hang in file systems until the end of the test, each access without its own deadline."""
    monkeypatch.setattr(user_access, "DEADLINE", 0.01)
    go_on = threading.Event()

    def hang(account, path):
        with pytest.raises(TimeoutError):
            run_as(account, Path(path), go_on.wait)

    yield hang
    go_on.set()


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/srv/x", "/"),
        ("/home", "/home"),
        ("/homes/ann", "/"),
        ("/home/ann/a", "/home"),
        ("/home/ann/my data/a", "/home/ann/my data"),
        ("/home/bob/a\fb\vc\x85\u2028\udcff/a", "/home/bob/a\fb\vc\x85\u2028\udcff"),
    ],
)
def test_the_file_system_of_a_path_is_the_longest_mount_point(mounts, path, mount):
    assert find_mount_point(Path(path)) == mount


def test_without_a_table_all_is_one_file_system(mounts):
    mounts.unlink()
    assert find_mount_point(Path("/home/ann/a")) == "/"


@pytest.mark.skipif(os.geteuid() != 0, reason="taking the rights of another user needs root")
def test_a_dead_file_system_refuses_no_files_of_the_user_elsewhere(mounts, blocked, answered):
    ann = an_account("ann-1", switch=True)
    for _ in range(MOST_BLOCKED):
        blocked(ann, "/home/ann/a")
    answered()
    with pytest.raises(TimeoutError, match="the files of ann-1 in /home cannot be reached: 2 earlier accesses"):
        run_as(ann, Path("/home/ann/b"), lambda: 1)
    assert run_as(ann, Path("/var/jobs/result.json"), lambda: 1) == 1
    assert run_as(an_account("bob-1", switch=True), Path("/home/bob"), lambda: 1) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="taking the rights of another user needs root")
def test_a_user_of_many_dead_file_systems_has_few_threads_and_the_rest_counts_as_not_asked(mounts, blocked, tmp_path):
    ann = an_account("ann-2", switch=True)
    for number in range(MOST_OF_USER):
        with mounts.open("a") as table:
            table.write(f"{50 + number} 21 0:{50 + number} / /dead/{number} rw - fuse x rw\n")
        blocked(ann, f"/dead/{number}/a")
    with pytest.raises(NotAskedError, match="the files of ann-2 are not asked for: 32 earlier accesses to other file"):
        run_as(ann, Path("/var/x"), lambda: 1)
    with pytest.raises(UnansweredFile) as told:
        read_owned_json(tmp_path / "result.json", ann, limit=100)
    assert not told.value.asked
