"""The lock on a journal of suspensions: only one agent at a time acts by the journal of a node.

Two agents would each replace the file as a whole, so that entries of the other one, and with them suspended programs,
would be lost. The kernel releases the lock when the process ends, however it ends.

A lock file that was deleted says nothing any more: another agent may lock a new one. So each look compares the file
that is locked with the one that is there.

See docs/decisions/0464-let-one-agent-act-by-the-journal-of-a-node.md.
"""

import errno
import fcntl
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from jupyter_gq.domain.plain_text import strip_controls

log = logging.getLogger(__name__)

OTHER_AGENT: Final = (
    "Another agent, process {holder}, notes suspensions in {journal}, so this one suspends nothing and brings nothing "
    "back. Let one agent run on each node, or give each a folder of its own: c.NodeAgent.journal."
)
_UNKNOWN: Final = (
    "Whether another agent notes suspensions in {journal} cannot be seen now ({why}), so this one suspends nothing and "
    "brings nothing back. It looks again with each report. Raise the limit of open files of the agent."
)
_NOT_YET: Final = "Whether another agent notes suspensions in {journal} has not been looked at yet."


class JournalLock:
    """The lock of one process on the journal at a path; threads may share it."""

    def __init__(self, journal: Path) -> None:
        """Choose the journal. Nothing is opened or made before the first call of `hold`."""
        self._journal, self._path = journal, f"{journal}.lock"
        self._mutex = threading.Lock()
        #: The open file that has the lock; None while it is not held.
        self._file: int | None = None
        self._told = _NOT_YET.format(journal=journal)

    @property
    def told(self) -> str:
        """The result of the last call of `hold`; before the first one, a sentence that says so. Never blocks."""
        return self._told

    def hold(self) -> str:
        """Take the lock beside the journal unless this process holds it; return "" if it may act by the journal.

        If another process holds the lock, or if that cannot be seen for lack of a descriptor, returns a sentence that
        says so and what to do; each new sentence is logged. Waits for the disk, and not for the other process. Where no
        lock can be made, as in a folder that this process may not write or on a file system without locks, "" is
        returned, since nothing tells of another agent.
        """
        with self._mutex:
            told, before = "" if self._is_held() else self._take(), self._told
            self._told = told
        if told and told != before:
            log.error("%s", told)
        elif before not in ("", _NOT_YET.format(journal=self._journal)) and not told:
            log.info("this agent notes suspensions in %s from now on", self._journal)
        return told

    def _is_held(self) -> bool:
        """Return whether this process has locked the file that is there; close any other one."""
        if self._file is None:
            return False
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._file), os.lstat(self._path)):
                return True
        os.close(self._file)
        self._file = None
        return False

    def _take(self) -> str:
        """Take the lock if one can be made; return "" if this process may act, otherwise why it may not."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError as error:
            unknown = _UNKNOWN.format(journal=self._journal, why=error.strerror)
            return unknown if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = "of an unknown number"
            with suppress(OSError):  # a disk that fails
                holder = strip_controls(os.pread(file, 20, 0).decode(errors="replace")).strip() or holder
            os.close(file)
            is_held = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
            return OTHER_AGENT.format(holder=holder, journal=self._journal) if is_held else ""
        self._file = file
        if not self._is_held():  # deleted meanwhile, perhaps by the process that has locked a new file
            return _NOT_YET.format(journal=self._journal)
        with suppress(OSError):  # on a full disk the lock works too, and only does not say who holds it
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        return ""
