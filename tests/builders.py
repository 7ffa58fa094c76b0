"""Builders for the nouns of the domain, and `apply`, which carries a decision out on a snapshot.

    cluster = Cluster().node("box", devices=2).queue("vision", quota="0.5").queue("nlp", quota="0.5")
    cluster.job("digits", "vision", gpus=1).running()

A `Cluster` collects; `snapshot()` gives the frozen value. Ids are the names given, times count from `NOW`.
"""

from collections.abc import Mapping
from dataclasses import replace

from jupyter_gq.domain.amount import Instant, MiB, MilliGpu, Seconds, parse_quota, parse_request
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import BUILD_ROOT, Queue, build_queue
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import (
    Activity,
    Backoff,
    Kind,
    Leaving,
    Request,
    Stop,
    TaskGroup,
    TaskPlacement,
    Workload,
)
from jupyter_gq.scheduling.decision import (
    Admit,
    Decision,
    Evict,
    Grow,
    Instruction,
    Pending,
    Reserve,
    Resume,
    Shrink,
    Suspend,
    Unwarn,
    Warn,
)

NOW = Instant(1_000_000.0)


def a_node(name: str = "box", devices: int = 1, pool: str = "train", memory: int = 40_000) -> Node:
    """A node whose devices are called `<name>-<index>`."""
    return Node(name=name, devices=tuple(a_device(f"{name}-{i}", i, pool, memory) for i in range(devices)))


def cordoned(node: Node) -> Node:
    """The same node, which is being drained."""
    devices = tuple(replace(device, healthy=False) for device in node.devices)
    return replace(node, devices=devices, closed=f"{node.name} is cordoned", draining=True)


def drained(node: Node, *indexes: int) -> Node:
    """The same node; its devices with these indexes are being drained."""
    devices = (replace(each, healthy=False, draining=True) if each.index in indexes else each for each in node.devices)
    return replace(node, devices=tuple(devices))


def a_device(id: str, index: int = 0, pool: str = "train", memory: int = 40_000, healthy: bool = True) -> Device:
    return Device(id=id, index=index, model="A100-40GB", memory=MiB(memory), pool=pool, healthy=healthy)


def a_queue(name: str, quota: str | float = 0, limit: str | float | None = None, **fields) -> Queue:
    fields.setdefault("pool", "train")
    bound = None if limit is None else parse_quota(limit)
    return Queue(name=name, quota=parse_quota(quota), limit=bound, **fields)


def a_job(name: str, queue: str, gpus: str | float = 1, **fields) -> Workload:
    """A pending training workload; it was submitted at `submitted` seconds after NOW - 1000."""
    submitted = fields.pop("submitted", 0)
    tasks = fields.get("tasks", 1)
    defaults = {"owner": "ann", "name": name, "kind": Kind.TRAINING, "min_members": tasks}
    return Workload(
        id=fields.pop("id", name),
        queue=queue,
        request=Request.of(parse_request(gpus)),
        submitted_at=Instant(NOW - 1000 + submitted),
        **{**defaults, **fields},
    )


def a_notebook(owner: str, gpus: str | float = "0.25", name: str = "", **fields) -> Workload:
    """A pending notebook of that user, not preemptible, in the user's fixed quota."""
    fields.setdefault("id", f"nb-{owner}{name}")
    return a_job(name, build_queue(owner), gpus, owner=owner, kind=Kind.NOTEBOOK, preemptible=False, **fields)


def running(workload: Workload, *devices: str, since: float = 0, state: State = State.RUNNING) -> Workload:
    """It holds these devices, `devices` of them a task, since `since` seconds after NOW - 1000."""
    per_task = max(1, workload.request.devices)
    chunks = [devices[i : i + per_task] for i in range(0, len(devices), per_task)] or [()]
    placement = tuple(TaskPlacement(node=(c[0].rsplit("-", 1)[0] if c else "box"), devices=tuple(c)) for c in chunks)
    return replace(
        workload, state=state, placement=placement, run=workload.run + 1, started_at=Instant(NOW - 1000 + since)
    )


def stopping(workload: Workload, by: str | None = None, requeue: bool = True) -> Workload:
    """A running workload that was told to stop."""
    stop = Stop(reason=EvictReason.RECLAIMED, sentence="Paused.", by=by, at=NOW, requeue=requeue)
    return replace(workload, state=State.STOPPING, stop=stop)


def backing_off(
    workload: Workload, until: float = NOW + 60, *, pause: float = 60, times: int = 1, sentence: str = "No room."
) -> Workload:
    """The same workload, whose place was refused; it pauses until then."""
    backoff = Backoff(until=Instant(until), pause=Seconds(pause), times=times, sentence=sentence)
    return replace(workload, backoff=backoff)


