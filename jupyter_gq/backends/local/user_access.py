"""Access to the files of a user: in a thread of its own, which has the user's rights, and with a deadline.

Rules
-----
One thread: only the rights of that thread change. Other threads of the service, such as those that read its settings,
keep theirs.

Effective rights only: the real and the saved user id stay those of root, so the user can neither signal nor trace the
thread.

Deadline: a file system may never answer, such as NFS without its server or FUSE by the user. After `DEADLINE` seconds
the caller goes on, and the thread is abandoned.

Bounded: if `MOST_BLOCKED` accesses to files of a user are abandoned, further ones are refused at once, until `PAUSE`
seconds after one of them has ended. If all jobs have the service's own user, the folder counts instead of the user.

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

from .accounts import UnixAccount

Result = TypeVar("Result")

#: Seconds for which a caller waits.
DEADLINE = 5.0
#: Most abandoned accesses to files of one user.
MOST_BLOCKED = 2
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

#: Number of abandoned accesses, by user or folder.
_blocked: Counter[str] = Counter()
_lock = threading.Lock()


def run_as(
    account: UnixAccount,
    path: Path,
    operation: Callable[[], Result],
    *,
    discard: Callable[[Result], None] | None = None,
) -> Result:
    """Return the result of an operation on the file or folder `path`, carried out with the rights of the account.

    Errors of the operation are raised. Raises `TimeoutError` with a sentence if the operation does not end in time, or
    if too many earlier ones have not ended. `discard` takes the result of an operation that ends too late.
    """
    place = account.name if account.switch else str(path.parent)
    with _lock:
        if _blocked[place] >= MOST_BLOCKED:
            why = f"{_blocked[place]} earlier accesses were not answered in time"
            raise TimeoutError(errno.ETIMEDOUT, f"the files of {place} cannot be reached: {why}", str(path))
    future: Future[Result] = Future()
    work = threading.Thread(target=_carry_out, args=(future, account, operation), name=f"files of {place}", daemon=True)
    work.start()
    concurrent.futures.wait([future], DEADLINE)
    if not future.done():
        _abandon(future, place, discard)
        raise TimeoutError(errno.ETIMEDOUT, f"the file system gave no answer for {DEADLINE:g} s", str(path))
    return future.result()


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


def _abandon(future: "Future[Result]", place: str, discard: Callable[[Result], None] | None) -> None:
    """Count an operation as blocked until `PAUSE` seconds after its end."""

    def release() -> None:
        with _lock:
            _blocked[place] -= 1

    def end(done: "Future[Result]") -> None:
        if discard is not None and done.exception() is None:
            discard(done.result())
        timer = threading.Timer(PAUSE, release)
        timer.daemon = True
        timer.start()

    with _lock:
        _blocked[place] += 1
    future.add_done_callback(end)
