"""The journal of suspensions: what was begun and has not been undone or ended, by share.

Rules
-----
- Intent first: `write` returns after the entry is on the disk, and the step that the entry names begins after that.
- At rest: in the steps SUSPENDED and UNSUSPENDABLE nothing is going on. Every other step is finished or undone by
  `Suspender.recover`.
- One boot: process ids and start times mean nothing after a restart of the machine, so entries end with it.
- Said once: that the file cannot be read is logged when the reason changes, however often it is tried.
- Never in the way: a file that is damaged, or that cannot be read again and again, is set aside under another name.
  What it held is then asked of the driver. See `reconstruction`.

See docs/decisions/0119-journal-each-step-of-a-suspension.md and
docs/decisions/0252-ask-the-driver-what-a-lost-journal-held.md.
"""

import errno
import glob
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.plain_text import shorten

from .suspender import Suspension
from .threads import AlreadyTold

log = logging.getLogger(__name__)


class Step(StrEnum):
    """The steps of a share in the journal."""

    LOCKING = "LOCKING"  # the processes are being locked; no memory has moved
    CHECKPOINTING = "CHECKPOINTING"  # GPU memory is moving to the host
    SUSPENDED = "SUSPENDED"  # all GPU memory is in host memory
    RESTORING = "RESTORING"  # GPU memory is moving back, and the processes are being unlocked
    UNSUSPENDABLE = "UNSUSPENDABLE"  # the share runs, and is not tried again


#: Name of the file in the folder of the service or of the agent.
JOURNAL_NAME = "suspensions.json"
#: Failed readings in a row after which the file is set aside, and the least seconds between two that count. `Recovery`
#: reads it five times in 75 seconds, and others may read it more often.
_MOST_READINGS, _READING_PAUSE = 5, 5.0
#: Errors that say nothing about the file: this program, or the machine, has too few files or too little memory.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_ASIDE = (
    "The journal of suspended GPU memory could not be read, and was set aside as {aside}. The GPU driver is asked what "
    "it held, share by share: what is suspended stays so, and comes back to its GPU. Find out what damaged the file, "
    "such as a disk that fails. Then delete {aside}."
)
_UNREAD = (
    "The journal of suspended GPU memory, {path}, cannot be read: {error}. Until it can, nothing is suspended or "
    "brought back. Mend the disk or the rights of the file, or rename it to {path}.damaged: then the driver is asked."
)

