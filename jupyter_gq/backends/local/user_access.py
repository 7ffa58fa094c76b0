"""Access to the files of a user: in a thread of its own, which has the user's rights, and with a deadline.

Rules
-----
One thread: only the rights of that thread change. Other threads of the service, such as those that read its settings,
keep theirs.

Effective rights only: the real and the saved user id stay those of root, so the user can neither signal nor trace the
thread.

Deadline: a file system may never answer, such as NFS without its server or FUSE by the user. After `DEADLINE` seconds
the caller goes on, and the thread is abandoned.

Bounded: if `MOST_BLOCKED` accesses of a user to one file system are abandoned, further ones are refused at once, until
`PAUSE` seconds after one of them has ended. Other file systems are asked, up to `MOST_OF_USER` abandoned accesses. If
all jobs have the service's own user, the folder counts instead of the user and the file system.

Text only: the file system of a path is found by the path itself, since a look at a folder may hang.

See docs/decisions/0086-open-users-files-in-threads-with-their-rights.md.
"""

import concurrent.futures
import ctypes
import errno
import os
import platform
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from jupyter_gq.devices.linux.mounts import read_mounts
from jupyter_gq.domain.errors import MachineError

from .accounts import UnixAccount

Result = TypeVar("Result")

#: Seconds for which a caller waits.
DEADLINE = 5.0
#: Most abandoned accesses of one user to one file system.
MOST_BLOCKED = 2
#: Most abandoned accesses of one user to all file systems: users may mount as many of their own as they like.
MOST_OF_USER = 32
#: Seconds for which an abandoned access counts after its end. Otherwise a slow file system could delay each step.
PAUSE = 60.0

_GENERIC_NUMBERS = (159, 149, 147)
#: Numbers of the system calls setgroups, setresgid and setresuid, by machine. The functions of the C library with these
#: names change all threads of the process.
_NUMBERS = {
    "x86_64": (116, 119, 117),
    "aarch64": _GENERIC_NUMBERS,
    "riscv64": _GENERIC_NUMBERS,
    "ppc64le": (81, 169, 164),
    "s390x": (206, 210, 208),
}

#: The table of file systems.
_MOUNTS = Path("/proc/self/mountinfo")

#: Number of abandoned accesses, by user or folder, and by mount point; "" = all file systems of a user.
_blocked: Counter[tuple[str, str]] = Counter()
_lock = threading.Lock()


class NotAskedError(MachineError, TimeoutError):
    """An access that was not tried, because too many accesses of the user to other file systems are unanswered."""


def run_as(
    account: UnixAccount,
    path: Path,
    operation: Callable[[], Result],
    *,
    discard: Callable[[Result], None] | None = None,
) -> Result:
    """Return the result of an operation on the file or folder `path`, carried out with the rights of the account.

    Errors of the operation are raised. Raises `TimeoutError` with a sentence if the operation does not end in time, or
    if too many earlier ones have not ended; `NotAskedError` if those were for other file systems. `discard` takes the
    result of an operation that ends too late.
    """
    user = account.name if account.switch else str(path.parent)
    place = (user, find_mount_point(path) if account.switch else "")
    _expect_answer(place, path)
    future: Future[Result] = Future()
    work = threading.Thread(target=_carry_out, args=(future, account, operation), name=f"files of {user}", daemon=True)
    work.start()
    concurrent.futures.wait([future], DEADLINE)
    if not future.done():
        _abandon(future, place, discard)
        raise TimeoutError(errno.ETIMEDOUT, f"the file system gave no answer for {DEADLINE:g} s", str(path))
    return future.result()


def find_mount_point(path: Path) -> str:
    """Return the mount point of the file system of an absolute path without links; "/" if the table is unreadable."""
    try:
        points = {mount.point for mount in read_mounts(_MOUNTS)}
    except OSError:
        return "/"
    return next((str(each) for each in (path, *path.parents) if str(each) in points), "/")


def _expect_answer(place: tuple[str, str], path: Path) -> None:
    """Raise `TimeoutError` if too many accesses to this place, or of this user, were abandoned."""
    user, mount = place
    with _lock:
        of_place, of_user = _blocked[place], _blocked[user, ""]
    if of_place >= MOST_BLOCKED:
        where = f"the files of {user} in {mount}" if mount else f"the files of {user}"
        why = f"{of_place} earlier accesses were not answered in time"
        raise TimeoutError(errno.ETIMEDOUT, f"{where} cannot be reached: {why}", str(path))
    if of_user >= MOST_OF_USER:
        why = f"{of_user} earlier accesses to other file systems were not answered in time"
        raise NotAskedError(errno.ETIMEDOUT, f"the files of {user} are not asked for: {why}", str(path))


def _carry_out(future: "Future[Result]", account: UnixAccount, operation: Callable[[], Result]) -> None:
    """Take the rights of the account in this thread, and store the result or the error of the operation."""
    try:
        if account.switch:
            _take_rights(account)
        result = operation()
    except BaseException as error:  # noqa: BLE001 - the caller raises the error
        future.set_exception(error)
    else:
        future.set_result(result)


def _take_rights(account: UnixAccount) -> None:
    """Give this thread the effective rights of the account for the rest of its life; raise `OSError` if not allowed."""
    if platform.machine() not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"system users are not supported on {platform.machine()}")
    set_groups, set_gid, set_uid = _NUMBERS[platform.machine()]
    groups = (ctypes.c_uint32 * len(account.groups))(*account.groups)
    _call(set_groups, len(groups), ctypes.addressof(groups))
    _call(set_gid, -1, account.gid, -1)
    _call(set_uid, -1, account.uid, -1)


def _call(number: int, *arguments: int) -> None:
    """Call the kernel, without the C library; raise `OSError` if it refuses."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(*(ctypes.c_long(each) for each in (number, *arguments))) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _abandon(future: "Future[Result]", place: tuple[str, str], discard: Callable[[Result], None] | None) -> None:
    """Count an operation as blocked until `PAUSE` seconds after its end."""
    counted = {place, (place[0], "")}

    def release() -> None:
        with _lock:
            _blocked.subtract(counted)

    def end(done: "Future[Result]") -> None:
        if discard is not None and done.exception() is None:
            discard(done.result())
        timer = threading.Timer(PAUSE, release)
        timer.daemon = True
        timer.start()

    with _lock:
        _blocked.update(counted)
    future.add_done_callback(end)
