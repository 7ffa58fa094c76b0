"""The suspender of shares on this machine, by a checkpointer and a probe; see `suspender.Suspender` for the rules.

A suspension locks all processes, asks whether a cell has begun, checkpoints all, looks for processes that have begun
to use a device meanwhile, and waits until the probe shows that the memory has left the devices.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointProblem, CheckpointSupport
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import Seconds

from .host_memory import HostMemory
from .journal import AT_REST, JournalEntry, Member, Step, SuspensionJournal, sum_memory
from .reconstruction import Reconstruction
from .settling import Settling
from .suspender import Recovered, Suspension, SuspensionError, SuspensionProblem, SuspensionTarget
from .tree_steps import SuspensionLimits, TreeSteps, Waiting

log = logging.getLogger(__name__)

#: Rounds in which new processes of a share are looked for before a suspension is given up.
_MOST_ROUNDS = 3
_KINDS = {
    CheckpointProblem.BUSY: SuspensionProblem.BUSY,
    CheckpointProblem.OUT_OF_MEMORY: SuspensionProblem.LOST,
    CheckpointProblem.LOST: SuspensionProblem.LOST,
    CheckpointProblem.UNSUPPORTED: SuspensionProblem.UNSUSPENDABLE,
    CheckpointProblem.NO_PERMISSION: SuspensionProblem.UNAVAILABLE,
}
_NOTHING = "No program of this share uses a GPU."
_UNKNOWN = "The driver does not tell how much GPU memory this share uses."
_ELSEWHERE = "Programs of this share are back on another GPU, and the driver does not suspend them again."
_LOST = "The GPU state of a program of this share is lost. Restart its kernel."


class ShareSuspender:
    """The suspender of the shares of this machine; see `suspender.Suspender` for the guarantees."""

    def __init__(
        self,
        *,
        checkpointer: Checkpointer,
        probe: DeviceProbe,
        host: HostMemory,
        journal: SuspensionJournal,
        waiting: Waiting,
        limits: SuspensionLimits,
    ) -> None:
        self._checkpointer, self._probe, self._host, self._journal = checkpointer, probe, host, journal
        self._limits = limits
        self._waiting = waiting
        self._steps = TreeSteps(checkpointer=checkpointer, probe=probe, limits=limits, waiting=waiting)
        self._settling = Settling(steps=self._steps, journal=journal, waiting=waiting, limits=limits)
        self._reconstruction = Reconstruction(
            checkpointer=checkpointer, probe=probe, host=host, device_margin=limits.device_margin
        )
        #: Mutexes of the shares for which there is a call now.
        self._mutexes: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._naming = threading.Lock()
        #: Held while host memory is counted and a new entry is written, so that no two shares take the same memory.
        self._accounts = threading.Lock()

    def support(self) -> CheckpointSupport:
        """Return whether this machine can suspend, and a sentence for people; never raises an exception."""
        return self._checkpointer.support()

    def obstacle(self, target: SuspensionTarget) -> str | None:
        """Return a sentence that says why the share cannot be suspended now; None if an attempt is worthwhile."""
        try:
            members = self._find_members(target, target.find_processes())
            self._expect_host_memory(target.name, members)
        except SuspensionError as error:
            return error.sentence
        return None

    def suspend(self, target: SuspensionTarget, is_wanted: Callable[[], bool]) -> Suspension:
        """Move the GPU state of the share to host memory; its device memory is free when this returns.

        If `is_wanted` returns True once all processes are locked, everything is undone. Returns the present suspension
        if the share is suspended already. Raises `SuspensionError`: the share then runs as before, unless the problem
        is LOST.
        """
        with self._alone(target.name):
            present = self._find_suspended(target.name)
            if present is not None:
                return present.suspension()
            entry = self._begin(target)
            try:
                done = self._carry_out(entry, target, is_wanted)
            except (CheckpointError, SuspensionError) as error:
                return self._undo(target.name, error)
            except Exception:  # of the caller's functions
                self._settling.settle(target.name)
                raise
            log.info("suspended %s: %d MiB of %d processes", done.name, done.suspension().total, len(done.members))
            return done.suspension()

    def resume(self, name: str, *, timeout: Seconds, device: str | None = None) -> Suspension:
        """Bring the GPU state of a suspended share back to its devices, or all of it to `device`; return what it was.

        The probe must show the memory free within `timeout` seconds. With `device` None, the state comes back where it
        was. Raises `SuspensionError`: after NO_ROOM the share is still suspended, after LOST its kernels need a
        restart.
        """
        with self._alone(name):
            begun, entry = self._can_still_move(name, device), self._at_rest(name)
            if begun is not None and begun.step is Step.RESTORING and (entry is None or name in self._settling.back):
                return begun.suspension()  # an earlier attempt is finished by now
            if entry is None or entry.step is not Step.SUSPENDED:
                raise SuspensionError(SuspensionProblem.NOT_SUSPENDED, "This share is not suspended.")
            moves = {former: device for former in sum_memory(entry.members) if device not in (None, former)}
            if moves and not self.support().can_move:
                raise SuspensionError(
                    SuspensionProblem.UNAVAILABLE, "The driver of this machine cannot resume a share on another device."
                )
            members = self._await_room(entry, moves, timeout)
            entry = self._settling.write(replace(entry, step=Step.RESTORING, members=members, moves=moves))
            try:
                outcome = self._settling.settle(name)
            except SuspensionError:
                self._settling.take_back(name)
                raise
            if outcome is Recovered.LOST:
                raise SuspensionError(SuspensionProblem.LOST, _LOST)
            if outcome is Recovered.SUSPENDED:
                raise SuspensionError(
                    SuspensionProblem.NO_ROOM, "The device memory was taken before the resume; the share is suspended."
                )
            log.info("resumed %s: %d MiB of %d processes", name, entry.suspension().total, len(members))
            return entry.suspension()

    def recover(self, names: Collection[str] | None = None) -> Mapping[str, Recovered]:
        """Finish or undo whatever a crash interrupted; return the state of each share in the journal by name.

        `names` are the shares to look at, None = all; a share without an entry is RUNNING. A failure of one share is
        logged, and leaves only that share UNKNOWN.
        """
        found: dict[str, Recovered] = {}
        for name in [entry.name for entry in self._journal.entries()] if names is None else sorted(names):
            try:
                with self._alone(name):
                    self._remove_needless_refusal(name)
                    found[name] = self._settling.settle(name)
            except (CheckpointError, SuspensionError) as error:
                found[name] = Recovered.UNKNOWN
                log.warning("after the start, %s could not be brought to rest: %s", name, error)
            else:
                log.info("after the start, %s is %s", name, found[name].value)
        return found

    @property
    def trouble(self) -> str:
        """The trouble with the journal, as a sentence for administrators; "" if there is none."""
        return self._journal.trouble

    def may_lack(self, name: str, *, is_away: bool) -> bool:
        """Return whether the entry of this share may be lost: it has none, but a former journal may have had one.

        So it is if a journal was set aside, or if the record of the share says that it is away from its devices.
        """
        return (is_away or self._journal.is_set_aside) and self._journal.find(name) is None

    def rebuild(self, target: SuspensionTarget) -> Recovered:
        """Write the journal entry of a share anew from what the driver shows of its processes, and recover the share.

        Call this for a share for which `may_lack` is true. Returns UNTOUCHED if the driver shows no suspension. A
        failure is logged, and UNKNOWN is returned.
        """
        support = self.support()
        if not support.available:  # such a driver knows no process, as if nothing had been suspended
            log.warning("what the lost journal held of %s could not be found: %s", target.name, support.detail)
            return Recovered.UNKNOWN
        try:
            with self._alone(target.name):
                entry = self._journal.find(target.name) or self._reconstruction.find_entry(target)
                if entry is None:
                    return Recovered.UNTOUCHED
                self._settling.write(entry)
                found = self._settling.settle(target.name)
        except (CheckpointError, SuspensionError) as error:
            log.warning("what the lost journal held of %s could not be found: %s", target.name, error)
            return Recovered.UNKNOWN
        log.info("the lost journal held %s, which is %s", target.name, found.value)
        return found

    def suspensions(self) -> tuple[Suspension, ...]:
        """Return all shares that are suspended now or half back, in order of their names."""
        entries = [each for each in self._journal.entries() if each.name not in self._settling.back]
        return tuple(each.suspension() for each in entries if each.step in (Step.SUSPENDED, Step.RESTORING))

    def unsuspendable(self, name: str) -> str | None:
        """Return the remembered reason for which this share cannot be suspended; None if there is none."""
        entry = self._journal.find(name)
        return entry.reason if entry is not None and entry.step is Step.UNSUSPENDABLE else None

    def forget(self, name: str) -> None:
        """Remove a share that has ended, and the reason for which it could not be suspended."""
        with self._alone(name):
            self._settling.remove(name)

    # --- the steps of a suspension ------------------------------------------------------------------------------------

    def _find_members(self, target: SuspensionTarget, processes: Collection[ProcessId]) -> tuple[Member, ...]:
        """Return the processes to suspend with their memory; raise `SuspensionError` if that cannot succeed."""
        support = self.support()
        if not support.available:
            raise SuspensionError(SuspensionProblem.UNAVAILABLE, support.detail)
        reason = self.unsuspendable(target.name)
        if reason is not None:
            raise SuspensionError(SuspensionProblem.UNSUSPENDABLE, reason)
        pids = [process.pid for process in processes]
        for device in target.devices:
            obstacle = self._probe.suspension_obstacle(device, pids)
            if obstacle is not None:
                raise SuspensionError(SuspensionProblem.UNSUSPENDABLE, obstacle)
        members = self._find_users(target, processes)
        if not any(member.memory for member in members):
            # A share with nothing to suspend is lent at once, so the driver's word is checked with the probe's.
            if self._steps.shown_memory(target.devices, pids) != 0:
                raise SuspensionError(SuspensionProblem.UNKNOWN, _UNKNOWN)
            raise SuspensionError(SuspensionProblem.NOTHING_TO_SUSPEND, _NOTHING)
        return members

    def _find_users(self, target: SuspensionTarget, processes: Collection[ProcessId]) -> tuple[Member, ...]:
        """Return those of the processes that use a device; raise `SuspensionError` UNKNOWN if that is not told."""
        try:
            members = self._steps.find_members(processes, target.devices)
        except CheckpointError as error:
            raise SuspensionError(SuspensionProblem.UNKNOWN, error.sentence) from error
        if members is None:
            raise SuspensionError(SuspensionProblem.UNKNOWN, _UNKNOWN)
        return members

    def _expect_host_memory(self, name: str, members: Sequence[Member], done: Sequence[Member] = ()) -> None:
        """Raise `SuspensionError` if the host memory has no room for these members of a share beside all other shares.

        `done` are members of the same share that are in host memory already.
        """
        need = sum(sum_memory(members).values())
        idle = {name, *self._settling.back}
        others = [e for e in self._journal.entries() if e.step is not Step.UNSUSPENDABLE and e.name not in idle]
        counted = sum(entry.suspension().total for entry in others) + sum(sum_memory(done).values())
        most = self._limits.most_suspended()
        if most is not None and counted + need > most:
            raise SuspensionError(
                SuspensionProblem.HOST_MEMORY,
                f"This share uses {need} MiB of GPU memory. At most {most} MiB may be suspended on this machine, and "
                f"{counted} MiB are.",
            )
        room = self._host.room([member.id.pid for member in members])
        if room is None:
            raise SuspensionError(SuspensionProblem.HOST_MEMORY, "It is not known how much host memory is free.")
        pending = sum(entry.suspension().total for entry in others if entry.step not in AT_REST)
        if room.memory < need + pending + self._limits.host_margin:
            raise SuspensionError(
                SuspensionProblem.HOST_MEMORY,
                f"To suspend {need} MiB of GPU memory, {need + pending + self._limits.host_margin} MiB of host memory "
                f"must be free, but {room.place} has {room.memory} MiB.",
            )

    def _begin(self, target: SuspensionTarget) -> JournalEntry:
        """Write the intent to lock the processes of a share; raise `SuspensionError` if it cannot be suspended."""
        members = self._find_members(target, target.find_processes())
        with self._accounts:
            self._expect_host_memory(target.name, members)
            return self._settling.write(JournalEntry(name=target.name, step=Step.LOCKING, members=members))

    def _carry_out(self, entry: JournalEntry, target: SuspensionTarget, is_wanted: Callable[[], bool]) -> JournalEntry:
        """Lock and checkpoint all processes of a share until no new one is found; return its entry as suspended.

        Raises `SuspensionError` or `CheckpointError`; the caller then undoes what was done.
        """
        done: tuple[Member, ...] = ()
        for _round in range(_MOST_ROUNDS):
            locked = self._steps.lock(entry.members[len(done) :])
            if is_wanted():
                raise SuspensionError(SuspensionProblem.WANTED, "The share was used again before it was suspended.")
            # Measured again, because a program could take memory until it was locked.
            locked = self._measure(target, [member.id for member in locked], done)
            entry = self._settling.write(replace(entry, step=Step.CHECKPOINTING, members=done + locked))
            self._steps.checkpoint(locked)
            done = entry.members
            processes = target.find_processes()
            new = self._measure(target, [each for each in processes if each not in {known.id for known in done}], done)
            if not new:
                self._expect_gone(target, entry, processes)
                return self._settling.write(replace(entry, step=Step.SUSPENDED))
            entry = self._settling.write(replace(entry, members=done + new))
        raise SuspensionError(
            SuspensionProblem.BUSY, "The share started new programs on the GPU again and again while it was suspended."
        )

    def _measure(
        self, target: SuspensionTarget, processes: Sequence[ProcessId], done: Sequence[Member]
    ) -> tuple[Member, ...]:
        """Return those of the processes that use a device; raise `SuspensionError` if they cannot be suspended.

        `done` are the members of the share that are in host memory already.
        """
        members = self._find_users(target, processes)
        self._expect_host_memory(target.name, members, done)
        return members

    def _expect_gone(self, target: SuspensionTarget, entry: JournalEntry, processes: Collection[ProcessId]) -> None:
        """Raise `SuspensionError` unless the probe shows that the memory of the share has left its devices."""
        if not entry.members:
            raise SuspensionError(SuspensionProblem.NOTHING_TO_SUSPEND, _NOTHING)
        pids = {process.pid for process in processes} | {member.id.pid for member in entry.members}
        gone = self._steps.await_gone(target.devices, pids, entry.suspension().total)
        if gone is None:
            raise SuspensionError(SuspensionProblem.UNKNOWN, "The driver does not tell what has left the GPU.")
        if not gone:
            raise SuspensionError(
                SuspensionProblem.MEMORY_STAYED, "The driver still shows memory of this share on the GPU."
            )

    def _undo(self, name: str, error: CheckpointError | SuspensionError) -> Suspension:
        """Bring the share back after a failed suspension, and raise the failure as a `SuspensionError`.

        Returns the suspension if the devices have no room for the share any more: then it stays suspended.
        """
        begun = self._journal.find(name)
        outcome = self._settling.settle(name)
        if outcome is Recovered.LOST:
            raise SuspensionError(SuspensionProblem.LOST, _LOST) from error
        entry = self._journal.find(name)
        if outcome is Recovered.SUSPENDED and entry is not None:
            log.warning("%s stays suspended, because its devices have no room for it: %s", name, error)
            return entry.suspension()
        problem = (
            error.problem if isinstance(error, SuspensionError) else _KINDS.get(error.problem, SuspensionProblem.BROKEN)
        )
        if problem is SuspensionProblem.UNSUSPENDABLE:
            members = () if begun is None else begun.members
            self._settling.write(
                JournalEntry(name=name, step=Step.UNSUSPENDABLE, members=members, reason=error.sentence)
            )
        raise SuspensionError(problem, error.sentence) from error

    # --- the steps of a resume, an undo and a recovery ----------------------------------------------------------------

    def _await_room(self, entry: JournalEntry, moves: Mapping[str, str], timeout: float) -> tuple[Member, ...]:
        """Return the members that are still suspended, once their devices have room.

        Raises `SuspensionError` NO_ROOM.
        """
        members = self._settling.checkpointed(entry)
        if not self._steps.await_room(members, moves, timeout):
            missing = self._steps.missing_room(members, moves)
            raise SuspensionError(SuspensionProblem.NO_ROOM, f"To resume, this share needs {missing}.")
        return members

    def _at_rest(self, name: str) -> JournalEntry | None:
        """Return the entry of a share, None without one, once an earlier call is finished or undone; raise LOST."""
        entry = self._journal.find(name)
        if entry is not None and entry.step not in AT_REST and self._settling.settle(name) is Recovered.LOST:
            raise SuspensionError(SuspensionProblem.LOST, _LOST)
        return self._journal.find(name)

    def _can_still_move(self, name: str, device: str | None) -> JournalEntry | None:
        """Return the entry of a share; one of which nothing came back counts as suspended, and can still move.

        A share that is half back on another device than `device` is suspended again; None means that it stays where it
        is. Raises `SuspensionError` if the driver refuses that.
        """
        entry = self._journal.find(name)
        if entry is None or entry.step is not Step.RESTORING:
            return entry
        if self._settling.is_untouched(entry):
            return self._settling.write(replace(entry, step=Step.SUSPENDED, moves={}))
        if device is not None and set(sum_memory(entry.members, entry.moves)) - {device}:
            if not self._settling.take_back(name):
                raise SuspensionError(SuspensionProblem.BROKEN, _ELSEWHERE)
            return self._journal.find(name)
        return entry

    def _find_suspended(self, name: str) -> JournalEntry | None:
        """Return the entry of a share that the driver shows as suspended; None if there is none.

        The processes of an entry may have ended, and others of a share with this name are in use.
        """
        present = self._at_rest(name)
        if present is None or present.step is not Step.SUSPENDED:
            return None
        return self._journal.find(name) if self._settling.settle(name) is Recovered.SUSPENDED else None

    def _remove_needless_refusal(self, name: str) -> None:
        """Remove the refusal of a share if none of the programs that were refused uses a device any more.

        A share that ended while there was no service leaves no other trace. A share that goes on is tried again once.
        """
        entry = self._journal.find(name)
        if entry is None or entry.step is not Step.UNSUSPENDABLE:
            return
        if not any(self._checkpointer.uses_device(member.id) for member in entry.members):
            self._settling.remove(name)

    # --- the mutexes ----------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Exclude all other calls for this share during the block."""
        with self._naming:
            mutex = self._mutexes.setdefault(name, threading.Lock())
        with mutex:
            yield
