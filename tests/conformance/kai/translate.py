"""From a case to our snapshot, and from a decision back to what became of each task.

Rules
-----
1. A job is a workload. Tasks that are told to stop while others of the job go on are a workload beside it.
2. A deserved quota without bound is the whole cluster; a limit of 0, or none, is no limit.
3. Ties: the peer's go by creation, ours by name. So queues and workloads get names in the order of their creation.
4. Memory of nodes is counted in bytes, and nothing that is asked for is rounded to 0.
5. What ended does not come back: a job that has too few tasks left for its smallest gang is not started, and gets no
   more. One of whose tasks some ended well has lost nothing.
6. Between rounds nobody is stopping any more; what was placed runs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, MilliGpu
from jupyter_gq.domain.cluster import Device, Node, Topology
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Request, Stop, TaskPlacement, Workload
from jupyter_gq.scheduling.workloads.gang import groups_of
from jupyter_gq.scheduling.workloads.replicas import is_short

from .groups import grouped, of_leaving
from .verdict import Case, Untranslatable

NOW = Instant(1_000_000.0)
POOL = "train"
#: A quota or weight without bound.
WITHOUT_BOUND = -1
#: Milli-GPU that no cluster of the tables has.
VERY_MUCH = MilliGpu(10**9)
LEAVING = "~leaving"
#: Kinds of request that our snapshot can say; "best-effort" asks for no GPU.
KINDS = frozenset({"whole", "fraction", "memory", "best-effort"})
#: A limit that a table does not set; a queue that may never use anything is in none of them.
UNSET_LIMITS = frozenset({WITHOUT_BOUND, 0})
#: What we call a queue's processors and memory, and the table.
HOST_COLUMNS = {
    "cpu_quota": "deserved_cpu_milli",
    "cpu_limit": "limit_cpu_milli",
    "memory_quota": "deserved_memory_mb",
    "memory_limit": "limit_memory_mb",
}
#: States that a task of a table may begin in; the last two hold nothing.
STATES = frozenset({"Running", "Releasing", "Pending", "Pipelined", "Failed", "Succeeded"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task of a job, at one moment."""

    name: str
    job: str
    status: str
    node: str = ""
    devices: tuple[str, ...] = ()
    #: Higher starts first and stops last.
    order: int = 0
    #: Name of its group; "" in a job without groups.
    group: str = ""


@dataclass(kw_only=True, slots=True)
class World:
    """A case and what has become of its tasks so far."""

    case: Case
    #: In the order of the case.
    tasks: dict[str, Task] = field(default_factory=dict)
    #: Where room is kept for a job, as our decisions said, and whether work was told to stop for it.
    reserved: dict[str, tuple[tuple[TaskPlacement, ...], bool]] = field(default_factory=dict)

    def of_job(self, job: str, *statuses: str) -> list[Task]:
        """The tasks of a job with one of these statuses, those first that start first."""
        found = [task for task in self.tasks.values() if task.job == job and task.status in statuses]
        return sorted(found, key=lambda task: -task.order)

    def of_group(self, job: str, group: str, *statuses: str) -> list[Task]:
        """Those of them in that group."""
        return [task for task in self.of_job(job, *statuses) if task.group == group]

    def put(self, task: Task) -> None:
        """What has become of it."""
        self.tasks[task.name] = task


def milli(gpus: float) -> MilliGpu:
    """From the table's GPUs; the least amount is a thousandth."""
    return MilliGpu(max(round(gpus * ONE_GPU), int(gpus > 0)))


def thousandths(cores: float) -> int:
    """Thousandths of a core, rounded up."""
    return math.ceil(Decimal(str(cores)) * 1000)


def whole_bytes(count: float) -> MiB:
    """Bytes, rounded up, where our snapshot has MiB: the unit is the same everywhere in a case."""
    return MiB(math.ceil(count))


def capacity(case: Case) -> MilliGpu:
    """All GPUs of the case."""
    return milli(sum(float(node["gpus"]) for node in case["nodes"]))