#: Steps in which nothing is going on.
AT_REST = frozenset({Step.SUSPENDED, Step.UNSUSPENDABLE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A process of a share that uses devices."""

    id: ProcessId
    #: Memory in MiB by the UUID of the device on which it was, or is to be restored.
    memory: Mapping[str, MiB]


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalEntry:
    """The state of one share."""

    name: str
    step: Step
    #: In UNSUSPENDABLE, the processes that were refused.
    members: tuple[Member, ...] = ()
    #: Devices to restore on, by former device; only in RESTORING.
    moves: Mapping[str, str] = field(default_factory=dict)
    #: Sentence that says why the share cannot be suspended; only in UNSUSPENDABLE.
    reason: str = ""

    def suspension(self) -> Suspension:
        """Return the suspension that this entry describes."""
        return Suspension(
            name=self.name, processes=tuple(member.id for member in self.members), memory=sum_memory(self.members)
        )


class SuspensionJournal(Protocol):
    """A journal that several threads may use; one program at a time."""

    @property
    def trouble(self) -> str:
        """The trouble with the journal, as a sentence for administrators; "" if there is none."""
        ...

    @property
    def is_set_aside(self) -> bool:
        """Whether a former journal was set aside, so that a share without an entry may be suspended all the same."""
        ...

    def find(self, name: str) -> JournalEntry | None:
        """Return the entry of a share; None if there is none."""
        ...

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return all entries in order of their names."""
        ...

    def write(self, entry: JournalEntry) -> None:
        """Store the entry of a share in place of its former one, durably. Raises `OSError` if that fails."""
        ...

    def remove(self, name: str) -> None:
        """Remove the entry of a share, durably; does nothing without one. Raises `OSError` if that fails."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """The content of the file of a journal."""

    #: Id of the machine's start for which the entries hold.
    boot: str
    shares: tuple[JournalEntry, ...]


_FILE = TypeAdapter(_File)


class FileJournal:
    """The journal in a file, which each change replaces as a whole."""

    def __init__(self, path: Path, *, boot: str, elapsed: Callable[[], float] | None = None) -> None:
        """Choose the file, which is read at the first use; `boot` is the id of the machine's start.

        `elapsed` returns seconds since a fixed moment; with None, a file that cannot be read is never set aside.
        Entries of another start are dropped. A damaged file is set aside as `<name>.damaged` and logged.
        """
        self._path, self._boot, self._elapsed = path, boot, elapsed
        #: Failed readings in a row that count, and the error of the last one.
        self._failures, self._error = 0, ""
        #: When a failed reading counted last.
        self._counted_at = float("-inf")
        self._lock = threading.Lock()
        #: The entries by name; None before the first use.
        self._known: dict[str, JournalEntry] | None = None

    @property
    def trouble(self) -> str:
        """The trouble with the journal, as a sentence for administrators; "" if there is none."""
        if self._error:
            return _UNREAD.format(path=self._path, error=self._error)
        aside = ", ".join(map(str, self._find_aside()))
        return _ASIDE.format(aside=aside) if aside else ""

    @property
    def is_set_aside(self) -> bool:
        """Whether a former journal was set aside; True until an administrator deletes that file."""
        return bool(self._find_aside())

    def find(self, name: str) -> JournalEntry | None:
        """Return the entry of a share; None if there is none."""
        with self._lock:
            return self._entries.get(name)

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return all entries in order of their names."""
        with self._lock:
            return tuple(self._entries[name] for name in sorted(self._entries))

    def write(self, entry: JournalEntry) -> None:
        """Store the entry of a share in place of its former one, durably. Raises `OSError` if that fails."""
        with self._lock:
            self._replace({**self._entries, entry.name: entry})

    def remove(self, name: str) -> None:
        """Remove the entry of a share, durably; does nothing without one. Raises `OSError` if that fails."""
        with self._lock:
            if name in self._entries:
                self._replace({each: entry for each, entry in self._entries.items() if each != name})

    def _replace(self, entries: dict[str, JournalEntry]) -> None:
        """Write a new file, flush it to the disk, put it in the place of the old one, and remember the entries."""
        content = _FILE.dump_json(_File(boot=self._boot, shares=tuple(entries.values())))
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        with suppress(OSError):  # some file systems cannot flush a folder on request
            _sync_folder(self._path.parent)
        self._known = entries

    @property
    def _entries(self) -> dict[str, JournalEntry]:
        """The entries by name; the lock must be held."""
        if self._known is None:
            self._known = {entry.name: entry for entry in self._load()}
        return self._known

    def _load(self) -> tuple[JournalEntry, ...]:
        """Return the entries of the file; none if it is missing, of another start of the machine, or set aside.

        Raises `AlreadyTold` if it cannot be read, but will be tried again.
        """
        try:
            found = _read(self._path)
        except ValueError as error:
            self._set_aside(error, "it is damaged")
            return ()
        except OSError as error:
            why = error.strerror or str(error)
            self._count(error)
            if self._failures < _MOST_READINGS:
                raise self._tell(error, why) from error
            self._set_aside(error, why)
            return ()
        if self._error:
            log.info("the journal of suspensions %s can be read again", self._path)
        self._failures, self._error = 0, ""
        return found.shares if found is not None and found.boot == self._boot else ()

    def _count(self, error: OSError) -> None:
        """Count a failed reading, unless another one counted just now or the error is not of the file."""
        if self._elapsed is None or error.errno in _EXHAUSTED:
            return
        now = self._elapsed()
        if now - self._counted_at >= _READING_PAUSE:
            self._failures, self._counted_at = self._failures + 1, now

    def _tell(self, error: OSError, why: str) -> AlreadyTold:
        """Log why the file cannot be read, if that is new, and return the error for the caller."""
        is_new, self._error = why != self._error, why
        if is_new:
            log.error("%s", self.trouble)
        return AlreadyTold(error.errno, why)

    def _set_aside(self, cause: Exception, why: str) -> None:
        """Give the file a name that none had before, and log that. Raises `AlreadyTold` if that fails."""
        first = aside = self._path.with_name(f"{self._path.name}.damaged")
        numbers = itertools.count(2)
        try:
            while aside.exists():  # an administrator may have deleted some of them
                aside = first.with_name(f"{first.name}-{next(numbers)}")
            self._path.rename(aside)
        except OSError as error:
            raise self._tell(error, f"{why}, and cannot be renamed ({error.strerror})") from cause
        self._failures, self._error = 0, ""
        log.error("%s What was wrong with it: %s", _ASIDE.format(aside=aside), shorten(" ".join(str(cause).split())))

    def _find_aside(self) -> list[Path]:
        """Return the files that were set aside, in order of their names."""
        return sorted(self._path.parent.glob(f"{glob.escape(self._path.name)}.damaged*"))


def move_member(member: Member, moves: Mapping[str, str]) -> Member:
    """Return the member with its memory on its new devices; `moves` maps former devices to new ones, others stay."""
    return Member(id=member.id, memory=sum_memory([member], moves))


def sum_memory(members: Iterable[Member], moves: Mapping[str, str] | None = None) -> dict[str, MiB]:
    """Return the memory in MiB of all members together, by device.

    Memory of a device that `moves` has as a key is counted at the device to which the key leads.
    """
    total: dict[str, MiB] = {}
    for member in members:
        for former, memory in member.memory.items():
            device = (moves or {}).get(former, former)
            total[device] = MiB(total.get(device, 0) + memory)
    return total


def _read(path: Path) -> _File | None:
    """Return the content of a journal; None if there is no file. Raises `OSError`, or `ValueError` if it is damaged."""
    if path.is_fifo():  # to read it would wait for a program that writes into it
        raise OSError(errno.ESPIPE, "it is a pipe")
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
