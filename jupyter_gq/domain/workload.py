"""Workloads: what is scheduled. A notebook holds a share; a job is what the user sees of a training workload."""

from dataclasses import dataclass
from enum import StrEnum

from .amount import NO_MEMORY, ONE_GPU, Instant, MiB, MilliGpu, Seconds
from .reasons import EvictReason
from .states import HOLDING, State


class Kind(StrEnum):
    """What a workload is for."""

    NOTEBOOK = "NOTEBOOK"
    TRAINING = "TRAINING"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What each task needs: `devices` devices of one node, with the same amount of each."""

    #: 0 = CPU only.
    devices: int
    #: Of each device: 1000 = whole, less = a fraction.
    milli_per_device: MilliGpu = ONE_GPU
    #: Memory of each device, instead of a part of it: `milli_per_device` is then what it makes of the smallest suitable
    #: device of the pool (see `scheduling.placement`), and only a guess before.
    device_memory: MiB | None = None
    #: Only devices of one of these models; empty = any.
    models: tuple[str, ...] = ()
    #: Devices of these models first, in that order; others if there is no way.
    preferred_models: tuple[str, ...] = ()
    #: Processors of the node, in thousandths of a core.
    cpu_milli: int = 0
    #: Memory of the node.
    memory: MiB = NO_MEMORY
    #: Only nodes with these labels: (key, value).
    node_labels: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        """Of what differs most: requests are looked up some hundred thousand times in a cycle."""
        return hash((self.devices, self.milli_per_device, self.cpu_milli, self.memory))

    @property
    def milli(self) -> MilliGpu:
        """The sum over its devices."""
        return MilliGpu(self.devices * self.milli_per_device)

    @classmethod
    def of(cls, milli: MilliGpu) -> "Request":
        """From a parsed request: 250 is a quarter of one device, 2000 is two whole ones."""
        if milli == 0:
            return cls(devices=0)
        if milli < ONE_GPU:
            return cls(devices=1, milli_per_device=milli)
        return cls(devices=milli // ONE_GPU)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyConstraint:
    """Tasks that belong together stand in one domain of a level."""

    #: Name of a `Topology` of the snapshot.
    topology: str
    #: All in one domain of this level, or not at all.
    required: str | None = None
    #: In one domain of this level, or of the narrowest wider one that has room.
    preferred: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskGroup:
    """Like tasks of a workload; groups may be parts of groups, each with its own least size and its own topology."""

    name: str
    request: Request
    #: 0 for a group that only holds others together.
    tasks: int
    #: It starts with at least that many of its tasks, or the whole workload does not.
    min_members: int
    #: Name of the group that it is a part of; None = of the workload itself.
    parent: str | None = None
    topology: TopologyConstraint | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPlacement:
    """Where one task goes: a node and devices of it (empty for CPU only)."""

    node: str
    devices: tuple[str, ...] = ()
    #: Name of its `TaskGroup`; "" where the workload has no groups.
    group: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The intent to end a run, and why. Kept apart from the state, so that a restart goes on with it."""

    reason: EvictReason
    #: One sentence for the owner.
    sentence: str
    #: The workload or user for whom it is done; None when nobody else is involved.
    by: str | None
    at: Instant
    #: True: back to its queue with its seniority. False: ends as CANCELLED.
    requeue: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """A task that was told to stop while its workload goes on; it holds its devices until it is gone."""

    task: TaskPlacement
    stop: Stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """A pause of a pending workload, which begins when a backend refuses the place that was decided for it."""

    #: Number of refusals in a row.
    times: int
    #: End of the pause: no cycle before it considers the workload.
    until: Instant
    #: Length of the pause.
    pause: Seconds
    #: Why the last place was refused, in the words of the backend.
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """What is known of a notebook's use. None anywhere means unknown, and unknown is never idle."""

    #: A kernel executes something now.
    busy: bool | None
    #: Last execution, last use of the share, or start, whichever is latest.
    last_active: Instant | None
    #: When this was sampled.
    sampled_at: Instant
    #: The owner said "Keep it" until then.
    kept_until: Instant | None = None
    #: Seconds of "Keep it" granted so far, against the bound of the policy.
    kept_total: float = 0.0
    #: Set while the owner is being warned: when the share will be taken.
    expire_at: Instant | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The thing that is scheduled, as the core sees it."""

    id: str
    kind: Kind
    #: Name of the user.
    owner: str
    #: What the owner calls it: a job's name, or a server's name ("" for the default server).
    name: str
    #: Name of a leaf queue.
    queue: str
    request: Request
    #: Number of tasks; each gets `request`.
    tasks: int = 1
    #: It starts with at least that many tasks, or not at all.
    min_members: int = 1
    #: Inside its queue; higher first.
    priority: int = 0
    #: False: it must fit the quota of each ancestor queue, and is never taken away for anybody.
    preemptible: bool = True
    state: State = State.PENDING
    #: Seniority: kept through every pause.
    submitted_at: Instant
    #: Start of the present run.
    started_at: Instant | None = None
    finished_at: Instant | None = None
    #: One per task while it holds devices; empty otherwise. What is leaving is not among them.
    placement: tuple[TaskPlacement, ...] = ()
    #: Elastic ones only: tasks that it gave up and that are not gone yet.
    leaving: tuple[Leaving, ...] = ()
    #: Number of the run, from 1; 0 before the first.
    run: int = 0
    stop: Stop | None = None
    #: Notebooks only; None = nothing has been reported.
    activity: Activity | None = None
    #: The backend can suspend it without loss.
    suspendable: bool = False
    #: The backend can add tasks to its run and take some away, between `min_members` and `tasks`.
    elastic: bool = False
    #: Unlike tasks, or gangs inside the gang. Empty: one group of `tasks` times `request`. Otherwise `tasks`,
    #: `min_members` and `request` sum them up for people, and the core goes by the groups.
    groups: tuple[TaskGroup, ...] = ()
    topology: TopologyConstraint | None = None
    #: When its state was last saved; what was done since is lost with the run. None = never.
    checkpointed_at: Instant | None = None
    #: How long it is expected to run from its start: its owner's estimate, or what history says.
    estimate: Seconds | None = None
    #: Since when it runs with less than its smallest gang; None = it has it.
    stale_since: Instant | None = None
    #: When it last went back to its queue after a run; None = it waits since its submission, if it waits.
    requeued_at: Instant | None = None
    #: Where room is kept for it while it waits, or while it stops to go on there; empty = nowhere in particular.
    reserved: tuple[TaskPlacement, ...] = ()
    #: The pause since its last place was refused, whether it is over or not; None = its last place was not refused.
    backoff: Backoff | None = None

    @property
    def milli(self) -> MilliGpu:
        """GPUs over all of its tasks."""
        if self.groups:
            return MilliGpu(sum(group.request.milli * group.tasks for group in self.groups))
        return MilliGpu(self.request.milli * self.tasks)

    def request_of(self, group: str) -> Request:
        """What a task of that group needs; "" where the workload has no groups."""
        return next((each.request for each in self.groups if each.name == group), self.request)

    @property
    def waits_since(self) -> Instant:
        """Since when it waits, if it waits."""
        return self.submitted_at if self.requeued_at is None else self.requeued_at

    def is_backing_off(self, now: Instant) -> bool:
        """Tell whether the workload waits and its back-off is not over yet."""
        return self.state is State.PENDING and self.backoff is not None and now < self.backoff.until

    @property
    def holds(self) -> bool:
        """It holds quota and devices."""
        return self.state in HOLDING