def world_of(case: Case) -> World:
    """The case as it begins, with a device for whoever holds one. Raises `Untranslatable`."""
    world = World(case=case)
    free = {node["name"]: [f"{node['name']}/{i}" for i in range(int(node["gpus"]))] for node in case["nodes"]}
    groups: dict[tuple[str, str], str] = {}
    _check(case)
    holders = sorted(_raw_tasks(case), key=lambda pair: not pair[1].get("gpu_groups"))
    held: dict[str, tuple[str, ...]] = {}
    for job, raw in holders:
        if raw["state"] in {"Running", "Releasing"}:
            held[raw["name"]] = _devices_for(job, raw, free, groups)
    of_task = {name: group for job in case["jobs"] for name, group in grouped(job, request_of(job)).of_task.items()}
    for job, raw in _raw_tasks(case):
        status = "Pending" if raw["state"] == "Pipelined" else raw["state"]
        node = raw["node"] if raw["name"] in held else ""
        order = int(raw.get("order_priority", 0))
        devices = held.get(raw["name"], ())
        task = Task(name=raw["name"], job=job["name"], status=status, node=node, devices=devices, order=order)
        world.put(replace(task, group=of_task[task.name]))
    return world


def _check(case: Case) -> None:
    """Raise `Untranslatable` for what our snapshot has no place for."""
    for job, raw in _raw_tasks(case):
        if job["kind"] not in KINDS:
            raise Untranslatable(f"the job {job['name']} asks for GPUs in a way that is not known: {job['kind']}")
        if job["kind"] == "whole" and job["gpus_per_task"] != int(job["gpus_per_task"]):
            raise Untranslatable(f"the job {job['name']} asks for {job['gpus_per_task']} whole GPUs")
        if raw["state"] not in STATES:
            raise Untranslatable(f"the task {raw['name']} is in a state that is not known: {raw['state']}")
        if len(raw.get("node_affinity", ())) > 1:
            raise Untranslatable(f"the task {raw['name']} may go to one of several kinds of nodes")


def _raw_tasks(case: Case) -> Iterator[tuple[Case, Case]]:
    for job in case["jobs"]:
        for raw in job["tasks"]:
            yield job, raw


def _devices_for(
    job: Case, raw: Case, free: dict[str, list[str]], groups: dict[tuple[str, str], str]
) -> tuple[str, ...]:
    """Devices of its node: those of its groups, or as many as it needs for itself."""
    node = raw.get("node", "")
    labels = raw.get("gpu_groups", [])
    count = int(raw["gpus"]) if "gpus" in raw else request_of(job).devices
    if node not in free:
        raise Untranslatable(f"the task {raw['name']} is on a node that does not exist")
    try:
        if not labels or not count:
            return tuple(free[node].pop() for _ in range(count))
        for label in labels:
            if (node, label) not in groups:
                groups[node, label] = free[node].pop(0)
    except IndexError:
        raise Untranslatable(f"the node {node} has fewer GPUs than its tasks hold") from None
    return tuple(groups[node, label] for label in labels)


def request_of(job: Case) -> Request:
    """What each task of the job needs, unless it says otherwise itself."""
    request = Request(
        devices=int(job["devices_per_task"]),
        cpu_milli=thousandths(job["cpu_cores_per_task"]),
        memory=whole_bytes(float(job["memory_bytes_per_task"])),
    )
    if job["kind"] == "memory":
        return replace(request, device_memory=MiB(math.ceil(job["gpu_memory_per_task"])))
    if job["kind"] == "fraction":
        return replace(request, milli_per_device=milli(job["gpus_per_task"]))
    return replace(request, devices=int(job["gpus_per_task"]))


def snapshot_of(world: World) -> Snapshot:
    """Our snapshot of the world as it is now."""
    case = world.case
    return Snapshot(
        nodes=tuple(_node(node) for node in case["nodes"]),
        queues=tuple(_queue(queue, case) for queue in case["queues"]),
        workloads=tuple(workload for job in case["jobs"] for workload in _workloads(world, job)),
        topologies=tuple(
            Topology(name=each["name"], levels=tuple(each["levels"])) for each in case.get("topologies", [])
        ),
    )


def _node(raw: Case) -> Node:
    name, memory = raw["name"], MiB(int(raw["gpu_memory"]))
    return Node(
        name=name,
        devices=tuple(
            Device(id=f"{name}/{i}", index=i, model="A100", memory=memory, pool=POOL) for i in range(int(raw["gpus"]))
        ),
        cpu_milli=math.floor(Decimal(str(raw["cpu_cores"])) * 1000),
        memory=MiB(math.floor(float(raw["memory_bytes"]))),
        max_tasks=int(raw["max_pods"]),
        labels=raw.get("labels", {}),
    )