def idle(workload: Workload, for_seconds: float, **fields) -> Workload:
    """A running notebook that has not been used for so long, sampled just now."""
    fields.setdefault("busy", False)
    fields.setdefault("sampled_at", NOW)
    started = Instant(NOW - for_seconds - 5000)
    activity = Activity(last_active=Instant(NOW - for_seconds), **fields)
    return replace(workload, activity=activity, started_at=started)


class Cluster:
    """Collects nodes, queues and workloads."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.queues: list[Queue] = []
        self.workloads: list[Workload] = []
        self.usage: dict[str, float] = {}

    def node(self, name: str = "box", devices: int = 1, pool: str = "train") -> "Cluster":
        self.nodes.append(a_node(name, devices, pool))
        return self

    def pools(self, name: str = "box", **devices: int) -> "Cluster":
        """One node whose devices are split over pools, in the order given."""
        pool_names = [pool for pool, count in devices.items() for _ in range(count)]
        found = tuple(a_device(f"{name}-{i}", i, pool) for i, pool in enumerate(pool_names))
        self.nodes.append(Node(name=name, devices=found))
        return self

    def queue(self, name: str, quota: str | float = 0, **fields) -> "Cluster":
        self.queues.append(a_queue(name, quota, **fields))
        return self

    def fixed(self, pool: str = "build", **users: str) -> "Cluster":
        """The build tree: a leaf for each user, with the user's fixed quota as quota and limit."""
        total = sum(parse_quota(quota) for quota in users.values())
        self.queues.append(Queue(name=BUILD_ROOT, pool=pool, quota=MilliGpu(total)))
        for user, quota in users.items():
            self.queues.append(a_queue(build_queue(user), quota, quota, parent=BUILD_ROOT, pool=pool))
        return self

    def add(self, *workloads: Workload) -> "Cluster":
        self.workloads.extend(workloads)
        return self

    def with_usage(self, usage: Mapping[str, float]) -> "Cluster":
        """Decayed GPU-seconds by queue."""
        self.usage = dict(usage)
        return self

    def snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=tuple(self.nodes), queues=tuple(self.queues), workloads=tuple(self.workloads), usage=self.usage
        )


def groups_of(workload: Workload) -> list[TaskGroup]:
    """The kinds of task that a workload has."""
    alike = TaskGroup(name="", request=workload.request, tasks=workload.tasks, min_members=workload.min_members)
    return [group for group in workload.groups if group.tasks] or [alike]


def is_short(workload: Workload) -> bool:
    """Whether a workload holds devices and lacks tasks of its smallest gang."""
    has = {group.name: sum(t.group == group.name for t in workload.placement) for group in groups_of(workload)}
    return workload.holds and any(has[group.name] < group.min_members for group in groups_of(workload))


def _without_tasks(held: tuple[TaskPlacement, ...], gone: tuple[TaskPlacement, ...]) -> tuple[TaskPlacement, ...]:
    """What is left of the tasks held; among equal places the last one goes first."""
    left = list(reversed(held))
    for task in gone:
        left.remove(task)
    return tuple(reversed(left))


def apply(snapshot: Snapshot, decision: Decision, now: float = NOW) -> Snapshot:
    """What the controller makes of a decision: who is admitted runs, who is evicted is stopping."""
    workloads = {workload.id: workload for workload in snapshot.workloads}
    for instruction in decision.instructions:
        workloads[instruction.workload] = _apply(workloads[instruction.workload], instruction, Instant(now))
    return replace(snapshot, workloads=tuple(workloads.values()))


def _apply(workload: Workload, instruction: object, now: Instant) -> Workload:
    match instruction:
        case Admit(placement=placement):
            started = replace(workload, state=State.RUNNING, placement=placement, started_at=now, run=workload.run + 1)
            return replace(started, reserved=(), nominated=False)
        case Evict(reason=reason, by=by, sentence=sentence):
            requeue = workload.kind is Kind.TRAINING
            stop = Stop(reason=reason, sentence=sentence, by=by, at=now, requeue=requeue)
            return replace(workload, state=State.STOPPING, stop=stop)
        case Reserve(placement=placement, nominated=nominated):
            return replace(workload, reserved=placement, nominated=nominated)
        case Grow(placement=placement):
            grown = replace(workload, placement=(*workload.placement, *placement))
            return replace(grown, stale_since=workload.stale_since if is_short(grown) else None)
        case Shrink(placement=placement, reason=reason, by=by, sentence=sentence):
            stop = Stop(reason=reason, sentence=sentence, by=by, at=now, requeue=True)
            leaving = tuple(Leaving(task=task, stop=stop) for task in placement)
            return replace(
                workload,
                placement=_without_tasks(workload.placement, placement),
                leaving=(*workload.leaving, *leaving),
            )
        case Suspend():
            return replace(workload, state=State.SUSPENDED)
        case Resume(placement=placement):
            return replace(workload, state=State.RUNNING, placement=placement)
        case Warn(expire_at=expire_at, lends=lends):
            assert workload.activity is not None
            return replace(workload, activity=replace(workload.activity, expire_at=expire_at, told_lent=lends))
        case Unwarn():
            assert workload.activity is not None
            activity = workload.activity
            return replace(workload, activity=replace(activity, expire_at=None, promised_until=activity.expire_at))
    raise AssertionError(f"unknown instruction {instruction}")


