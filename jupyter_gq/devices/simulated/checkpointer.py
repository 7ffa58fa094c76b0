"""The checkpointer of simulated devices; see `checkpointer.Checkpointer`.

What is done to a process is kept in a file beside its memory report (see `memory`), and so outlives the
service, as the driver's own state does.
"""

from collections.abc import Callable, Mapping

import psutil

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem, CheckpointState, CheckpointSupport
from jupyter_gq.devices.linux.processes import ProcessId, is_running
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import MiB, Seconds

from .memory import (
    SimulatedFault,
    SimulatedRecord,
    has_fault,
    held_devices,
    read_record,
    reported_memory,
    write_record,
)

_NEXT = {
    CheckpointState.RUNNING: "it runs",
    CheckpointState.LOCKED: "it is locked",
    CheckpointState.CHECKPOINTED: "it is suspended",
    CheckpointState.FAILED: "its GPU state is lost",
}


class SimulatedCheckpointer:
    """The checkpointer of processes on simulated devices; `SimulatedFault` says how it can fail."""

    def __init__(self, probe: DeviceProbe, *, sleep: Callable[[float], None]) -> None:
        """Create a checkpointer of processes on the devices of `probe`.

        `sleep` waits for so many seconds, for the time-out of a lock.
        """
        self._probe, self._sleep = probe, sleep

    def support(self) -> CheckpointSupport:
        """Return that everything works, as a simulation."""
        return CheckpointSupport(available=True, can_move=True, detail="Simulated: GPU memory is moved and comes back.")

    def uses_device(self, process: ProcessId) -> bool:
        """Tell whether the process reports memory, or a suspension of it has begun."""
        if not is_running(process) or has_fault(SimulatedFault.PID_RECYCLED, process.pid):
            return False
        try:
            return read_record(process).state is not CheckpointState.RUNNING or _memory_of(process) > 0
        except CheckpointError:
            return False

    def state(self, process: ProcessId) -> CheckpointState:
        """Return the state in the record of the process; raise `CheckpointError` NO_PROCESS if it uses no device."""
        return self._read(process).state

    def lock(self, process: ProcessId, timeout: Seconds) -> None:
        """Lock a running process; with the fault `lock_timeout`, wait for `timeout` and raise BUSY."""
        record = self._expect(process, CheckpointState.RUNNING)
        if has_fault(SimulatedFault.LOCK_TIMEOUT, process.pid):
            self._sleep(timeout)
            raise CheckpointError(
                CheckpointProblem.BUSY, f"The work of process {process.pid} on the GPU did not end in {timeout:.0f} s."
            )
        _write(process, record, CheckpointState.LOCKED)

    def checkpoint(self, process: ProcessId) -> None:
        """Take the memory of a locked process off its devices; with the fault `managed_memory`, raise UNSUPPORTED."""
        record = self._expect(process, CheckpointState.LOCKED)
        if has_fault(SimulatedFault.MANAGED_MEMORY, process.pid):
            raise CheckpointError(
                CheckpointProblem.UNSUPPORTED,
                f"Process {process.pid} uses managed memory, which the driver does not suspend.",
            )
        _write(process, record, CheckpointState.CHECKPOINTED)

    def restore(self, process: ProcessId, moves: Mapping[str, str]) -> None:
        """Put the memory of a suspended process back; a device without room for it loses the process."""
        record = self._expect(process, CheckpointState.CHECKPOINTED)
        memory = _memory_of(process)
        moved = SimulatedRecord(state=record.state, moves=_combine(record.moves, moves))
        if has_fault(SimulatedFault.RESTORE_OOM, process.pid) or not self._fits(process, moved, memory):
            _write(process, record, CheckpointState.FAILED)
            raise CheckpointError(
                CheckpointProblem.OUT_OF_MEMORY,
                f"The GPU had no room for the {memory} MiB of process {process.pid}, whose GPU state is lost now.",
            )
        _write(process, moved, CheckpointState.LOCKED)

    def unlock(self, process: ProcessId) -> None:
        """Let a locked process run again; raise `CheckpointError` if the process is not locked."""
        _write(process, self._expect(process, CheckpointState.LOCKED), CheckpointState.RUNNING)

    def _expect(self, process: ProcessId, wanted: CheckpointState) -> SimulatedRecord:
        """Return the record of a process in the state `wanted`; raise `CheckpointError` if the state is another one."""
        record = self._read(process)
        if record.state is wanted:
            return record
        lost = record.state is CheckpointState.FAILED
        raise CheckpointError(
            CheckpointProblem.LOST if lost else CheckpointProblem.WRONG_STATE,
            f"Process {process.pid} cannot be changed like this: {_NEXT[record.state]}.",
        )

    def _read(self, process: ProcessId) -> SimulatedRecord:
        """Return the record of a process that uses a device; raise `CheckpointError` NO_PROCESS for any other."""
        if not self.uses_device(process):
            raise _no_process(process)
        return read_record(process)

    def _fits(self, process: ProcessId, record: SimulatedRecord, memory: MiB) -> bool:
        """Tell whether each device that the process will hold has room for its memory."""
        try:
            devices = held_devices(process.pid, record)
        except psutil.Error:
            return True
        free = [self._probe.free_memory(device) for device in devices]
        return all(memory <= each for each in free if each is not None)


def _combine(former: Mapping[str, str], moves: Mapping[str, str]) -> dict[str, str]:
    """Return the moves since the start of a process: `former`, then `moves`, less those that lead back to the start."""
    starts = {*former, *(moves.keys() - set(former.values()))}
    combined = {start: moves.get(former.get(start, start), former.get(start, start)) for start in starts}
    return {start: device for start, device in combined.items() if start != device}


def _memory_of(process: ProcessId) -> MiB:
    """Return the memory that the process reports, wherever it is; raise `CheckpointError` if the process has ended."""
    try:
        return reported_memory(psutil.Process(process.pid))
    except psutil.Error as error:
        raise _no_process(process) from error


def _write(process: ProcessId, record: SimulatedRecord, state: CheckpointState) -> None:
    """Store the new state of a process; raise `CheckpointError` if that fails."""
    try:
        write_record(process, SimulatedRecord(state=state, moves=record.moves))
    except psutil.Error as error:
        raise _no_process(process) from error
    except OSError as error:
        raise CheckpointError(
            CheckpointProblem.BROKEN, f"The simulated state of process {process.pid} cannot be written: {error}."
        ) from error


def _no_process(process: ProcessId) -> CheckpointError:
    return CheckpointError(
        CheckpointProblem.NO_PROCESS, f"Process {process.pid} has ended, or holds no memory of a GPU."
    )