def _queue_name(name: str, case: Case) -> str:
    order = next((int(q["created_order"]) for q in case["queues"] if q["name"] == name), 0)
    return f"{order:03d}-{name}"


def _queue(raw: Case, case: Case) -> Queue:
    parent, weight = raw["parent"], float(raw["over_quota_weight"])
    return Queue(
        name=_queue_name(raw["name"], case),
        pool=POOL,
        parent=None if parent is None else _queue_name(parent, case),
        quota=capacity(case) if raw["deserved_gpus"] == WITHOUT_BOUND else milli(raw["deserved_gpus"]),
        limit=None if raw["limit_gpus"] in UNSET_LIMITS else milli(raw["limit_gpus"]),
        **{name: _bound(name, raw.get(column)) for name, column in HOST_COLUMNS.items()},
        over_quota_weight=1000 if weight == WITHOUT_BOUND else round(weight * 1000),
        priority=int(raw["priority"]),
    )


def _bound(name: str, amount: float | None) -> int | None:
    """A quota or limit of CPU or memory in our units; None if the table sets none."""
    unset = UNSET_LIMITS if name.endswith("limit") else {WITHOUT_BOUND}
    if amount is None or amount in unset:
        return None
    return math.ceil(amount) if name.startswith("cpu") else whole_bytes(1e6 * float(amount))


def workload_id(case: Case, job: str) -> str:
    """Our id of a job: ties between workloads go by it."""
    index = next(i for i, raw in enumerate(case["jobs"]) if raw["name"] == job)
    return f"{index:03d}-{job}"


def _workloads(world: World, job: Case) -> Iterator[Workload]:
    case, name = world.case, job["name"]
    submitted = Instant(NOW - 60 * float(job["age_minutes"]))
    staying = world.of_job(name, "Running")
    leaving = world.of_job(name, "Releasing")
    waiting = world.of_job(name, "Pending")
    grouping = grouped(job, request_of(job))
    whole = Workload(
        id=workload_id(case, name),
        kind=Kind.TRAINING,
        owner="ann",
        name=name,
        queue=_queue_name(job["queue"], case),
        request=grouping.request,
        groups=grouping.groups,
        topology=grouping.topology,
        tasks=max(1, len(staying) + len(waiting), int(job["min_available"])),
        min_members=max(1, int(job["min_available"])),
        priority=int(job["priority"]),
        preemptible=bool(job["preemptible"]),
        submitted_at=submitted,
        elastic=True,
    )
    there = [task.group for task in (*staying, *waiting)]
    ready = all(there.count(group.name) >= group.min_members for group in groups_of(whole))
    if staying:
        runs = replace(whole, state=State.RUNNING, run=1, started_at=submitted, placement=_placement(staying))
        stale = ("stale_s" in job or is_short(runs)) and not world.of_job(name, "Succeeded")
        stale_since = Instant(NOW - float(job.get("stale_s", 0))) if stale else None
        yield replace(runs, stale_since=stale_since, elastic=ready)
    elif waiting and ready:
        place, nominated = world.reserved.get(name, ((), False))
        yield replace(whole, reserved=place, nominated=nominated)
    if leaving:
        stop = Stop(
            reason=EvictReason.STOPPED_BY_USER,
            sentence="Stopped.",
            by=None,
            at=NOW,
            requeue=not job.get("delete_in_test", False),
        )
        groups = of_leaving(whole.groups, [task.group for task in leaving])
        gone = replace(whole, id=whole.id + LEAVING, tasks=len(leaving), min_members=1, groups=groups, run=1)
        yield replace(gone, state=State.STOPPING, stop=stop, started_at=submitted, placement=_placement(leaving))


def place_of(task: Task) -> TaskPlacement:
    """Where it runs."""
    return TaskPlacement(node=task.node, devices=task.devices, group=task.group)


def _placement(tasks: list[Task]) -> tuple[TaskPlacement, ...]:
    return tuple(place_of(task) for task in tasks)


def between_rounds(world: World) -> None:
    """Rule 6. What the case deletes goes on stopping."""
    deleted = {job["name"] for job in world.case["jobs"] if job.get("delete_in_test")}
    for task in list(world.tasks.values()):
        if task.status == "Binding":
            world.put(replace(task, status="Running"))
        elif task.status == "Pipelined" or (task.status == "Releasing" and task.job not in deleted):
            world.put(replace(task, status="Pending", node="", devices=()))
