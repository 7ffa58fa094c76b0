"""The protocol of suspenders, which suspend and resume the GPU state of a share: of all processes of its tree.

Rules
-----
- All or nothing: either every process of the share that uses a device is suspended, or none stays locked.
- Verified: a share counts as suspended once the probe shows that its memory has left the devices.
- Room first: a resume restores nothing until the probe shows enough free memory on each device.
- Intent first: each step is in the journal before it begins, so that `recover` finishes or undoes it after a crash.
- Refusals are remembered: a share that the driver cannot suspend is not tried again until `forget`, or until `recover`
  finds that the programs which it refused have ended.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jupyter_gq.devices.checkpointer import CheckpointSupport
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import ONE_GPU, MiB, MilliGpu, Seconds
from jupyter_gq.domain.errors import MachineError


class SuspensionProblem(StrEnum):
    """The kinds of a `SuspensionError`."""

    UNAVAILABLE = "UNAVAILABLE"  # this machine cannot suspend; `Suspender.support` says what to do
    UNSUSPENDABLE = "UNSUSPENDABLE"  # this share cannot be suspended, now and later
    HOST_MEMORY = "HOST_MEMORY"  # too little host memory, or too much is suspended already
    UNKNOWN = "UNKNOWN"  # the probe does not tell the memory of the share
    NOTHING_TO_SUSPEND = "NOTHING_TO_SUSPEND"  # no process of the share uses a device
    BUSY = "BUSY"  # the work on the GPU did not end in time
    WANTED = "WANTED"  # the share was used again before its memory had left the device
    MEMORY_STAYED = "MEMORY_STAYED"  # the probe still showed the memory of the share after the checkpoint
    NOT_SUSPENDED = "NOT_SUSPENDED"  # a resume of a share that is not suspended
    NO_ROOM = "NO_ROOM"  # a resume found too little free device memory; the share stays suspended
    LOST = "LOST"  # the GPU state of the share is lost: its kernels need a restart
    DISK = "DISK"  # the journal cannot be written, such as on a full disk; another attempt may succeed
    BROKEN = "BROKEN"  # any other error; the sentence has its text


class SuspensionError(MachineError):
    """A suspension or a resume that did not happen, with its kind and a sentence for people."""

    def __init__(self, problem: SuspensionProblem, sentence: str) -> None:
        super().__init__(sentence)
        self.problem, self.sentence = problem, sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspensionTarget:
    """A share to be suspended."""

    #: Name of the share that is unique on this machine, such as the id of its workload.
    name: str
    #: UUIDs of its devices.
    devices: tuple[str, ...]
    #: Function that returns all processes of the share as they are now; called again after the checkpoint.
    find_processes: Callable[[], Collection[ProcessId]]
    #: Part of each device that the share has, in thousandths; a whole device if that is not known.
    milli: MilliGpu = ONE_GPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspension:
    """A share that is suspended, or that was until it was resumed."""

    name: str
    #: Processes whose state is in host memory.
    processes: tuple[ProcessId, ...]
    #: Memory in MiB by the UUID of the device that the share needs back; also what its state takes of the host memory.
    memory: Mapping[str, MiB] = field(default_factory=dict)

    @property
    def total(self) -> MiB:
        """The memory on all devices together."""
        return MiB(sum(self.memory.values()))


class Recovered(StrEnum):
    """The state of a share after `recover`."""

    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"  # the GPU state of a program is lost: its kernel needs a restart
    UNTOUCHED = "UNTOUCHED"  # no program was locked or suspended; only of a share whose entry may be lost
    UNKNOWN = "UNKNOWN"  # the driver or the disk failed; the next call for the share tries again


class Suspender(Protocol):
    """A suspender of shares on this machine; see the rules of this module.

    Calls block for up to minutes: call them in threads. Calls for one share exclude each other; calls for several
    shares run side by side.
    """

    def support(self) -> CheckpointSupport:
        """Return whether this machine can suspend, and a sentence for people; never raises an exception."""
        ...

    def obstacle(self, target: SuspensionTarget) -> str | None:
        """Return a sentence that says why the share cannot be suspended now; None if an attempt is worthwhile.

        Changes nothing, and costs about as much as a sample of the devices.
        """
        ...

    def suspend(self, target: SuspensionTarget, is_wanted: Callable[[], bool]) -> Suspension:
        """Move the GPU state of the share to host memory; its device memory is free when this returns.

        `is_wanted` is called after all processes are locked: if it returns True, because a cell has begun meanwhile,
        everything is undone. Returns the present suspension if the share is suspended already. Raises
        `SuspensionError`: the share then runs as before, unless the problem is LOST.
        """
        ...

    def resume(self, name: str, *, timeout: Seconds, device: str | None = None) -> Suspension:
        """Bring the GPU state of a suspended share back to its devices, and return what was suspended.

        The caller has reserved the memory; the probe must show it free within `timeout` seconds. `device` is the one to
        bring all of it to; None = where it was. Raises `SuspensionError`: after NO_ROOM the share is still suspended,
        after LOST its kernels need a restart.
        """
        ...

    def recover(self, names: Collection[str] | None = None) -> Mapping[str, Recovered]:
        """Finish or undo whatever a crash interrupted; return the state of each share in the journal by name.

        `names` are the shares to look at; None = all. Call this at the start. Further calls do no harm, and find
        processes that have ended. Raises `SuspensionError` if the driver or the disk fails again and again.
        """
        ...

    @property
    def trouble(self) -> str:
        """The trouble with the journal, as a sentence for administrators; "" if there is none."""
        ...

    def may_lack(self, name: str, *, is_away: bool) -> bool:
        """Return whether the entry of this share may be lost: it has none, but a former journal may have had one.

        So it is if a journal was set aside, or if the record of the share says that it is away from its devices.
        """
        ...

    def rebuild(self, target: SuspensionTarget) -> Recovered:
        """Write the entry that a share would have, by what the driver shows of its processes, and recover the share.

        For shares that `may_lack` names. A failure is logged, and the share is UNKNOWN.
        """
        ...

    def suspensions(self) -> tuple[Suspension, ...]:
        """Return all shares that are suspended now or half back, in order of their names."""
        ...

    def unsuspendable(self, name: str) -> str | None:
        """Return the remembered reason for which this share cannot be suspended; None if there is none."""
        ...

    def forget(self, name: str) -> None:
        """Remove a share that has ended, and the reason for which it could not be suspended."""
        ...
