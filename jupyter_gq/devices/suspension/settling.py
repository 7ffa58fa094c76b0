"""The ways of a share to rest: a resume, the undo of a suspension, and the recovery from a crash.

Rules
-----
- To rest: a share runs, or is suspended if its devices have no room for it. No process stays locked.
- Room first: each process is restored only while the probe shows room for all that are left.
- Whole: if the driver refuses to restore a process, those that are back are suspended again. The share waits as a whole
  then, and may come back on another device.
- Own moves: a process that is back on another device is restored there again, whatever moves for the rest.

See docs/decisions/0440-suspend-again-what-came-back-of-a-share.md.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointState

from .journal import JournalEntry, Member, Step, SuspensionJournal, move_member
from .suspender import Recovered, SuspensionError, SuspensionProblem
from .tree_steps import SuspensionLimits, TreeSteps, Waiting

log = logging.getLogger(__name__)

#: Attempts to bring a share back to rest before its entry is left to the next call.
MOST_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Settling:
    """The steps that bring the shares of a journal to rest. The caller excludes other calls for the same share."""

    steps: TreeSteps
    journal: SuspensionJournal
    waiting: Waiting
    limits: SuspensionLimits
    #: Shares that run, and whose entry stays only because the disk refused to remove it.
    back: set[str] = field(default_factory=set)

    def settle(self, name: str) -> Recovered:
        """Bring a share to rest, and return its state then: RUNNING, SUSPENDED or LOST.

        An unfinished resume or suspension ends as RUNNING if the devices have room, and as SUSPENDED otherwise. A share
        that is suspended already is not resumed. A share without an entry, or with one that marks it unsuspendable,
        counts as RUNNING. LOST means that the GPU state of a process is lost. Blocks: each of `MOST_ATTEMPTS` attempts
        waits up to `limits.settle_timeout` for room.

        Raises `SuspensionError` if the disk refuses to store the entry, and with BROKEN if the driver keeps failing.
        The entry then stays for the next call.
        """
        for attempt in range(MOST_ATTEMPTS):
            entry = self.journal.find(name)
            if entry is None or entry.step is Step.UNSUSPENDABLE:
                return Recovered.RUNNING
            try:
                return self._check_suspended(entry) if entry.step is Step.SUSPENDED else self._bring_back(entry)
            except CheckpointError as error:
                failure = error
                if attempt < MOST_ATTEMPTS - 1:
                    self.waiting.sleep(self.waiting.poll)
        raise SuspensionError(SuspensionProblem.BROKEN, failure.sentence) from failure

    def take_back(self, name: str) -> bool:
        """Suspend again what came back of a share whose resume is unfinished; return whether that was done.

        Returns False and changes nothing if nothing came back, or if a process of the share runs already or has lost
        its GPU state. If the driver or the disk fails, logs a warning and returns False; the entry stays unfinished.
        """
        entry = self.journal.find(name)
        if entry is None:
            return False
        try:
            found = self.steps.by_state(entry.members)
            locked = found[CheckpointState.LOCKED]
            if not locked or found[CheckpointState.RUNNING] or found[CheckpointState.FAILED]:
                return False
            entry = self._note_moved(entry, locked)
            self.steps.checkpoint(locked)
            self.write(replace(entry, step=Step.SUSPENDED, moves={}))
        except (CheckpointError, SuspensionError) as error:
            log.warning("%s is half back, and could not be suspended again: %s", name, error)
            return False
        return True

    def checkpointed(self, entry: JournalEntry) -> tuple[Member, ...]:
        """Return the members of the entry that are in host memory; raise `SuspensionError` if the driver fails."""
        return tuple(self._find_states(entry)[CheckpointState.CHECKPOINTED])

    def is_untouched(self, entry: JournalEntry) -> bool:
        """Return whether all members of the entry that still run are in host memory; raise `SuspensionError`."""
        return all(state is CheckpointState.CHECKPOINTED for state, found in self._find_states(entry).items() if found)

    def _find_states(self, entry: JournalEntry) -> Mapping[CheckpointState, Sequence[Member]]:
        try:
            return self.steps.by_state(entry.members)
        except CheckpointError as error:
            raise SuspensionError(SuspensionProblem.BROKEN, error.sentence) from error

    def _bring_back(self, entry: JournalEntry) -> Recovered:
        """Restore and unlock all members; without room for them, suspend all.

        Raises `CheckpointError`, and `SuspensionError` if the disk refuses to store the entry.
        """
        found = self.steps.by_state(entry.members)
        lost = bool(found[CheckpointState.FAILED])
        waiting = found[CheckpointState.CHECKPOINTED]
        has_room = self.steps.await_room(waiting, entry.moves, self.limits.settle_timeout) if waiting else True
        while waiting and has_room:
            lost = not self.steps.restore(waiting.pop(0), entry.moves) or lost
            has_room = self.steps.has_room(waiting, entry.moves)
        if waiting:
            again = self._suspend_again(entry)
            return Recovered.LOST if lost else again
        self.steps.unlock(self.steps.by_state(entry.members)[CheckpointState.LOCKED])
        self._remove_finished(entry.name)
        return Recovered.LOST if lost else Recovered.RUNNING

    def _suspend_again(self, entry: JournalEntry) -> Recovered:
        """Suspend the members that are locked or suspended; return RUNNING if none of them could be suspended.

        Raises `CheckpointError`, and `SuspensionError` if the disk refuses to store the entry.
        """
        locked = self.steps.by_state(entry.members)[CheckpointState.LOCKED]
        entry = self._note_moved(entry, locked)
        for member in locked:
            try:
                self.steps.checkpoint([member])
            except CheckpointError as error:
                log.warning("process %d of %s could not be suspended again: %s", member.id.pid, entry.name, error)
        return self._check_suspended(entry)

    def _note_moved(self, entry: JournalEntry, locked: Collection[Member]) -> JournalEntry:
        """Write where the restored members of a share are, which will be restored there again; return the entry."""
        if not entry.moves:  # nothing changes, and a full disk leaves no restored member on the device
            return entry
        members = tuple(move_member(member, entry.moves) if member in locked else member for member in entry.members)
        return self.write(replace(entry, members=members))

    def _check_suspended(self, entry: JournalEntry) -> Recovered:
        """Unlock locked members, and keep those that are suspended in the entry; return the state of the share.

        Raises `CheckpointError`, and `SuspensionError` if the disk refuses to store the entry.
        """
        found = self.steps.by_state(entry.members)
        self.steps.unlock(found[CheckpointState.LOCKED])
        suspended = tuple(found[CheckpointState.CHECKPOINTED])
        if suspended:
            rest = replace(entry, step=Step.SUSPENDED, members=suspended, moves={})
            if rest != entry:  # a full disk does not hide what is at rest already
                self.write(rest)
        else:
            self._remove_finished(entry.name)
        if found[CheckpointState.FAILED]:
            return Recovered.LOST
        return Recovered.SUSPENDED if suspended else Recovered.RUNNING

    def write(self, entry: JournalEntry) -> JournalEntry:
        """Store an entry and return it; raise `SuspensionError` if the disk refuses."""
        with _disk_errors():
            self.journal.write(entry)
        self.back.discard(entry.name)
        return entry

    def remove(self, name: str) -> None:
        """Remove an entry; raise `SuspensionError` if the disk refuses."""
        with _disk_errors():
            self.journal.remove(name)
        self.back.discard(name)

    def _remove_finished(self, name: str) -> None:
        """Remove the entry of a share that runs; one that the disk keeps counts for nothing until the next call."""
        try:
            self.remove(name)
        except SuspensionError as error:
            self.back.add(name)
            log.warning("%s runs, and its entry stays: %s", name, error)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Raise a `SuspensionError` in place of an `OSError` of the block."""
    try:
        yield
    except OSError as error:
        raise SuspensionError(
            SuspensionProblem.DISK, f"The journal of suspensions cannot be written: {error.strerror or error}."
        ) from error
