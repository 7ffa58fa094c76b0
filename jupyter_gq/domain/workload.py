"""Workloads: the things that are scheduled. A notebook is one, and a job is what the user sees of another one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .amount import NO_MEMORY, ONE_GPU, Instant, MiB, MilliGpu, Seconds
from .reasons import EvictReason
from .states import HOLDING, State

#: Id of a workload and number of its run.
RunKey = tuple[str, int]


class Kind(StrEnum):
    """The purpose of a workload."""

    NOTEBOOK = "NOTEBOOK"
    TRAINING = "TRAINING"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The needs of each task: devices of one node, with the same amount of each, and host resources."""

    #: Number of devices; 0 = CPU only.
    devices: int
    #: Part of each device: 1000 = a whole device, less = a fraction.
    milli_per_device: MilliGpu = ONE_GPU
    #: Memory of each device, instead of a part of it. The core then computes `milli_per_device` from the smallest
    #: suitable device of the pool (see `scheduling.placement`); before that it is only a guess.
    device_memory: MiB | None = None
    #: Models of the devices; empty = any.
    models: tuple[str, ...] = ()
    #: Models that are tried first, in that order; others are taken if these have no room.
    preferred_models: tuple[str, ...] = ()
    #: Ids of the only devices that will do; empty = any. A paused job whose GPU state can go nowhere else needs them.
    only_devices: tuple[str, ...] = ()
    #: CPU of the node, in thousandths of a core.
    cpu_milli: int = 0
    #: Memory of the node (host memory).
    memory: MiB = NO_MEMORY
    #: Only nodes with these labels: (key, value).
    node_labels: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        """Return a hash of the fields that differ most.

        A cycle looks requests up some hundred thousand times, and hashing all fields would slow it.
        """
        return hash((self.devices, self.milli_per_device, self.cpu_milli, self.memory))

    @property
    def milli(self) -> MilliGpu:
        """GPUs of one task over all of its devices, in milli-GPU; 0 for CPU only."""
        return MilliGpu(self.devices * self.milli_per_device)

    @classmethod
    def of(cls, milli: MilliGpu) -> "Request":
        """Return the request for an amount of GPUs: 250 is a quarter of one device, 2000 is two whole devices.

        Above one GPU, the amount must be a multiple of 1000: the remainder is dropped.
        """
        if milli == 0:
            return cls(devices=0)
        if milli < ONE_GPU:
            return cls(devices=1, milli_per_device=milli)
        return cls(devices=milli // ONE_GPU)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyConstraint:
    """A level of a topology in one domain of which all tasks that belong together must, or should, run."""

    #: Name of a `Topology` of the snapshot.
    topology: str
    #: Level whose domain must hold all tasks; without room in one domain none of them starts.
    required: str | None = None
    #: Level whose domain should hold all tasks; without room there, the narrowest wider level that has room is used.
    preferred: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskGroup:
    """Equal tasks of a workload. Groups may contain groups, each with its own min replicas and topology."""

    name: str
    request: Request
    #: Number of tasks; 0 for a group that only contains other groups.
    tasks: int
    #: Min replicas: unless at least so many tasks of the group can start, the workload does not start.
    min_members: int
    #: Name of the group that contains this one; None = it belongs to the workload itself.
    parent: str | None = None
    topology: TopologyConstraint | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPlacement:
    """The place of one task: a node and devices of it."""

    node: str
    #: Ids of devices of the node; empty for CPU only.
    devices: tuple[str, ...] = ()
    #: Name of the task's `TaskGroup`; "" if the workload has no groups.
    group: str = ""


def devices_of(place: Iterable[TaskPlacement]) -> set[str]:
    """Return the ids of all devices at the places of some tasks."""
    return {device for task in place for device in task.devices}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The intent to end a run, with its reason; stored apart from the state, so that it outlives a restart."""

    reason: EvictReason
    #: One sentence for the owner.
    sentence: str
    #: Id of the preemptor, or name of the user who stopped the run; None if nobody else is involved.
    by: str | None
    at: Instant
    #: True = the workload goes back to its queue with its seniority; False = it ends as CANCELLED.
    requeue: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """A task that was told to stop while its workload goes on. Until its end the task holds its devices."""

    task: TaskPlacement
    stop: Stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """The wish of a person that a job does not run until it is released, or a turn that the job awaits."""

    #: Name of the user who held the job, or whose group it is; "" = the job awaits its turn on the machine.
    by: str
    at: Instant
    #: Why the job is held if no person holds it; "" = a person does.
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTimeLimit:
    """The longest time that a job may run, over all of its runs, as a person set it for this job."""

    seconds: Seconds
    #: Name of the user who set it.
    by: str


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
class SuspensionRefusal:
    """The failure of the last attempts to suspend a share. The share is in use as before."""

    #: Why the last attempt failed, for people.
    sentence: str
    #: Number of failed attempts in a row.
    times: int
    #: End of the backoff: no attempt before it.
    until: Instant


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """The latest sample of a notebook's use. None means unknown, and an unknown notebook is never idle."""

    #: Whether a kernel executes something.
    busy: bool | None
    #: The latest of: last execution, last use of the share, start.
    last_active: Instant | None
    #: Time of the sample.
    sampled_at: Instant
    #: End of the time for which the owner pressed "Keep it"; None = not pressed.
    kept_until: Instant | None = None
    #: Seconds of "Keep it" granted so far; the policy bounds them.
    kept_total: float = 0.0
    #: When the share will be taken; None = the owner is not being warned.
    expire_at: Instant | None = None
    #: Whether the warning says that the share is lent and nothing is lost.
    told_lent: bool = False
    #: The time that the last withdrawn warning named: the share is not taken before it. None = no such warning.
    promised_until: Instant | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A notebook or a training workload, as the core sees it."""

    id: str
    kind: Kind
    #: Name of the user.
    owner: str
    #: Name that the owner chose: of the job, or of the server ("" for the default server).
    name: str
    #: Name of a leaf queue.
    queue: str
    #: Needs of each task.
    request: Request
    #: Number of tasks.
    tasks: int = 1
    #: Min replicas: the workload starts with at least so many tasks, or not at all.
    min_members: int = 1
    #: Priority inside the queue; higher first.
    priority: int = 0
    #: False = the workload must fit the quota of each queue on its path, and is never evicted for another workload.
    preemptible: bool = True
    state: State = State.PENDING
    #: Time of the submission, which decides the seniority; kept through every pause.
    submitted_at: Instant
    #: Start of the present run.
    started_at: Instant | None = None
    finished_at: Instant | None = None
    #: One entry for each task while the workload holds devices, without tasks that are leaving; empty otherwise.
    placement: tuple[TaskPlacement, ...] = ()
    #: Tasks of elastic workloads that were told to stop and hold their devices still.
    leaving: tuple[Leaving, ...] = ()
    #: Number of the run, from 1; 0 before the first run.
    run: int = 0
    stop: Stop | None = None
    #: Use of a notebook; None = nothing has been reported, or no notebook.
    activity: Activity | None = None
    #: True = the backend can suspend the workload without loss.
    suspendable: bool = False
    #: The failure of the last attempts to suspend the share; None = the last attempt did not fail.
    suspension_refusal: SuspensionRefusal | None = None
    #: True = the backend can add tasks to the run and take some away, between `min_members` and `tasks`.
    elastic: bool = False
    #: Groups of unequal tasks, or gangs inside the gang; empty = one group of `tasks` times `request`. With groups,
    #: `tasks`, `min_members` and `request` only sum them up for people, and the core uses the groups.
    groups: tuple[TaskGroup, ...] = ()
    topology: TopologyConstraint | None = None
    #: When the run last saved its state; later work is lost with the run. None = never.
    checkpointed_at: Instant | None = None
    #: Expected duration from the start: the owner's estimate, or else what history says.
    estimate: Seconds | None = None
    #: Since when the gang runs with fewer tasks than its min replicas; None = it has enough.
    stale_since: Instant | None = None
    #: When the workload last went back to its queue, after a run or a hold; None = never.
    requeued_at: Instant | None = None
    #: Place that is kept for the workload while it waits, or while it stops to go on there; empty = no place.
    reserved: tuple[TaskPlacement, ...] = ()
    #: True = other work was told to stop for the place in `reserved`. No workload gets that place before this one.
    nominated: bool = False
    #: The pause since the last place was refused, whether it is over or not; None = the last place was not refused.
    backoff: Backoff | None = None
    #: While the workload is held, no cycle considers it as long as it waits; None = nobody holds it.
    hold: Hold | None = None
    #: The limit that the owner chose; None = the owner chose none.
    run_time_limit: RunTimeLimit | None = None
    #: The limit that a manager of the queue or an administrator set, which the owner cannot exceed; None = none.
    run_time_bound: RunTimeLimit | None = None
    #: Seconds for which earlier runs ran.
    ran: float = 0.0
    #: When the present run began to run, after its start; None = it does not run.
    running_since: Instant | None = None

    @property
    def log_fields(self) -> Mapping[str, str | int]:
        """The ids in records of the log about the workload, by name."""
        place = {"server": self.name} if self.kind is Kind.NOTEBOOK else {"queue": self.queue}
        return {"workload": self.id, "run": self.run, "user": self.owner, **place}

    @property
    def milli(self) -> MilliGpu:
        """GPUs that all tasks ask for together, in milli-GPU; with groups, the sum over the groups."""
        if self.groups:
            return MilliGpu(sum(group.request.milli * group.tasks for group in self.groups))
        return MilliGpu(self.request.milli * self.tasks)

    @property
    def held_places(self) -> tuple[TaskPlacement, ...]:
        """The places of all tasks that hold devices, also of those that were told to leave."""
        return (*self.placement, *(leaving.task for leaving in self.leaving))

    @property
    def can_shrink(self) -> bool:
        """Whether the workload has equal tasks and can run with fewer than it asks for."""
        return self.tasks > 1 and not self.groups and self.min_members < self.tasks

    def request_of(self, group: str) -> Request:
        """Return the request of each task of a group; the workload's own request if it has no group of this name."""
        return next((each.request for each in self.groups if each.name == group), self.request)

    @property
    def submission(self) -> tuple[Instant, str]:
        """Time of the submission, then the id: the sort key that puts older workloads first."""
        return self.submitted_at, self.id

    @property
    def waits_since(self) -> Instant:
        """Start of the wait of a pending workload: its last return to the queue, or else its submission."""
        return self.submitted_at if self.requeued_at is None else self.requeued_at

    def is_backing_off(self, now: Instant) -> bool:
        """Tell whether the workload is PENDING and the pause after the last refused place is not over at `now`."""
        return self.state is State.PENDING and self.backoff is not None and now < self.backoff.until

    def running_time(self, now: Instant) -> Seconds:
        """Return the seconds for which all runs ran until `now`, without starts and pauses."""
        return Seconds(self.ran + (0.0 if self.running_since is None else max(0.0, now - self.running_since)))

    @property
    def comes_back(self) -> bool:
        """Whether the workload, which was told to stop, goes back to its queue and may be started again at once."""
        return self.stop is not None and self.stop.requeue and self.hold is None

    @property
    def holds(self) -> bool:
        """Whether the workload holds quota and devices in its present state."""
        return self.state in HOLDING