def stopped(snapshot: Snapshot) -> Snapshot:
    """Everything that was stopping has stopped: back to its queue, or gone."""
    left = []
    for workload in snapshot.workloads:
        if workload.state is not State.STOPPING:
            left.append(replace(workload, leaving=()) if workload.leaving else workload)
        elif workload.stop is None or workload.stop.requeue:
            waiting = replace(
                workload, state=State.PENDING, placement=(), leaving=(), stop=None, started_at=None, stale_since=None
            )
            left.append(replace(waiting, requeued_at=NOW))
    return replace(snapshot, workloads=tuple(left))


def anything_stops(snapshot: Snapshot) -> bool:
    """Whether a workload, or a task of one, was told to stop and has not stopped yet."""
    return any(workload.state is State.STOPPING or workload.leaving for workload in snapshot.workloads)


def half_stopped(snapshot: Snapshot) -> Snapshot:
    """Every other workload that was told to stop has stopped."""
    told = [workload.id for workload in snapshot.workloads if workload.state is State.STOPPING]
    done = {workload.id: workload for workload in stopped(snapshot).workloads if workload.id in told[::2]}
    return replace(snapshot, workloads=tuple(done.get(workload.id, workload) for workload in snapshot.workloads))


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """So much time has passed: what runs has run so much longer, and notebooks that are not busy were idle for it."""
    return replace(snapshot, workloads=tuple(_aged(workload, seconds) for workload in snapshot.workloads))


def _aged(workload: Workload, seconds: float) -> Workload:
    started, stale, activity = workload.started_at, workload.stale_since, workload.activity
    if started is None and stale is None and activity is None:
        return workload
    return replace(
        workload,
        started_at=_earlier(started, seconds),
        stale_since=_earlier(stale, seconds),
        activity=None if activity is None else _sampled_later(activity, seconds),
    )


def _sampled_later(activity: Activity, seconds: float) -> Activity:
    """The same use of a notebook, sampled anew so much later."""
    return replace(
        activity,
        last_active=activity.last_active if activity.busy else _earlier(activity.last_active, seconds),
        kept_until=_earlier(activity.kept_until, seconds),
        expire_at=_earlier(activity.expire_at, seconds),
        promised_until=_earlier(activity.promised_until, seconds),
    )


def _earlier(time: Instant | None, seconds: float) -> Instant | None:
    return None if time is None else Instant(time - seconds)


def lost(snapshot: Snapshot, number: int) -> Snapshot:
    """The last task of the so-manyth of those that run several is lost, and its backend says so."""
    gangs = [w for w in snapshot.workloads if w.state is State.RUNNING and len(w.placement) > 1]
    for workload in gangs[number : number + 1]:
        left = replace(workload, placement=workload.placement[:-1])
        left = replace(left, stale_since=NOW if is_short(left) else None)
        workloads = tuple(left if other.id == left.id else other for other in snapshot.workloads)
        return replace(snapshot, workloads=workloads)
    return snapshot


def without(snapshot: Snapshot, *ids: str) -> Snapshot:
    """The same without these workloads."""
    return replace(snapshot, workloads=tuple(w for w in snapshot.workloads if w.id not in ids))


def acts(decision: Decision) -> tuple[Instruction, ...]:
    """The instructions of a decision, without those that only record a place."""
    return tuple(i for i in decision.instructions if not isinstance(i, Reserve))


def admitted(decision: Decision) -> list[str]:
    return [i.workload for i in decision.instructions if isinstance(i, Admit)]


def evicted(decision: Decision) -> list[str]:
    return [i.workload for i in decision.instructions if isinstance(i, Evict)]


def why(decision: Decision, workload: str) -> Pending:
    """The one entry of a workload that waits."""
    (entry,) = [entry for entry in decision.pending if entry.workload == workload]
    return entry
