"""The reconstruction of an entry that the journal has lost, from what the driver shows of a share.

Rules
-----
- The driver remembers which process is locked or suspended, and the processes of a share are known. So every such
  process is found again, and belongs to the share that it is of.
- Enough room: the driver does not tell how much memory a suspended process had. A restore without room would destroy
  its state, so the entry has the most that it can have been: the host memory of the process, and at most the part of
  the device that the share has, with a CUDA context.
- Undone if in doubt: a locked process shows that something was under way. The share comes back then, if it has room.

See docs/decisions/0252-ask-the-driver-what-a-lost-journal-held.md and
docs/decisions/0461-ask-the-driver-about-a-share-that-the-journal-does-not-know.md.
"""

from dataclasses import dataclass

from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.limits import most_memory
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import MiB

from .host_memory import HostMemory
from .journal import JournalEntry, Member, Step
from .suspender import SuspensionError, SuspensionProblem, SuspensionTarget

_UNKNOWN_SIZE = "The driver does not tell how much memory a program of this share has or had."
#: States that a process is never in by itself.
_TOUCHED = frozenset({CheckpointState.LOCKED, CheckpointState.CHECKPOINTED, CheckpointState.FAILED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconstruction:
    """A source of entries of the journal, beside the journal."""

    checkpointer: Checkpointer
    probe: DeviceProbe
    host: HostMemory
    #: Device memory in MiB that a resume needs beyond what it brings back.
    device_margin: MiB

    def find_entry(self, target: SuspensionTarget) -> JournalEntry | None:
        """Return the entry of a share by the state of its processes; None if none was locked, suspended or lost.

        Raises `CheckpointError`, or `SuspensionError` UNKNOWN if the size of what is suspended is not known.
        """
        found = {process: state for process in target.find_processes() if (state := self._state(process)) in _TOUCHED}
        if not found:
            return None
        is_moving = CheckpointState.LOCKED in found.values()
        return JournalEntry(
            name=target.name,
            step=Step.CHECKPOINTING if is_moving else Step.SUSPENDED,
            members=tuple(self._describe(process, found[process], target) for process in sorted(found)),
        )

    def _state(self, process: ProcessId) -> CheckpointState | None:
        """Return the state of a process; None if it uses no device or has ended. Raises `CheckpointError`."""
        try:
            return self.checkpointer.state(process) if self.checkpointer.uses_device(process) else None
        except CheckpointError as error:
            if error.problem is CheckpointProblem.NO_PROCESS:
                return None
            raise

    def _describe(self, process: ProcessId, state: CheckpointState, target: SuspensionTarget) -> Member:
        """Return a process with the memory that it needs on its devices, or has there if it is locked."""
        return Member(
            id=process,
            memory={device: self._memory(process, state, device, target) for device in target.devices},
        )

    def _memory(self, process: ProcessId, state: CheckpointState, device: str, target: SuspensionTarget) -> MiB:
        """Return the most memory that a process can have, or have had, on a device."""
        if state is CheckpointState.CHECKPOINTED:
            most = self.host.most_state(process.pid)
            total = next((each.memory for each in self.probe.devices() if each.uuid == device), None)
            if most is None or total is None:
                raise SuspensionError(SuspensionProblem.UNKNOWN, _UNKNOWN_SIZE)
            return MiB(max(0, min(most, most_memory(total, target.milli), total - self.device_margin)))
        usage = self.probe.usage(device, [process.pid])
        if usage is None or any(each.memory is None for each in usage):
            raise SuspensionError(SuspensionProblem.UNKNOWN, _UNKNOWN_SIZE)
        return MiB(sum(each.memory or 0 for each in usage))
