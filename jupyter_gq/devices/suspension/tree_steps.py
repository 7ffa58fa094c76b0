"""The steps of suspension and resume on several processes at once, by a checkpointer and a probe.

A process that has ended meanwhile is passed over in every step.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import GIB, MiB, Seconds

from .journal import Member, sum_memory

#: Part of the memory of a share that the probe may still show after the checkpoint: one of this many parts.
_RESIDUE = 50
_LOCK_TIMEOUT = Seconds(8)
_HOST_MARGIN = MiB(2 * GIB)
_DEVICE_MARGIN = MiB(128)
_SETTLE_TIMEOUT = Seconds(10)
_POLL = Seconds(0.2)
#: Shortest time-out in seconds of the lock of one process, if those before it have used up the time of all.
_LEAST_TIMEOUT = 0.5


def _no_limit() -> MiB | None:
    """Return None: the free host memory is the only limit."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspensionLimits:
    """The limits of suspensions on one machine."""

    #: Time in seconds in which the GPU work of all processes of a share must end before a suspension.
    lock_timeout: Seconds = _LOCK_TIMEOUT
    #: Host memory in MiB that must stay free after a suspension.
    host_margin: MiB = _HOST_MARGIN
    #: Device memory in MiB that must be free beyond what a resume brings back.
    device_margin: MiB = _DEVICE_MARGIN
    #: Function that returns the GPU state in MiB that may be in host memory at one time; None = any amount that fits.
    most_suspended: Callable[[], MiB | None] = _no_limit
    #: Time in seconds in which the probe must show that the memory has left the devices.
    settle_timeout: Seconds = _SETTLE_TIMEOUT


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The clock by which suspensions wait."""

    #: Function that returns seconds since an arbitrary point.
    monotonic: Callable[[], float]
    #: Function that blocks for so many seconds.
    sleep: Callable[[float], None]
    #: Seconds between two looks at the probe.
    poll: Seconds = _POLL

    def until(self, is_true: Callable[[], bool], timeout: float) -> bool:
        """Call the function until it returns True, at least once; tell whether it did within `timeout` seconds."""
        deadline = self.monotonic() + timeout
        while not is_true():
            if self.monotonic() >= deadline:
                return False
            self.sleep(self.poll)
        return True


class TreeSteps:
    """The steps on the processes of one share; each blocks, and none writes the journal."""

    def __init__(
        self, *, checkpointer: Checkpointer, probe: DeviceProbe, limits: SuspensionLimits, waiting: Waiting
    ) -> None:
        self._checkpointer, self._probe, self._limits, self._waiting = checkpointer, probe, limits, waiting

    def find_members(self, processes: Iterable[ProcessId], devices: Sequence[str]) -> tuple[Member, ...] | None:
        """Return those of the processes that use a device, with their memory; None if the probe does not tell it.

        Raises `CheckpointError` if the driver does not tell which they are.
        """
        using = [process for process in processes if self._checkpointer.uses_device(process)]
        memory: dict[int, dict[str, MiB]] = {process.pid: {} for process in using}
        for device in devices:
            sample = self._probe.usage(device, list(memory))
            if sample is None or any(usage.memory is None for usage in sample):
                return None
            for usage in sample:
                if usage.memory:
                    memory[usage.pid][device] = usage.memory
        return tuple(Member(id=process, memory=memory[process.pid]) for process in sorted(using))

    def by_state(self, members: Iterable[Member]) -> dict[CheckpointState, list[Member]]:
        """Return the members that still use a device by their state. Raises `CheckpointError`, except NO_PROCESS."""
        found: dict[CheckpointState, list[Member]] = {state: [] for state in CheckpointState}
        for member in members:
            with _pass_over_ended():
                found[self._checkpointer.state(member.id)].append(member)
        return found

    def lock(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """Lock all members within the time-out for all together; return those that are locked.

        Raises `CheckpointError`; members before the one that failed are locked then.
        """
        deadline = self._waiting.monotonic() + self._limits.lock_timeout
        locked: list[Member] = []
        for member in members:
            left = max(_LEAST_TIMEOUT, deadline - self._waiting.monotonic())
            with _pass_over_ended():
                self._checkpointer.lock(member.id, Seconds(left))
                locked.append(member)
        return tuple(locked)

    def checkpoint(self, members: Iterable[Member]) -> None:
        """Checkpoint all members, which are locked.

        Raises `CheckpointError`; members before the one that failed are checkpointed then.
        """
        for member in members:
            with _pass_over_ended():
                self._checkpointer.checkpoint(member.id)

    def restore(self, member: Member, moves: Mapping[str, str]) -> bool:
        """Restore a member, which is checkpointed; return False if its GPU state is lost.

        Of `moves`, those of other devices than its own do not concern it: their places may be exchanged with its own.
        Raises `CheckpointError` for any other failure.
        """
        own = {former: new for former, new in moves.items() if former in member.memory or not member.memory}
        try:
            with _pass_over_ended():
                self._checkpointer.restore(member.id, own)
        except CheckpointError as error:
            if error.problem in (CheckpointProblem.OUT_OF_MEMORY, CheckpointProblem.LOST):
                return False
            raise
        return True

    def unlock(self, members: Iterable[Member]) -> None:
        """Unlock all members, which are locked.

        Raises `CheckpointError`; members before the one that failed are unlocked then.
        """
        for member in members:
            with _pass_over_ended():
                self._checkpointer.unlock(member.id)

    def await_room(self, members: Sequence[Member], moves: Mapping[str, str], timeout: float) -> bool:
        """Tell whether the probe shows room for all members, and a margin, on every device within `timeout` seconds."""
        return self._waiting.until(lambda: self.has_room(members, moves, self._limits.device_margin), timeout)

    def has_room(self, members: Sequence[Member], moves: Mapping[str, str], margin: int = 0) -> bool:
        """Tell whether the probe shows room for all members on every device now; False if the probe does not tell."""
        for device, memory in sum_memory(members, moves).items():
            free = self._probe.free_memory(device)
            if free is None or free < memory + margin:
                return False
        return True

    def missing_room(self, members: Sequence[Member], moves: Mapping[str, str]) -> str:
        """Return a phrase that says what each device would need, and what is free there."""
        phrases = []
        for device, memory in sum_memory(members, moves).items():
            free = self._probe.free_memory(device)
            told = "the driver does not tell what is free" if free is None else f"{free} MiB are free"
            phrases.append(f"{memory + self._limits.device_margin} MiB on {device}, where {told}")
        return "; ".join(phrases)

    def shown_memory(self, devices: Iterable[str], pids: Collection[int]) -> int | None:
        """Return the memory in MiB that the probe shows for these processes; None if it does not tell."""
        total = 0
        for device in devices:
            sample = self._probe.usage(device, list(pids))
            if sample is None or any(usage.memory is None for usage in sample):
                return None
            total += sum(usage.memory or 0 for usage in sample)
        return total

    def await_gone(self, devices: Sequence[str], pids: Collection[int], total: MiB) -> bool | None:
        """Tell whether the memory of these processes, `total` MiB, leaves the devices within the settle time-out.

        A residue of 2 % is allowed. Returns None if the probe does not tell at the end of that time.
        """

        def is_gone() -> bool:
            shown = self.shown_memory(devices, pids)
            return shown is not None and shown <= total // _RESIDUE

        if self._waiting.until(is_gone, self._limits.settle_timeout):
            return True
        return None if self.shown_memory(devices, pids) is None else False


@contextmanager
def _pass_over_ended() -> Iterator[None]:
    """End the block quietly if the process of a call has ended; raise any other error."""
    try:
        yield
    except CheckpointError as error:
        if error.problem is not CheckpointProblem.NO_PROCESS:
            raise
