"""The checkpointer of processes on NVIDIA GPUs, by the driver's own API; see `checkpointer.Checkpointer`.

Rules
-----
- Identity first: each call checks that the process still is the one that was meant, because the driver knows ids only.
- An error of a process that no longer uses a device is NO_PROCESS, whatever the driver says.
- Complete maps: a restore on another device names every device of the machine, as the driver demands.

Measured with fakes of the driver's libraries; not yet verified on hardware. See
docs/decisions/0120-call-the-drivers-checkpoint-api.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem, CheckpointState, CheckpointSupport
from jupyter_gq.devices.linux.processes import ProcessId, is_running
from jupyter_gq.domain.amount import Seconds

from .cuda_library import CudaCallFailed, CudaLibrary, CudaUnusable

#: The states by the numbers of the driver.
_STATES = (CheckpointState.RUNNING, CheckpointState.LOCKED, CheckpointState.CHECKPOINTED, CheckpointState.FAILED)
#: What the driver of CUDA 13.5 and newer is doing with a process in these states; older ones do not tell.
_STEPS = {4: "saving", 5: "restoring"}
_OUT_OF_MEMORY, _OPERATING_SYSTEM, _ILLEGAL_STATE, _NOT_READY, _NOT_PERMITTED, _NOT_SUPPORTED = (
    2,
    304,
    401,
    600,
    800,
    801,
)
_PROBLEMS = {
    _OUT_OF_MEMORY: CheckpointProblem.OUT_OF_MEMORY,
    _ILLEGAL_STATE: CheckpointProblem.WRONG_STATE,
    _NOT_READY: CheckpointProblem.BUSY,
    _NOT_PERMITTED: CheckpointProblem.NO_PERMISSION,
    _NOT_SUPPORTED: CheckpointProblem.UNSUPPORTED,
}
_SENTENCES = {
    CheckpointProblem.BUSY: "The work of process {pid} on the GPU did not end in time.",
    CheckpointProblem.OUT_OF_MEMORY: "The GPU had too little free memory for process {pid}, whose GPU state is lost.",
    CheckpointProblem.LOST: "The GPU state of process {pid} is lost.",
    CheckpointProblem.UNSUPPORTED: "Process {pid} uses what the driver cannot suspend, such as managed memory.",
    CheckpointProblem.NO_PERMISSION: "The driver does not let this program suspend process {pid}: run it as the same "
    "user, or as root.",
    CheckpointProblem.WRONG_STATE: "Process {pid} is in a state that does not allow this.",
}


class CudaCheckpointer:
    """The checkpointer of processes on the NVIDIA GPUs of this machine."""

    def __init__(self, *, devices: Callable[[], Sequence[str]], library: CudaLibrary | None = None) -> None:
        """Create a checkpointer that does not load the driver yet; `devices` returns the UUIDs of all GPUs."""
        self._devices = devices
        self._library = library or CudaLibrary()

    def support(self) -> CheckpointSupport:
        """Return whether the driver can suspend processes; the sentence says what is missing."""
        try:
            self._library.open()
        except CudaUnusable as error:
            return CheckpointSupport(available=False, can_move=False, detail=str(error))
        moves = self._library.can_move()
        detail = (
            "The driver suspends processes, and resumes them on the same GPU or on another one of the same model."
            if moves
            else "The driver suspends processes, and resumes them on the same GPU. Other GPUs need version 580."
        )
        return CheckpointSupport(available=True, can_move=moves, detail=detail)

    def uses_device(self, process: ProcessId) -> bool:
        """Tell whether the driver knows the process, which must run; False if the driver cannot be used.

        Raises `CheckpointError` if the driver does not tell.
        """
        try:
            return is_running(process) and self._library.has_context(process.pid)
        except CudaUnusable:
            return False
        except CudaCallFailed as error:
            raise _to_checkpoint_error(process, error, lost=False) from error

    def state(self, process: ProcessId) -> CheckpointState:
        """Return the state of a process that uses a device. Raises `CheckpointError`."""
        with self._errors(process):
            number = self._library.state(process.pid)
        if number in _STEPS:
            sentence = f"The driver is still {_STEPS[number]} the GPU state of process {process.pid}."
            raise CheckpointError(CheckpointProblem.BROKEN, sentence)
        if number >= len(_STATES):
            sentence = f"Process {process.pid} is in a state ({number}) that is not known: update jupyter-gq."
            raise CheckpointError(CheckpointProblem.BROKEN, sentence)
        return _STATES[number]

    def lock(self, process: ProcessId, timeout: Seconds) -> None:
        """Let the GPU work of a process end within `timeout`, and block its calls. Raises `CheckpointError`."""
        with self._errors(process):
            self._library.lock(process.pid, timeout)

    def checkpoint(self, process: ProcessId) -> None:
        """Move the device memory of a locked process to its host memory. Raises `CheckpointError`."""
        with self._errors(process):
            self._library.checkpoint(process.pid)

    def restore(self, process: ProcessId, moves: Mapping[str, str]) -> None:
        """Move the state of a process back to devices with room for it. Raises `CheckpointError`."""
        with self._errors(process, restoring=True):
            self._library.restore(process.pid, complete_moves(moves, self._devices()))

    def unlock(self, process: ProcessId) -> None:
        """Let a locked process call the GPU again. Raises `CheckpointError`."""
        with self._errors(process):
            self._library.unlock(process.pid)

    @contextmanager
    def _errors(self, process: ProcessId, *, restoring: bool = False) -> Iterator[None]:
        """Check that the process runs, and raise errors of the driver in the block as a `CheckpointError`."""
        if not is_running(process):
            raise _no_process(process)
        try:
            yield
        except CudaUnusable as error:
            raise CheckpointError(CheckpointProblem.BROKEN, str(error)) from error
        except CudaCallFailed as error:
            if self._is_gone(process):
                raise _no_process(process) from error
            raise _to_checkpoint_error(process, error, self._has_failed(process, error, restoring)) from error

    def _is_gone(self, process: ProcessId) -> bool:
        """Tell whether the process has ended or uses no device; False if the driver does not tell."""
        try:
            return not self.uses_device(process)
        except CheckpointError:
            return False

    def _has_failed(self, process: ProcessId, error: CudaCallFailed, restoring: bool) -> bool:
        """Tell whether an error means that the GPU state of the process is lost for ever."""
        # After a restore without memory, the driver answers every further restore with this error.
        if restoring and error.code == _OPERATING_SYSTEM:
            return True
        try:
            return error.code == _ILLEGAL_STATE and self._library.state(process.pid) == _STATES.index(
                CheckpointState.FAILED
            )
        except CudaCallFailed:
            return False


def complete_moves(moves: Mapping[str, str], devices: Sequence[str]) -> dict[str, str]:
    """Return a map that names every device once as the former and once as the new one; empty without real moves.

    Devices to which another one moves go to the places that became free; all others stay.
    """
    real = {old: new for old, new in moves.items() if old != new}
    if not real:
        return {}
    left = [old for old in real if old not in real.values()]
    taken = [new for new in real.values() if new not in real]
    swapped = real | dict(zip(taken, left, strict=True))
    return {device: swapped.get(device, device) for device in dict.fromkeys([*devices, *swapped])}


def _to_checkpoint_error(process: ProcessId, error: CudaCallFailed, lost: bool) -> CheckpointError:
    """Return the error of the driver with its kind and a sentence that ends with the driver's words."""
    problem = CheckpointProblem.LOST if lost else _PROBLEMS.get(error.code, CheckpointProblem.BROKEN)
    sentence = _SENTENCES.get(problem, "The driver could not change process {pid}.").format(pid=process.pid)
    return CheckpointError(problem, f"{sentence[:-1]} ({error}).")


def _no_process(process: ProcessId) -> CheckpointError:
    return CheckpointError(CheckpointProblem.NO_PROCESS, f"Process {process.pid} has ended, or uses no GPU.")
