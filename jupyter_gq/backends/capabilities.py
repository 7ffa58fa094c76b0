"""The capabilities of a backend beyond launching, stopping and observing runs, stated once as data.

Rules
-----
- One record: the controller asks `Backend.capabilities` and never looks at the type of a backend.
- Plain defaults: a backend names only what it can do. Every other field already says that it cannot.
- Absence is an answer: a port whose absence a caller must hear about is None. Where absence only means that nothing
  happens, the default does nothing.

See docs/decisions/0060-state-the-capabilities-of-a-backend-as-data.md.
"""

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.models import NodeDescription
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, NewNodes, NodeRequest
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .share_suspension import ShareSuspension


class AttestationResult(StrEnum):
    """The results of the check whether the container of a task sees its own devices and no others."""

    RIGHT = "RIGHT"
    WRONG = "WRONG"  # the container sees other devices, or does not see some of its own: it is stopped
    UNCLEAR = "UNCLEAR"  # the check was made, but the node cannot tell which devices the container sees
    UNCHECKED = "UNCHECKED"  # no agent has checked the container yet
    UNWATCHED = "UNWATCHED"  # no agent checks containers on that node at present


@dataclass(frozen=True, kw_only=True, slots=True)
class Attestation:
    """The outcome of the device visibility check of one task."""

    result: AttestationResult
    #: Whether the task must not start before its check, because only the backend named its devices to it.
    required: bool
    #: Explanation for the owner of the task.
    sentence: str

    @property
    def is_settled(self) -> bool:
        """Whether the result will not change soon, so that waiting longer is useless."""
        if self.result is AttestationResult.UNWATCHED:
            return not self.required
        return self.result is not AttestationResult.UNCHECKED


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """A pod with the product's labels that belongs to no run known to the backend."""

    #: Id of the workload that its label names.
    workload: str
    #: Namespace and name of the pod.
    pod: str
    #: Name of its node; "" if it is not bound yet.
    node: str
    #: Number of devices that the pod holds.
    devices: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The launch capacity of a backend: how many tasks of jobs it can start soon."""

    #: Number of tasks that the backend can take now, beside those that it is about to start.
    left: int
    #: Number of tasks that the backend can take if it is about to start none.
    most: int

    @property
    def is_easy(self) -> bool:
        """Whether at least a third of the capacity is left, so that starting more is worth the work."""
        return 3 * self.left >= self.most


class PodPreparation(Protocol):
    """The preparation of the pod of a notebook server: reserved devices, and additions to the pod."""

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        """Return what a spawner merges into its pod, and reserve the pod's devices if that is not done.

        None: the devices are still being reserved, or no pod is wanted.
        """
        ...

    def named_devices(self, workload: str, run: int) -> Mapping[str, str]:
        """Return the devices that the pod was told to use, by slot.

        The controller passes them with each later launch of that run, in the record's detail.
        """
        ...

    def describe_preparation(self, workload: str, run: int) -> str:
        """Return the reason why the pod cannot be made yet, as a sentence; "" if there is none."""
        ...

    async def release(self, workload: str, run: int) -> None:
        """Release a share whose spawner deletes the pod itself; the run is ENDED once it has no pod any more."""
        ...


class PodLookup(Protocol):
    """The pods of runs: their tasks, their images, and their device checks."""

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        """Return the number of the task to which this pod belongs; None if it belongs to no task of that run.

        Raise `BackendError` if that is not known now.
        """
        ...

    def present_tasks(self, workload: str, run: int) -> tuple[int, ...]:
        """Return the numbers of the tasks of a job's run that were not told to leave; none if the run is unknown."""
        ...

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        """Return the device check of a task; a notebook is task 0."""
        ...

    def image_of(self, ticket: str) -> str:
        """Return the image of the notebook that holds this ticket, by digest if known; "" when it is unknown."""
        ...


class AgentReports(Protocol):
    """The reports of agents on the nodes, and the orders for them."""

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        """Store the report of a node's agent and return the orders for that agent."""
        ...

    def orders(self, node: str) -> AgentOrders:
        """Return the orders that the node's agent would get now, without a new report."""
        ...

    def describe_nodes(self) -> Sequence[NodeDescription]:
        """Return what each node of a pool can do, as its agent told last, sorted by name.

        A node whose agent has not reported is described as unheard, without abilities. A node without a GPU and without
        an agent is left out if its pool takes every node.
        """
        ...


class CheckpointFolders(StrEnum):
    """The ways in which a backend keeps the checkpoints of a job for its later runs, and for jobs that continue it."""

    #: All tasks of a job have the same folder.
    SHARED = "SHARED"
    #: Each task has a folder of its own.
    EACH_TASK = "EACH_TASK"


