"""The suspension of the shares of notebook servers, jobs and pods, by the suspender of this machine.

Rules
-----
- Threads: each call of the suspender runs in a daemon thread of its own, because a driver may hang. So the service
  answers meanwhile and can end at any time; the journal of the suspender tells its successor what was under way.
- Recovered first: no share has a phase before the suspender has finished or undone what a crash interrupted. See
  `recovery`.
- The record decides where the driver knows nothing: a share without GPU state is suspended if its record says so. Then
  nothing has to be moved, and the devices are lent all the same. A share that was about to come back is in use then:
  its resume was finished, by an earlier service or by its recovery.
- Never a loop: a resume that failed for an unknown reason is attempted `_MOST_ATTEMPTS` times at most, with pauses. One
  that failed because the disk is full is repeated until it succeeds: the state is safe in host memory.
- Jobs stand still: the processes of a suspended job are stopped, since a job would go on computing. They go on before
  the driver is asked anything about them, because it may need their help to answer. Each observation stops those that
  go on.
- Jobs are whole: if any process of a suspended job has ended, the job cannot go on where it was, so its run ends.
- Nothing to suspend: a job without GPU state is not suspended, since a process that opens its device later would open
  the one that the job had before.

See `backends.share_suspension` for the guarantees, and
docs/decisions/0175-end-a-suspended-run-without-all-of-its-processes.md.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.devices.linux.freezing import Freezer
from jupyter_gq.devices.linux.processes import ProcessId, is_running
from jupyter_gq.devices.nvidia.mps import UNDER_MPS
from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import RunKey, TaskPlacement, Workload

from .forgetting import Forgetting
from .managed_share import ManagedShare
from .recovery import Recovery
from .share_state import SharePhase, ShareState
from .suspender import (
    Recovered,
    Suspender,
    Suspension,
    SuspensionError,
    SuspensionProblem,
    SuspensionTarget,
)
from .threads import run_in_thread

log = logging.getLogger(__name__)

#: Time for which a resume waits in its thread until the devices have room; then the next step begins another one.
_ROOM_TIMEOUT = Seconds(10)
#: Time after which the owner is told that the driver is slow.
_SLOW_AFTER = 120.0
#: Attempts of a resume that fails for an unknown reason.
_MOST_ATTEMPTS = 3
#: Seconds awake after a failed resume in which no other one begins. Each change of a share brings about the next step.
_PAUSE = 5.0
#: Failures after which the state of a share is as safe as before, so that they do not count as attempts.
_HARMLESS = frozenset({SuspensionProblem.NO_ROOM, SuspensionProblem.DISK})
_RESTART = 'Restart the kernel ("Kernel > Restart Kernel") to use the GPU again.'
_NOT_AT_REST = "After a restart, the GPU driver has not brought the GPU memory of this share to rest."
#: What is wrong with a share whose recovery is unfinished, for its owner.
UNFINISHED = f"{_NOT_AT_REST} Its programs may stand still. Another attempt follows within a minute."
#: States of a workload that has just begun, so that nothing of it was ever suspended.
_BEGINS = frozenset({State.ADMITTED, State.STARTING})
#: States of a workload whose record says that its share is away from its devices, or was a moment ago.
_MOVED = frozenset({State.SUSPENDED, State.RESUMING})
_TOO_SLOW = "The work of the job on the GPU could not be suspended in time."


@dataclass(kw_only=True)
class RunShares:
    """The shares of notebook servers and jobs; the port `capabilities.suspension` of the backend of servers."""

    suspender: Suspender
    #: Returns the time in seconds since the epoch.
    now: Callable[[], float]
    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    #: Called after a share has changed its phase.
    on_change: Callable[[], None]
    #: The devices that are shared by MPS, on which nothing can be suspended.
    partitioned: Collection[str] = ()
    #: Returns whether a process of this machine runs.
    is_alive: Callable[[ProcessId], bool] = is_running
    #: Waits for so many seconds, in a thread.
    sleep: Callable[[float], None] = time.sleep
    _shares: dict[RunKey, ManagedShare] = field(init=False, default_factory=dict)
    _recovery: Recovery = field(init=False)
    _forgetting: Forgetting = field(init=False)

    def __post_init__(self) -> None:
        self._recovery = Recovery(suspender=self.suspender, awake=self.awake, sleep=self.sleep)
        self._forgetting = Forgetting(suspender=self.suspender, awake=self.awake)

    # --- the port

    def describe_refusal(self, workload: str, run: int) -> str:
        """Return why the share can never be suspended, as a sentence; "" if an attempt is worthwhile.

        The reason is that of this machine's driver, or that of an earlier attempt. Right after the start of the service
        neither is known: then the answer is "", because an idle server is stopped if its share cannot be suspended.
        """
        share = self._shares.get((workload, run))
        if share is not None and not set(share.target.devices).isdisjoint(self.partitioned):
            return UNDER_MPS
        if self._recovery.unsupported is None:
            return ""
        return self._recovery.unsupported or self.suspender.unsuspendable(workload) or ""

    def suspend(self, workload: str, run: int) -> None:
        """Begin to suspend a share in use, in a thread."""
        share = self._shares.get((workload, run))
        if share is None or share.state is None or share.began is not None:
            return
        if share.state.phase is not SharePhase.IN_USE:
            return
        if self._is_unfinished(share):
            share.state = self._failed(SharePhase.IN_USE, f"The share cannot be suspended yet: {_NOT_AT_REST}")
        else:
            share.wanted, share.lost = False, ()
            self._start(share, SharePhase.SUSPENDING, lambda: self._suspend(share))

    @property
    def can_move(self) -> bool:
        """Whether a share can be resumed on another device of the same model; False until that is known.

        Never where some devices are shared by MPS: a program that was started without MPS cannot go on there.
        """
        return self._recovery.can_move and not self.partitioned

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        """Begin to resume a suspended share in a thread, or let a suspension under way be undone.

        `devices` are the UUIDs of the devices to resume on; empty = those on which the share was.
        """
        share = self._shares.get((workload, run))
        if share is None or share.state is None:
            return
        share.wanted = True
        self._note_ended(share)
        if share.freezer is not None and share.state.ended:
            return  # nothing of the job goes on without the program that has ended
        if share.state.phase is not SharePhase.SUSPENDED or share.began is not None or self.awake() < share.pause_until:
            return
        if self._is_unfinished(share):  # the state stays a guess, which the next attempt of the recovery replaces
            share.state = self._failed(SharePhase.SUSPENDED, f"The share cannot come back yet: {_NOT_AT_REST}")
        else:
            self._start(share, SharePhase.RESUMING, lambda: self._resume(share, tuple(devices)))

    # --- for the backend

    def add(self, workload: Workload, find_processes: Callable[[], Collection[ProcessId]]) -> None:
        """Begin to manage the share of a notebook server that was launched, so that it can be suspended.

        Does nothing for a server without a device. `find_processes` returns the processes of the server now, that of
        the server itself first; threads call it. Before the recovery is complete, the share has no state. Afterwards it
        has the state that the recovery found, or that the record of `workload` says.
        """
        if not workload.request.devices:
            return
        target = SuspensionTarget(
            name=workload.id,
            devices=list_devices(workload.placement),
            find_processes=find_processes,
            milli=workload.request.milli_per_device,
        )
        self.add_target((workload.id, workload.run), target, workload.state, _all_but_the_first(target))

    def add_target(
        self,
        key: RunKey,
        target: SuspensionTarget,
        record: State,
        find_programs: Callable[[], Collection[ProcessId]],
    ) -> None:
        """Begin to manage a share whose processes run on while it is suspended, and whose workload is in `record`.

        `find_programs` returns those of its processes now that may use a GPU. Threads call it.
        """
        share = ManagedShare(name=target.name, target=target, find_programs=find_programs, record=record)
        self._shares[key] = share
        self._settle(share)

    def add_job(self, key: RunKey, target: SuspensionTarget, freeze_group: Callable[[bool], None]) -> None:
        """Begin to manage the share of a run of a job, `key`, so that it can be suspended.

        Does nothing for a job without a device. Threads call the function `find_processes` of the target, which returns
        the processes of the run now, and `freeze_group` (see `Freezer`). A run that is added after the recovery has
        just begun, so its share is IN_USE.
        """
        if target.devices:
            freezer = Freezer(find_processes=target.find_processes, freeze_group=freeze_group)
            share = self._shares[key] = ManagedShare(
                name=target.name,
                target=target,
                find_programs=_all_but_the_first(target),
                record=State.RUNNING,
                freezer=freezer,
            )
            if self._recovery.found is not None:  # what was found after the start is that of an earlier run of the job
                share.state = ShareState(phase=SharePhase.IN_USE)

    def freeze_again(self, workload: str, run: int, processes: Collection[ProcessId]) -> None:
        """Stop those of the processes of a suspended job that go on, because somebody else let them go on."""
        share = self._shares.get((workload, run))
        if share is None or share.freezer is None or share.state is None or share.began is not None:
            return
        if share.state.phase is SharePhase.SUSPENDED:
            share.freezer.freeze_again(processes)

    def recover(self) -> None:
        """Begin the recovery in a thread, at the first call, and again when something is left of it and that is due.

        The thread finds out whether this machine can suspend, and lets the suspender finish or undo what a crash
        interrupted. Afterwards each share has a state, unless its own recovery failed, and `on_change` is called.
        """
        self._forgetting.forget_what_is_left({share.name for share in self._shares.values()})
        unclear = [share for share in self._shares.values() if share.state is None or share.is_guess]
        self._recovery.begin_if_due(
            {share.name: share.target for share in unclear},
            {share.name: share.freezer for share in unclear if share.freezer is not None},
            frozenset(share.name for share in unclear if share.record in _MOVED),
            self._note_recovered,
        )

    @property
    def trouble(self) -> str:
        """The trouble with the journal of suspensions, as a sentence for administrators; "" if there is none."""
        return self.suspender.trouble

    @property
    def unfinished(self) -> frozenset[str]:
        """The shares whose recovery has failed so far and is attempted again, by name."""
        return self._recovery.unfinished

    def manages(self, workload: str, run: int) -> bool:
        """Return whether this share was added and not removed, even if its state is not known yet."""
        return (workload, run) in self._shares

    def state(self, workload: str, run: int) -> ShareState | None:
        """Return the present state of a share; None if it is unknown, or not recovered yet."""
        share = self._shares.get((workload, run))
        if share is None:
            return None
        self._note_ended(share)
        return share.state

    def describe_loss(self, workload: str, run: int) -> str:
        """Return why a job cannot go on, as a sentence; "" if it can.

        Either the GPU state is lost, or a process of it ended while it was suspended.
        """
        share = self._shares.get((workload, run))
        if share is None or share.state is None or share.began is not None or share.freezer is None:
            return ""
        self._note_ended(share)
        if share.state.ended:
            return "A program of the job ended while the job was paused."
        return "The GPU state of the job could not be brought back from host memory." if share.lost else ""

    def describe_trouble(self, workload: str, run: int) -> str:
        """Return what is wrong with a share, as a sentence for its owner; "" if nothing is."""
        share = self._shares.get((workload, run))
        if share is None:
            return ""
        if share.name in self.unfinished:
            return UNFINISHED
        if share.state is None:
            return UNFINISHED if self._recovery.has_failed else ""
        share.lost = tuple(filter(self.is_alive, share.lost))
        if share.lost and share.freezer is None:
            return f"The GPU state of a program was lost. {_RESTART}"
        if share.began is not None and self.awake() - share.began > _SLOW_AFTER:
            return "The GPU driver takes unusually long to move the memory of this share."
        waits = share.wanted and share.state.phase in {SharePhase.SUSPENDED, SharePhase.RESUMING}
        return share.state.failure if waits else ""

    def has_suspended_programs(self, workload: str, run: int) -> bool:
        """Return whether a program of a share lives whose state is in host memory."""
        share = self._shares.get((workload, run))
        return share is not None and any(map(self.is_alive, share.suspended))

    def remove(self, workload: str, run: int) -> None:
        """Stop managing the share of a server or a run that has ended; does nothing if the share is unknown.

        What the suspender has written about the share is deleted in a thread, after a call that is under way.
        """
        share = self._shares.pop((workload, run), None)
        if share is None:
            return
        self._recovery.forget(share.name)
        share.ended = share.wanted = True
        if share.began is None:
            self._forgetting.forget(share.name)

    # --- inside: calls of the suspender, each in a thread

    def _suspend(self, share: ManagedShare) -> ShareState:
        """Suspend the share and return its state; a failure leaves the share in use."""
        began = self.awake()
        try:
            found = self.suspender.suspend(share.target, lambda: share.wanted)
        except SuspensionError as error:
            return self._failed_suspension(share, error, began)
        if share.freezer is not None:
            share.freezer.freeze(self.sleep)
        share.suspended = found.processes
        return ShareState(phase=SharePhase.SUSPENDED, memory=found.total, seconds=self._since(began))

    def _failed_suspension(self, share: ManagedShare, error: SuspensionError, began: float) -> ShareState:
        """Return the state after a suspension that was refused or undone, and that began at `began`.

        The share of a server that has nothing on its devices is suspended all the same.
        """
        match error.problem:
            case SuspensionProblem.NOTHING_TO_SUSPEND if not (share.wanted or share.freezer):
                return ShareState(phase=SharePhase.SUSPENDED, memory=MiB(0), seconds=self._since(began))
            case SuspensionProblem.WANTED if share.freezer is not None:
                return self._failed(SharePhase.IN_USE, _TOO_SLOW)
            case SuspensionProblem.WANTED:
                return ShareState(phase=SharePhase.IN_USE)
            case SuspensionProblem.LOST:
                share.lost = tuple(share.find_programs())
        return self._failed(SharePhase.IN_USE, error.sentence)

    def _resume(self, share: ManagedShare, devices: tuple[str, ...]) -> ShareState:
        """Resume the share and return its state; without room on the devices, the share stays suspended."""
        began, suspended = self.awake(), self._find_suspension(share)
        if share.freezer is not None:
            share.freezer.thaw()
        if suspended is None:
            return ShareState(phase=SharePhase.IN_USE, seconds=self._since(began))
        try:
            self.suspender.resume(share.name, timeout=_ROOM_TIMEOUT, device=devices[0] if devices else None)
        except SuspensionError as error:
            state = self._failed_resume(share, suspended, error)
            if share.freezer is not None and state.phase is SharePhase.SUSPENDED:
                share.freezer.freeze(self.sleep)
            return state
        share.attempts = 0
        if devices:
            share.target = replace(share.target, devices=devices)
        return ShareState(phase=SharePhase.IN_USE, memory=suspended.total, seconds=self._since(began))

    def _failed_resume(self, share: ManagedShare, suspended: Suspension, error: SuspensionError) -> ShareState:
        """Return the state after a failed resume: to be repeated if that may help."""
        if error.problem is SuspensionProblem.NOT_SUSPENDED:
            return ShareState(phase=SharePhase.IN_USE)
        if error.problem is not SuspensionProblem.NO_ROOM:  # which has waited for room
            share.pause_until = self.awake() + _PAUSE
        share.attempts += error.problem not in _HARMLESS
        if error.problem is not SuspensionProblem.LOST and share.attempts < _MOST_ATTEMPTS:
            return self._failed(SharePhase.SUSPENDED, f"The share cannot come back yet: {error.sentence}")
        share.attempts, share.lost = 0, suspended.processes
        return self._failed(SharePhase.IN_USE, error.sentence if share.freezer else f"{error.sentence} {_RESTART}")

    def _is_unfinished(self, share: ManagedShare) -> bool:
        """Return whether another attempt has to recover the share, so that nothing else may move it meanwhile."""
        return self._recovery.has_failed or share.name in self.unfinished

    def _find_suspension(self, share: ManagedShare) -> Suspension | None:
        """Return what the suspender has suspended of a share; None if there is nothing to bring back."""
        return next((each for each in self.suspender.suspensions() if each.name == share.name), None)

    def _since(self, began: float) -> Seconds:
        return Seconds(round(max(0.0, self.awake() - began), 2))

    def _failed(self, phase: SharePhase, sentence: str) -> ShareState:
        """Return the state of a share in `phase` after an attempt that failed now, for the reason in `sentence`."""
        return ShareState(phase=phase, failure=sentence, failed_at=Instant(self.now()))

    # --- inside: in the loop

    def _start(self, share: ManagedShare, phase: SharePhase, work: Callable[[], ShareState]) -> None:
        """Run `work` in a thread, with the share in `phase` meanwhile and in the returned state afterwards."""
        before = share.state
        # The owner reads why the share is not back yet until it is, also while the next attempt waits for room.
        failure = share.state.failure if share.state is not None and phase is SharePhase.RESUMING else ""
        share.state, share.began, share.is_guess = ShareState(phase=phase, failure=failure), self.awake(), False
        failed = before.phase if before is not None else SharePhase.IN_USE

        def finish(result: ShareState | None) -> None:
            share.began = None
            share.state = result or self._failed(failed, "The share could not be moved; the service's log says why.")
            if share.state.phase is SharePhase.IN_USE:
                share.suspended = ()  # the next suspension may find nothing, and these may have ended by then
            if share.ended and share.name not in {each.name for each in self._shares.values()}:
                self._forgetting.forget(share.name)
            self.on_change()

        run_in_thread(f"{phase.value.lower()} {share.name}", work, finish)

    def _note_recovered(self) -> None:
        """Give a state to each share that has none yet or whose state was a guess, then call `on_change`."""
        for share in self._shares.values():
            if share.is_guess and share.began is None:
                share.state = None
            self._settle(share)
        self.on_change()

    def _settle(self, share: ManagedShare) -> None:
        """Set the first phase of a share after recovery: as the suspender found it, or else as its record says."""
        if self._recovery.found is None or share.state is not None:
            return
        if self._may_lack(share):
            self._recovery.look_at(share.name)
        found, kept = (
            self._recovery.found.get(share.name),
            self._recovery.find_kept(share.target, is_job=bool(share.freezer)),
        )
        share.is_guess = found is Recovered.UNKNOWN or self._recovery.has_failed
        if share.freezer is not None and not all(map(self.is_alive, kept)):
            # A program of the job was killed while there was no service.
            share.suspended, share.state = kept, ShareState(phase=SharePhase.SUSPENDED)
            return
        if found is Recovered.LOST:
            share.lost = tuple(share.find_programs())
        is_away = self._is_away(share.record, found)
        if found is Recovered.UNKNOWN and not is_away:
            return  # a phase in use would be a guess, while a resume of a share that is away tries again
        if share.freezer is not None and self._recovery.has_failed:
            return  # the record of a run does not say whether it is away, and a run in use may be ended
        share.state = ShareState(phase=SharePhase.SUSPENDED if is_away else SharePhase.IN_USE)
        if self._recovery.has_failed:  # the journal may be unreadable
            share.suspended = kept
            return
        suspended = self._find_suspension(share)
        share.suspended = suspended.processes if suspended is not None else ()

    def _may_lack(self, share: ManagedShare) -> bool:
        """Return whether nothing was found of a share although a former journal may have had its entry."""
        is_missing = share.name not in (self._recovery.found or {}) and not self._recovery.has_failed
        return (
            is_missing
            and share.record not in _BEGINS
            and self.suspender.may_lack(share.name, is_away=share.record in _MOVED)
        )

    def _is_away(self, record: State, found: Recovered | None) -> bool:
        """Return whether a share is away from its devices: by what the suspender found, else by its record."""
        if found in (Recovered.RUNNING, Recovered.SUSPENDED):
            return found is Recovered.SUSPENDED
        is_unclear = found in (Recovered.LOST, Recovered.UNKNOWN) or self._recovery.has_failed
        return record is State.SUSPENDED or (record is State.RESUMING and is_unclear)

    def _note_ended(self, share: ManagedShare) -> None:
        """Note that a suspended share has nothing left to go on with, such as after the restart of a kernel.

        The suspender forgets the share of a server at once, and that of a job when its run has ended.
        """
        if share.began is not None or share.state is None or share.state.phase is not SharePhase.SUSPENDED:
            return
        if share.state.ended or not share.has_ended(self.is_alive):
            return
        share.state = replace(share.state, memory=MiB(0), ended=True)
        if share.freezer is None:
            self._forgetting.forget(share.name)


def list_devices(placement: Iterable[TaskPlacement]) -> tuple[str, ...]:
    """Return the ids of the devices of all tasks, in their order."""
    return tuple(device for task in placement for device in task.devices)


def _all_but_the_first(target: SuspensionTarget) -> Callable[[], Collection[ProcessId]]:
    """Return a function that returns the processes of a share without its server, or the job's runner."""
    return lambda: tuple(target.find_processes())[1:]
