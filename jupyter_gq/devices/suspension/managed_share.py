"""The share of one launched server, job or pod, and what is known of it since the start of this program."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from jupyter_gq.devices.linux.freezing import Freezer
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.states import State

from .share_state import ShareState
from .suspender import SuspensionTarget


@dataclass(kw_only=True, slots=True)
class ManagedShare:
    """The share of one launched server, job or pod."""

    name: str
    target: SuspensionTarget
    #: Returns the processes that may use a GPU: those of the target without its server, or the job's runner.
    find_programs: Callable[[], Collection[ProcessId]]
    #: State of the workload in its record.
    record: State
    #: The phase; None until the suspender has recovered.
    state: ShareState | None = None
    #: Whether the phase is that of the record, because the recovery of the share is unfinished.
    is_guess: bool = False
    #: Whether the share is used again, so that a suspension under way is to be undone.
    wanted: bool = False
    #: When the call under way began, in seconds awake; None = there is none.
    began: float | None = None
    #: Failed attempts to resume in a row.
    attempts: int = 0
    #: Until when, in seconds awake, no other attempt begins.
    pause_until: float = 0.0
    #: Processes whose state is in host memory.
    suspended: tuple[ProcessId, ...] = ()
    #: Processes that lost their GPU state; their kernels need a restart.
    lost: tuple[ProcessId, ...] = ()
    #: Stops the processes of a job while the share is suspended; None = the share of a server, which runs on.
    freezer: Freezer | None = None
    #: Whether the server or job has ended, so that the suspender forgets the share after the call under way.
    ended: bool = False

    def has_ended(self, is_alive: Callable[[ProcessId], bool]) -> bool:
        """Return whether all suspended programs of a server have ended, or any process of a job that stands still.

        `is_alive` returns whether a process of this machine runs.
        """
        if self.freezer is None:
            return bool(self.suspended) and not any(map(is_alive, self.suspended))
        return not all(map(is_alive, self.freezer.stopped.union(self.suspended)))
