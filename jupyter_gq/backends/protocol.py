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
from typing import Protocol, runtime_checkable

from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import NewNodes, Node
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail


class Phase(StrEnum):
    """What a backend sees of a run."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Outcome(StrEnum):
    """How an ended run ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # the user's code raised, or the kernel died; `sentence` says which
    PAUSED = "PAUSED"  # it was told to stop and did, with its state saved as far as it saves any
    KILLED = "KILLED"  # it was told to stop and did not in its time
    LOST = "LOST"  # it vanished without a word
    REFUSED = "REFUSED"  # its place was not to be had: it is planned again, after a pause


class Sight(StrEnum):
    """Whether the container of a task was seen to have its own devices and no others."""

    RIGHT = "RIGHT"
    WRONG = "WRONG"  # it sees others, or lacks some of its own: it is stopped
    UNCLEAR = "UNCLEAR"  # it was looked at, and that cannot be told there
    UNSEEN = "UNSEEN"  # nobody has looked at it yet
    UNWATCHED = "UNWATCHED"  # nobody looks at present


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicesSeen:
    """What is known of the devices of one task."""

    sight: Sight
    #: We named its devices, so that nobody but us has seen to it that it gets no others: it must not begin unseen.
    required: bool
    #: For its owner.
    sentence: str

    @property
    def settled(self) -> bool:
        """Waiting would not change it, or not soon."""
        if self.sight is Sight.UNWATCHED:
            return not self.required
        return self.sight is not Sight.UNSEEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One run as the backend sees it now."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Everything needed to start one run."""

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
    #: It can suspend GPU state without loss.
    can_suspend: bool
    #: It can add tasks to a run and take some away.
    can_resize: bool
    #: It keeps no memory of its own: after a restart of the service each live run is launched to it again, with the
    #: record as it is. What is RUNNING or STOPPING then is only looked for, and never started anew.
    forgetful: bool
    #: A run of a workload that the store has never heard of is left alone and reported; otherwise it is ended.
    keeps_unknown: bool
    #: Fractions of a device need a node with this label; None: every node will do.
    share_label: tuple[str, str] | None

    def nodes(self) -> tuple[Node, ...]:
        """The nodes and devices that it can use now."""
        ...

    async def launch(self, launch: Launch) -> None:
        """Start this run; raise `BackendError` with a sentence when it cannot."""
        ...

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask it to end within `grace` seconds, then end it. No error if it is gone."""
        ...

    async def observe(self) -> Sequence[Observation]:
        """All runs that this backend knows, ended ones until `forget`."""
        ...

    async def forget(self, workload: str, run: int) -> None:
        """The end of that run is recorded; it need not be reported again."""
        ...


@runtime_checkable
class PreparesPods(Protocol):
    """A backend that says what the pod of a notebook must carry, once its devices are held for it."""

    def pod(self, workload: str, run: int) -> PodAdditions | None:
        """What a spawner merges into its pod; None while the devices are being prepared."""
        ...

    def named(self, workload: str, run: int) -> Mapping[str, str]:
        """The devices that the pod was told to name, by slot: to be in the detail of each later launch of that run."""
        ...

    def preparing(self, workload: str, run: int) -> str:
        """What is being waited for, in one sentence; "" when nothing is."""
        ...

    async def release(self, workload: str, run: int) -> None:
        """Its spawner gave it back and ends the pod itself: the run is ENDED as soon as no pod of it is left."""
        ...


@runtime_checkable
class KnowsEnforcement(Protocol):
    """A backend of whose pools each may be shared by somebody else, who holds a share to its amount or does not."""

    def enforcement(self, pool: str) -> str:
        """How strongly a share of a device of that pool is enforced, as it is shown to its owner; "" = not known."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """A pod with our labels that belongs to no run which the backend was told of."""

    #: Of which workload it says that it is.
    workload: str
    #: Namespace and name.
    pod: str
    #: "" = not bound yet.
    node: str
    #: How many it keeps from others.
    devices: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How many tasks of jobs a backend can begin soon."""

    #: On top of those that it is about to begin.
    left: int
    #: When it is about to begin none.
    most: int

    @property
    def is_easy(self) -> bool:
        """So many are left that it is worth while to go on."""
        return 3 * self.left >= self.most


@runtime_checkable
class PacesLaunches(Protocol):
    """A backend that needs some time for each launch of a job; more than that had better not be started yet."""

    def pace(self) -> Pace:
        """How many it can begin soon."""
        ...


@runtime_checkable
class SeesStrays(Protocol):
    """A backend whose pods are also made by others, who may leave one behind."""

    def strays(self) -> Sequence[Stray]:
        """Those that have stood for so long that somebody should hear of it."""
        ...


@runtime_checkable
class KnowsPods(Protocol):
    """A backend whose tasks are pods."""

    def task_of(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        """The number of the task that this pod is; None when it is none of that run.

        Raises `BackendError` when that cannot be known now.
        """
        ...

    def devices_seen(self, workload: str, run: int, task: int) -> DevicesSeen:
        """Whether that task was seen to have just its own devices; a notebook is its own task 0."""
        ...

    def image_of(self, ticket: str) -> str:
        """The image of the notebook that holds this ticket, by digest where that is known; "" when it is not."""
        ...


@runtime_checkable
class HearsAgents(Protocol):
    """A backend that learns from agents on the nodes what their devices do."""

    def hear(self, node: str, report: AgentReport) -> AgentOrders:
        """Take in what the agent of that node sees; answer what it shall watch and do."""
        ...

    def orders(self, node: str) -> AgentOrders:
        """The answer that its agent would get now, without its having said anything new."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesAsked:
    """What became of asking the cluster for new nodes of a pool."""

    #: Since when the oldest is asked for that has not come; None = none could be asked for, or all have come.
    since: Instant | None = None
    #: What the cluster says to that; "" = nothing.
    sentence: str = ""
    #: A node that has come and is being made ready; "" = none.
    arriving: str = ""


@runtime_checkable
class AddsNodes(Protocol):
    """A backend whose cluster adds nodes to some pools when it is asked for them."""

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """What may still come, one entry for each pool that grows."""
        ...

    def want_nodes(self, wanted: Mapping[str, int]) -> None:
        """So many new nodes of each pool would serve somebody now; a pool that is not named needs none."""
        ...

    def asked_for(self, pool: str) -> NodesAsked | None:
        """What became of that; None = nothing has been asked for, and it will be."""
        ...
