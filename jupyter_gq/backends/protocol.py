"""The backend protocol: launch, stop, observe. A backend decides nothing. One contract suite runs against each of them.

Guarantees of every implementation
----------------------------------
- Idempotent launch: another call of `launch` for the same run starts no second copy, even from another process after a
  crash.
- All or nothing: all tasks of a run start, or no task is left behind.
- Idempotent stop: `stop` returns at once and may be called again; `observe` shows the end.
- Free devices: `observe` reports a run as ENDED only once its processes are gone, so that its devices are free.
- Survived restarts: after a restart of the service, `observe` finds the same runs again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jupyter_gq.devices.suspension.share_state import ShareState
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .capabilities import Capabilities


class Phase(StrEnum):
    """The phase of a run, as a backend sees it."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Outcome(StrEnum):
    """The way in which a run ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # the user's code raised, or the kernel died; `sentence` says which
    PAUSED = "PAUSED"  # the run was told to stop and did; it has saved its state if it saves any
    KILLED = "KILLED"  # the run was told to stop and did not do so in time
    LOST = "LOST"  # the run ended without a result
    REFUSED = "REFUSED"  # the place of the run was not available: the run is placed again, after a backoff


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """A run as the backend sees it now."""

    workload: str
    run: int
    phase: Phase
    #: When the phase began, as far as is known.
    since: Instant
    outcome: Outcome | None = None
    #: One sentence for the owner. Of a run that ended as FAILED, KILLED or LOST: why. Of one that goes on: what is
    #: wrong, or what keeps it from starting; "" = nothing.
    sentence: str = ""
    #: For LOST: whether somebody else ended the run on purpose, so that its code is not to blame.
    disrupted: bool = False
    #: Processes of the run on this machine (for sampling); empty elsewhere.
    pids: tuple[int, ...] = ()
    #: Owner of the run, place of each task, and `hash_token` of its secret, as the backend itself remembers them; empty
    #: if the backend keeps no memory of its own.
    owner: str = ""
    placement: tuple[TaskPlacement, ...] = ()
    token_hash: str = ""
    #: Places of tasks that were told to leave a run which goes on, and have processes still.
    leaving: tuple[TaskPlacement, ...] = ()
    #: Whether no task can be added to the run any more, as when a task has finished.
    closed: bool = False
    #: The phase of the share of a running notebook; None if it is not known yet, or if the backend cannot suspend.
    share: ShareState | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """The ids of the devices in `placement`, each once."""
        return tuple(dict.fromkeys(device for task in self.placement for device in task.devices))


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """The data needed to start one run."""

    workload: Workload
    #: Details of the workload that the service remembers: image, working folder, process.
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    #: Added to the environment of each task: devices, share, caps.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Secret with which the job's runner reports outputs; never logged.
    token: str = ""
    #: Number of the last output piece that the service has of earlier runs of the job; 0 if it has none.
    last_seq: int = 0


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal, which is stored instead of the token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Backend(Protocol):
    """A place where workloads run. The methods may take some time and are called one at a time."""

    #: Kinds of workload that this backend runs.
    kinds: frozenset[Kind]

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of this backend beyond launching, stopping and observing runs."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of this backend with their devices, also those that are marked as closed for new work."""
        ...

    async def launch(self, launch: Launch) -> None:
        """Start all tasks of this run, unless they were started before.

        On an error no task is left behind, and `BackendError` is raised with a sentence.
        """
        ...

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Tell a run to end, and kill what is left of it after `grace` seconds; do nothing if the run is unknown."""
        ...

    async def observe(self) -> Sequence[Observation]:
        """Return the present state of all runs that this backend knows; ended runs are returned until `forget`."""
        ...

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run, so that `observe` no longer returns it. The caller must have recorded its end."""
        ...
