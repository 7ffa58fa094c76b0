"""The backend protocol: launch, stop, observe. Nothing here decides. One contract suite runs against every backend.

Guarantees an implementation must give
--------------------------------------
1. `launch` is idempotent for one (workload, run): called again, also by another process after a crash, it starts
   no second copy.
2. All tasks of a run start, or none is left behind.
3. `stop` is idempotent and returns at once; `observe` shows the end.
4. `observe` reports a run as ENDED only when its processes are gone: devices are free exactly then.
5. After a restart of the service `observe` finds the same runs again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .capabilities import Capabilities


class Phase(StrEnum):
    """The phase of a run, as a backend sees it."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Outcome(StrEnum):
    """How an ended run ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # the user's code raised, or the kernel died; `sentence` says which
    PAUSED = "PAUSED"  # the run was told to stop and did, with its state saved as far as it saves any
    KILLED = "KILLED"  # the run was told to stop and did not in its time
    LOST = "LOST"  # the run vanished without a word
    REFUSED = "REFUSED"  # the place of the run was not available: the run is planned again, after a pause


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """A run as the backend sees it now."""

    workload: str
    run: int
    phase: Phase
    #: When the phase began, as far as is known.
    since: Instant
    outcome: Outcome | None = None
    #: For FAILED, KILLED, LOST: one sentence for the owner.
    sentence: str = ""
    #: Processes of the run on this machine (for sampling); empty elsewhere.
    pids: tuple[int, ...] = ()
    #: Owner and devices of the run, as the backend itself remembers them; empty where it keeps no memory of its own.
    owner: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """The data needed to start one run."""

    workload: Workload
    #: What the service remembers of the workload: image, working folder, process.
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    #: Added to the environment of each task: devices, share, caps.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Secret for the job's own runner, to report outputs; not to be logged.
    token: str = ""


class Backend(Protocol):
    """Does what it is told. Methods may take some time and are called one at a time."""

    #: The kinds of workload that it runs.
    kinds: frozenset[Kind]

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of this backend beyond launching, stopping and observing runs."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes and devices that this backend can use now."""
        ...

    async def launch(self, launch: Launch) -> None:
        """Start this run; raise `BackendError` with a sentence when it cannot."""
        ...

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask it to end within `grace` seconds, then end it. No error if it is gone."""
        ...

    async def observe(self) -> Sequence[Observation]:
        """Return all runs that this backend knows; ended runs until `forget`."""
        ...

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run whose end is recorded: the run need not be reported again."""
        ...
