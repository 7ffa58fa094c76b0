"""The capabilities of a backend beyond launching, stopping and observing runs, stated once as data.

Rules
-----
- One record: the controller asks `Backend.capabilities` and never looks at the type of a backend.
- Plain defaults: a backend names only what it can do. Every other field already says that it cannot.
- Absence is an answer: a port whose absence a caller must hear about is None. Where absence only means that nothing
  happens, the default does nothing.

See docs/decisions/0060-state-the-capabilities-of-a-backend-as-data.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.cluster import NewNodes, NodeRequest
from jupyter_gq.domain.identity import PodIdentity


class AttestationResult(StrEnum):
    """Whether the container of a task was found to see its own devices and no others."""

    RIGHT = "RIGHT"
    WRONG = "WRONG"  # the container sees other devices, or lacks some of its own: it is stopped
    UNCLEAR = "UNCLEAR"  # the container was checked, and its node does not allow an answer
    UNSEEN = "UNSEEN"  # nobody has checked the container yet
    UNWATCHED = "UNWATCHED"  # no agent checks containers on that node at present


@dataclass(frozen=True, kw_only=True, slots=True)
class Attestation:
    """The outcome of the device visibility check of one task."""

    result: AttestationResult
    #: The task must not begin before its check: this project named its devices, so nobody else keeps others away.
    required: bool
    #: For the owner of the task.
    sentence: str

    @property
    def is_settled(self) -> bool:
        """Whether waiting longer would not change the result soon."""
        if self.result is AttestationResult.UNWATCHED:
            return not self.required
        return self.result is not AttestationResult.UNSEEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """A pod with our labels that belongs to no run that the backend was told of."""

    #: The workload that its label names.
    workload: str
    #: Namespace and name.
    pod: str
    #: "" = not bound yet.
    node: str
    #: Number of devices that it keeps from others.
    devices: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How many tasks of jobs a backend can begin soon."""

    #: Tasks that it can take now, on top of those that it is about to begin.
    left: int
    #: Tasks that it can take when it is about to begin none.
    most: int

    @property
    def is_easy(self) -> bool:
        """Whether at least a third of the capacity is left, so that starting more is worth the work."""
        return 3 * self.left >= self.most


class PodPreparation(Protocol):
    """Prepares the pod of a notebook server: reserves its devices and says what the pod must carry."""

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        """Return what a spawner merges into its pod; None while the devices are being prepared."""
        ...

    def named_devices(self, workload: str, run: int) -> Mapping[str, str]:
        """Return the devices that the pod was told to name, by slot.

        The controller passes them with each later launch of that run, in the record's detail.
        """
        ...

    def describe_preparation(self, workload: str, run: int) -> str:
        """Return what the pod is waiting for, in one sentence; "" when nothing is missing."""
        ...

    async def release(self, workload: str, run: int) -> None:
        """Give up a share whose spawner ends the pod itself; the run is ENDED as soon as no pod of it is left."""
        ...


class PodLookup(Protocol):
    """Knows the pods of runs: their tasks, their images, and what was found of their devices."""

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        """Return the number of the task that this pod is; None if the pod belongs to no task of that run.

        Raises `BackendError` when the answer is not known now.
        """
        ...

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        """Return the device visibility check of that task; a notebook is its own task 0."""
        ...

    def image_of(self, ticket: str) -> str:
        """Return the image of the notebook that holds this ticket, by digest if known; "" when it is unknown."""
        ...


class AgentReports(Protocol):
    """Learns from agents on the nodes what their devices do."""

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        """Store the report of a node's agent and return the orders for that agent."""
        ...

    def orders(self, node: str) -> AgentOrders:
        """Return the orders that the node's agent would get now, without a new report."""
        ...


class ProcessAttachment(Protocol):
    """Takes processes that somebody else started as holders of shares."""

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        """Let this process hold the share from now on.

        Raises `Conflict` when the process does not exist or is not the owner's.
        """
        ...


class NodeSupply(Protocol):
    """Asks a cluster for new nodes of pools that can grow."""

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that may still come, one entry for each pool that grows."""
        ...

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Ask for this number of new nodes of each pool; a pool that is not named needs none."""
        ...

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return the state of the request for that pool; None = nothing has been asked for yet."""
        ...


class NodeCordon(Protocol):
    """Cordons nodes of a cluster, so that the cluster starts nothing new there."""

    @property
    def drains(self) -> bool:
        """Whether training that can be paused leaves a cordoned node."""
        ...

    def is_cordoned(self, node: str) -> bool:
        """Return whether the node is cordoned, whoever did it; False for an unknown node."""
        ...

    async def set_cordoned(self, node: str, *, cordoned: bool) -> None:
        """Cordon or uncordon the node.

        Raises `Conflict` if the service has no right to do so, and `BackendError` if the cluster did not do it.
        """
        ...


class NoNodeSupply:
    """The node supply of a backend whose nodes are all there."""

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return nothing: no pool grows."""
        return ()

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Do nothing: there is nobody to ask."""

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return None: nothing was asked for."""
        return None


NO_NODE_SUPPLY = NoNodeSupply()


def unlimited_pace() -> Pace | None:
    """Return None: launches need not be spread over time."""
    return None


def no_strays() -> Sequence[Stray]:
    """Return nothing: no pod can be left behind."""
    return ()


def unknown_enforcement(pool: str) -> str:
    """Return "": nothing but the node itself enforces shares."""
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """The capabilities of one backend; the default of each field says that the backend lacks it."""

    #: The backend can suspend GPU state without loss.
    can_suspend: bool = False
    #: The backend can add tasks to a run and take some away.
    can_resize: bool = False
    #: The backend keeps no memory of its own: after a restart of the service each live run is launched to it again,
    #: with the record as it is. A run that is RUNNING or STOPPING then is only looked for, and never started anew.
    forgetful: bool = False
    #: A run of a workload that the store has never heard of is left alone and reported; otherwise such a run is ended.
    keeps_unknown: bool = False
    #: Fractions of a device need a node with this label; None: every node will do.
    share_label: tuple[str, str] | None = None
    #: Prepares notebook servers that are pods; None: servers are processes that a spawner starts.
    pod_preparation: PodPreparation | None = None
    #: Knows runs that are pods; None: no run of this backend is a pod.
    pod_lookup: PodLookup | None = None
    #: Accepts reports of agents on the nodes; None: there are no agents.
    agent_reports: AgentReports | None = None
    #: Lets processes of others hold shares; None: the backend starts, or finds, its processes itself.
    process_attachment: ProcessAttachment | None = None
    #: Cordons nodes; None: the service itself keeps which nodes and devices are drained.
    cordon: NodeCordon | None = None
    #: Asks for new nodes of pools that can grow.
    node_supply: NodeSupply = NO_NODE_SUPPLY
    #: How many tasks of jobs it can begin soon, where each launch takes some time; None = any number.
    pace: Callable[[], Pace | None] = unlimited_pace
    #: Pods made by others that have stood for so long without a run that somebody should hear of them.
    strays: Callable[[], Sequence[Stray]] = no_strays
    #: How strongly a share of a device of this pool is enforced, as its owner reads it; "" = not known.
    enforcement: Callable[[str], str] = unknown_enforcement