class ProcessAttachment(Protocol):
    """The attachment of processes that were started elsewhere to the shares that they hold."""

    def check_process(self, owner: str, pid: int, started: float) -> None:
        """Raise `Conflict` unless this process exists and may hold a share of its owner.

        `started` is its start in seconds since the epoch. Raise `BackendError` if that cannot be known yet.
        """
        ...

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        """Record that this process holds the share of a run; `started` is its start in seconds since the epoch.

        Raise `Conflict` if the run holds no share, if the process does not exist or is not the owner's, or if another
        living process holds the share; `BackendError` if it cannot be known yet whose process it is.
        """
        ...


class ProcessSignals(Protocol):
    """The right to signal single processes of runs on this machine."""

    def signal_process(self, workload: str, run: int, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to exactly this process if it belongs to the run now; return whether it was sent.

        Nothing is sent to a process that has ended, whose id was used again, or that the service may not signal.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitState:
    """The state of the memory limits that the driver keeps for a run."""

    #: Devices on which the driver has confirmed the limit.
    confirmed: frozenset[str] = frozenset()
    #: Why there is no limit on the other devices, as a sentence; "" if that is not known, or if there are no others.
    trouble: str = ""


class MemoryLimits(Protocol):
    """The limits that the driver itself keeps on the device memory of runs."""

    def want(self, workload: str, run: int, limits: Mapping[str, MiB]) -> None:
        """Let all processes of a run together hold so much of each of these devices, and any amount of others.

        Returns at once; calls that change nothing are cheap. Nothing happens if the run is unknown.
        """
        ...

    def note_users(self, workload: str, run: int, users: Collection[ProcessId]) -> None:
        """Tell which processes of a run use a device now: nothing is confirmed while one of them evades the limits."""
        ...

    def state(self, workload: str, run: int) -> LimitState:
        """Return on which devices the limit is confirmed; on none if the run is unknown."""
        ...


class Partitioning(Protocol):
    """The devices that are shared by MPS, so that several programs compute on them at the same time."""

    @property
    def trouble(self) -> str:
        """The trouble with MPS, as a sentence; "" if it runs, or if that is not known yet."""
        ...

    def describe_trouble(self, devices: Collection[str]) -> str:
        """Return what is wrong with MPS for the programs on these devices, as a sentence; "" if nothing is."""
        ...

    def serves(self, devices: Collection[str]) -> bool:
        """Return whether one of these devices is shared by MPS."""
        ...

    def environment(self, devices: Sequence[Device], milli: MilliGpu) -> Mapping[str, str]:
        """Return the variables by which programs with `milli` of each of these devices use MPS; {} = they do not."""
        ...

    def keep_running(self) -> None:
        """Begin to start MPS if it does not run. Returns at once; most calls do nothing."""
        ...


class SignalResult(StrEnum):
    """The result of an order to send a signal."""

    WAITING = "waiting"
    SENT = "sent"
    #: The agent could not, or may not, send the signal.
    REFUSED = "refused"
    #: No agent carried out the order in time, or the reason for the order is gone.
    LAPSED = "lapsed"


class OrderedSignals(Protocol):
    """Orders to signal single processes of runs on other machines."""

    def can_signal(self, device: str) -> bool:
        """Return whether processes on this device can be signalled now; `device` is the core's name of it."""
        ...

    def order_signal(self, key: tuple[str, int], device: str, process: ProcessId, number: signal.Signals) -> str:
        """Order a signal to exactly this process if it holds memory of this device and belongs to the run.

        `key` is the workload and the number of its run. Returns the id of the order; "" = it cannot be ordered.
        """
        ...

    def signal_result(self, order: str) -> SignalResult:
        """Return what became of an order; an unknown one has lapsed."""
        ...


class NodeSupply(Protocol):
    """The supply of new nodes for pools that can grow."""

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that the cluster can still add, one entry for each pool that can grow."""
        ...

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Request this number of new nodes for each pool; pools that are not named need none."""
        ...

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return the state of the request for nodes of this pool; None if no node is being requested."""
        ...


class NodeCordon(Protocol):
    """The means to cordon nodes of a cluster, so that the cluster starts nothing new there."""

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


class UserSecrets(Protocol):
    """The secrets that users have stored for their jobs; nobody here reads their values."""

    @property
    def in_home(self) -> bool:
        """Whether the secrets are files in the homes of users, stored by `jupyter-gq secret set`."""
        ...

    def find_missing(self, owner: str, home: str, names: Sequence[str]) -> list[str]:
        """Return the names that the owner has not stored; none if only the place where the job runs knows that.

        `home` is the home of the owner's notebook server. Raises `BackendError` if the owner has no account.
        """
        ...


class RunResizing(Protocol):
    """The change of the number of tasks of a run while it runs."""

    async def resize(
        self, workload: Workload, detail: WorkloadDetail, environment: Mapping[str, str], grace: Seconds
    ) -> None:
        """Let the present run have one task at each place of `workload.placement`, and no others.

        Tasks that leave are told to stop, and killed after `grace` seconds; task 0 never leaves. Tasks that join start
        with this environment. Nothing happens if the run is unknown, ends, or has these tasks; a call after a crash
        completes what the last one began. A task that cannot join is logged, and the observation shows the run as
        closed. Raises `BackendError` if task 0 would have to leave.
        """
        ...


class NoNodeSupply:
    """The node supply of a backend that cannot add nodes."""

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return no nodes: no pool can grow."""
        return ()

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Do nothing: no node can be added."""

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return None: no node was requested."""
        return None


NO_NODE_SUPPLY = NoNodeSupply()


def unlimited_pace() -> Pace | None:
    """Return None: launches need not be spread over time."""
    return None


def no_strays() -> Sequence[Stray]:
    """Return no pods: the runs of this backend are no pods."""
    return ()


def no_warnings() -> Sequence[str]:
    """Return no warnings: a backend that looks for no troubles has none to tell administrators."""
    return ()


def no_other_enforcement(pool: str) -> ShareLevel | None:
    """Return None: no software beside this product divides the devices of the pool."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """The capabilities of one backend; the default of each field says that the backend lacks it."""

    #: Suspends the GPU state of shares without loss; None: the backend cannot suspend.
    suspension: ShareSuspension | None = None
    #: Adds tasks to a run and takes some away; None: the backend cannot.
    resizing: RunResizing | None = None
    #: The backend stores no runs: after a restart of the service each live run is launched again, with its record. For
    #: a run that was RUNNING or STOPPING, the backend then only finds its processes and never starts new ones.
    forgetful: bool = False
    #: A run of a workload that is not in the store is kept and reported; otherwise such a run is stopped.
    keeps_unknown: bool = False
    #: Label that a node must have to take fractions of a device; None: every node can.
    share_label: tuple[str, str] | None = None
    #: Prepares notebook servers that are pods; None: servers are processes that a spawner starts.
    pod_preparation: PodPreparation | None = None
    #: Knows runs that are pods; None: no run of this backend is a pod.
    pod_lookup: PodLookup | None = None
    #: Accepts reports of agents on the nodes; None: there are no agents.
    agent_reports: AgentReports | None = None
    #: Lets processes that were started elsewhere hold shares; None: the backend starts or finds its processes itself.
    process_attachment: ProcessAttachment | None = None
    #: Signals single processes of runs; None: the processes are on other machines.
    process_signals: ProcessSignals | None = None
    #: Has the driver limit the memory of runs; None: the driver is not told their limits.
    memory_limits: MemoryLimits | None = None
    #: Shares devices by MPS; None: there are no such devices.
    partitioning: Partitioning | None = None
    #: Has single processes of runs signalled by agents; None: there are no agents.
    ordered_signals: OrderedSignals | None = None
    #: Cordons nodes; None: the service itself keeps which nodes and devices are drained.
    cordon: NodeCordon | None = None
    #: Gives secrets to jobs by their names; None: jobs cannot have secrets.
    secrets: UserSecrets | None = None
    #: Keeps checkpoints, so that a job can begin with those of an earlier one; None: they are lost with each run.
    checkpoints: CheckpointFolders | None = None
    #: Runs each job in the container image that its record names.
    images: bool = False
    #: Requests new nodes for pools that can grow.
    node_supply: NodeSupply = NO_NODE_SUPPLY
    #: Returns how many tasks of jobs the backend can start soon; None: any number.
    pace: Callable[[], Pace | None] = unlimited_pace
    #: Returns pods that have existed without a run for so long that an administrator should be told.
    strays: Callable[[], Sequence[Stray]] = no_strays
    #: Returns what administrators should mend although all work goes on, as sentences.
    warnings: Callable[[], Sequence[str]] = no_warnings
    #: Returns why the jobs of a user cannot work in a folder, as the end of a clause, or "" if they can; it may block.
    #: None: that is known only where a job runs.
    find_folder_fault: Callable[[str, str], str] | None = None
    #: Most tasks that request no GPU, CPU or memory and run at the same time; None: any number.
    max_uncounted_tasks: int | None = None
    #: Folders of the notebooks' machines that jobs find at the same path; "/" = all of them.
    reached_folders: tuple[str, ...] = ()
    #: What keeps jobs within the CPU and memory that they request, as one sentence for administrators; "" = their pods.
    limits: str = ""
    #: Returns the level at which other software that divides the devices of a pool enforces shares; None = none does.
    enforcement: Callable[[str], ShareLevel | None] = no_other_enforcement
