"""The lock on a journal of suspensions: only one agent at a time acts by the journal of a node.

Two agents would each replace the file as a whole, so that entries of the other one, and with them suspended programs,
would be lost. The kernel releases the lock when the process ends, however it ends.

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

log = logging.getLogger(__name__)

OTHER_AGENT: Final = (
    "Another agent, process {holder}, notes suspensions in {journal}, so this one suspends nothing and brings nothing "
    "back. Let one agent run on each node, or give each a folder of its own: c.NodeAgent.journal."
)


_UNKNOWN: Final = (
    "Whether another agent notes suspensions in {journal} cannot be seen now ({why}), so this one suspends nothing and "
    "brings nothing back. It looks again with each report. Raise the limit of open files of the agent."
)


class JournalLock:
    """The lock of one process on the journal at a path; threads may share it."""

    def __init__(self, journal: Path) -> None:
        """Choose the journal. Nothing is opened or made before the first call of `hold`."""
        self._journal = journal
        self._mutex = threading.Lock()
        #: The open file that has the lock; None while it is not held.
        self._file: int | None = None
        self._told = ""

    def hold(self) -> str:
        """Take the lock beside the journal unless this process holds it; return "" if it may act by the journal.

        If another process holds the lock, or if that cannot be seen for lack of a descriptor, returns a sentence that
        says so and what to do; each new sentence is logged. Does not wait for the other process. Where no lock can be
        made, as in a folder that this process may not write or on a file system without locks, "" is returned, since
        nothing tells of another agent.
        """
        with self._mutex:
            told = "" if self._file is not None else self._take()
            if told and told != self._told:
                log.error("%s", told)
            elif self._told and not told:
                log.info("this agent notes suspensions in %s from now on", self._journal)
            self._told = told
            return told

    def _take(self) -> str:
        """Take the lock, or return the sentence about the process that has it."""
        try:
            file = os.open(f"{self._journal}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            unknown = _UNKNOWN.format(journal=self._journal, why=error.strerror)
            return unknown if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "of an unknown number"
            os.close(file)
            is_held = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
            return OTHER_AGENT.format(holder=holder, journal=self._journal) if is_held else ""
        with suppress(OSError):  # on a full disk the lock works too, and only does not say who holds it
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        self._file = file
        return ""
