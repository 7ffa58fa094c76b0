"""The protocol of checkpointers, which move the GPU state of one process to host memory and back.

Rules
-----
- States: RUNNING -lock-> LOCKED -checkpoint-> CHECKPOINTED -restore-> LOCKED -unlock-> RUNNING. A call in another
  state raises `CheckpointError` and changes nothing.
- Identity: a process is named by its id and its start time. A recycled id is refused as NO_PROCESS.
- The driver remembers: a state survives the program that caused it, so a successor asks `state` and goes on.
- Room first: a restore without enough free device memory destroys the process. Callers make sure of the room.

One contract suite runs against every implementation: tests/contract/test_checkpointer.py. All calls block.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import MachineError


class CheckpointState(StrEnum):
    """The states of a process for a checkpointer."""

    RUNNING = "RUNNING"
    LOCKED = "LOCKED"  # calls of the GPU block; the memory is still on the device
    CHECKPOINTED = "CHECKPOINTED"  # the memory is in the host memory of the process; calls of the GPU block
    FAILED = "FAILED"  # the process has lost its GPU state for ever


class CheckpointProblem(StrEnum):
    """The kinds of a `CheckpointError`."""

    BUSY = "BUSY"  # the work on the GPU did not end within the time-out of the lock; the process runs on
    OUT_OF_MEMORY = "OUT_OF_MEMORY"  # a restore found too little device memory; the process is lost
    LOST = "LOST"  # the GPU state of the process is lost for ever
    UNSUPPORTED = "UNSUPPORTED"  # the process uses managed memory, MPS, MIG or the like
    NO_PROCESS = "NO_PROCESS"  # the process has ended, its id was used again, or it uses no GPU
    NO_PERMISSION = "NO_PERMISSION"
    WRONG_STATE = "WRONG_STATE"  # the state of the process does not allow the call
    BROKEN = "BROKEN"  # any other error of the driver; the sentence has its text


class CheckpointError(MachineError):
    """A call of a checkpointer that failed, with its kind and a sentence for people."""

    def __init__(self, problem: CheckpointProblem, sentence: str) -> None:
        super().__init__(sentence)
        self.problem, self.sentence = problem, sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSupport:
    """The abilities of this machine to suspend GPU state."""

    #: GPU state can be suspended and resumed here.
    available: bool
    #: GPU state can be resumed on another device of the same model.
    can_move: bool
    #: A sentence that says what works, or why nothing does and what to do.
    detail: str


class Checkpointer(Protocol):
    """A checkpointer of processes; see the rules of this module. Only `CheckpointError` is raised."""

    def support(self) -> CheckpointSupport:
        """Return what this machine can do; never raises an exception."""
        ...

    def uses_device(self, process: ProcessId) -> bool:
        """Tell whether the process has state on a GPU, on the device or in a checkpoint; False if it has ended.

        Raises `CheckpointError` if the driver does not tell.
        """
        ...

    def state(self, process: ProcessId) -> CheckpointState:
        """Return the state of a process that uses a device. Raises `CheckpointError`, such as NO_PROCESS."""
        ...

    def lock(self, process: ProcessId, timeout: Seconds) -> None:
        """Let the GPU work of a RUNNING process end, and block further calls of the GPU.

        If the work does not end within `timeout`, raises `CheckpointError` BUSY and the process stays RUNNING.
        """
        ...

    def checkpoint(self, process: ProcessId) -> None:
        """Move the device memory of a LOCKED process to host memory, and release its devices.

        After an error such as UNSUPPORTED the process may be LOCKED or FAILED: ask `state`.
        """
        ...

    def restore(self, process: ProcessId, moves: Mapping[str, str]) -> None:
        """Move the state of a CHECKPOINTED process back to its devices; the process is LOCKED then.

        `moves` maps the UUID of a former device to that of the device to use instead; devices that it does not name
        stay. Only call this if the devices have room: after OUT_OF_MEMORY or LOST the process cannot be saved.
        """
        ...

    def unlock(self, process: ProcessId) -> None:
        """Let a LOCKED process call the GPU again; the process is RUNNING then."""
        ...
