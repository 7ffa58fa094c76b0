"""Random clusters that are full, and queues that want back what they are guaranteed: where guarantees can fail.

The quotas of the leaf queues sum up to the capacity. Small jobs of any queue, mostly of queues without a quota, fill
all devices. Then work of several GPUs arrives, most of it in queues that are guaranteed that much.
"""

from dataclasses import replace

from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, a_job, a_node, running

#: Leaf queues, as paths, from one level to three.
SHAPES = (
    ("a", "b"),
    ("a", "b", "c"),
    ("d/a", "d/b", "e"),
    ("d/a", "d/b", "e/a"),
    ("d/a", "d/b", "e/a", "e/b"),
    ("d/a/x", "d/a/y", "d/b", "e"),
    ("d/a/x", "d/a/y", "d/b", "e/a/x"),
)
#: Devices of each node.
CLUSTERS = ((2,), (4,), (2, 2), (3, 2), (4, 2), (2, 2, 2), (3, 3), (4, 4))
#: Cores that the smallest task without a GPU needs, in thousandths.
CORE = 1000


class Contention:
    """A full cluster, and the work that arrives there."""

    def __init__(self, snapshot: Snapshot, policy: Policy, arrivals: tuple[Workload, ...]) -> None:
        self.snapshot, self.policy, self.arrivals = snapshot, policy, arrivals

    def __repr__(self) -> str:
        """A line for each queue and each workload, short enough to draw the cluster by hand."""
        queues = [
            f"{queue.name} quota={queue.quota} weight={queue.over_quota_weight} cpu={queue.cpu_quota}"
            for queue in self.snapshot.queues
        ]
        jobs = [describe(workload) for workload in (*self.snapshot.workloads, *self.arrivals)]
        flags = f"consolidate={self.policy.consolidate} reserve_after={self.policy.reserve_after}"
        nodes = " ".join(map(describe_node, self.snapshot.nodes))
        return "\n  ".join((nodes, *queues, *jobs, flags))


def describe_node(node: Node) -> str:
    """What a node has; the model of each device only if it is one of `MODELS`."""
    models = ",".join(device.model for device in node.devices if device.model in MODELS)
    return f"{node.name}:{len(node.devices)} cpu={node.cpu_milli}" + f" models={models}" * bool(models)


def describe(job: Workload) -> str:
    """What a workload asks for, and where it is."""
    request = job.request
    asks = f"{job.tasks}({job.min_members}) x {request.devices} x {request.milli_per_device} cpu={request.cpu_milli}"
    asks += f" memory={request.memory}" * bool(request.memory)
    asks += f" model={','.join(request.models)}" * bool(request.models)
    asks += f" prefers={','.join(request.preferred_models)}" * bool(request.preferred_models)
    kind = "".join((" fixed" * (not job.preemptible), " elastic" * job.elastic, f" priority={job.priority}"))
    places = [device for task in job.placement for device in task.devices or (task.node,)]
    return f"{job.id} {job.queue} {asks}{kind} {' '.join(places)} {job.state} since={job.started_at}"


#: The models of devices, and in one cluster of how many there are both of them.
MODELS = ("A100", "T4")
ONE_OF = 6


@st.composite
def contentions(draw: st.DrawFn, cores: bool = False) -> Contention:
    """A full cluster; with `cores`, processors are scarce too, and some work needs no GPU.

    One cluster of `ONE_OF` has devices of two models, and work that requires or prefers one of them.
    """
    nodes = tuple(a_node(f"n{number}", count) for number, count in enumerate(draw(st.sampled_from(CLUSTERS))))
    if cores:
        nodes = tuple(replace(node, cpu_milli=CORE * (len(node.devices) + draw(st.integers(0, 1)))) for node in nodes)
    capacity = sum(len(node.devices) for node in nodes)
    queues = draw(quota_trees(capacity, cores))
    holders = _fill(draw, nodes, queues, cores)
    wanting = draw(_leaves_wanting(queues))
    arrivals = tuple(
        _arrival(draw, queue, number, capacity, cores) for number, queue in enumerate(wanting, len(holders))
    )
    policy = Policy(
        consolidate=draw(st.booleans()),
        reserve_after=draw(st.sampled_from((None, None, Seconds(495)))),
        per_user=draw(st.integers(0, 3)) == 0,
    )
    if draw(st.integers(1, ONE_OF)) == 1:
        nodes = _of_two_models(draw, nodes)
        models = {device.id: device.model for node in nodes for device in node.devices}
        holders = tuple(_choosy(draw, job, {models[d] for t in job.placement for d in t.devices}) for job in holders)
        arrivals = tuple(_choosy(draw, job, {*models.values()}) for job in arrivals)
    return Contention(Snapshot(nodes=nodes, queues=queues, workloads=holders), policy, arrivals)


def _of_two_models(draw: st.DrawFn, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The same nodes; each has devices of one model or, rarely, of both in turns."""
    kinds = [draw(st.sampled_from((MODELS[:1], MODELS[1:], MODELS))) for _ in nodes]
    return tuple(
        replace(node, devices=tuple(replace(device, model=kind[device.index % len(kind)]) for device in node.devices))
        for node, kind in zip(nodes, kinds, strict=True)
    )


def _choosy(draw: st.DrawFn, job: Workload, possible: set[str]) -> Workload:
    """The same job; it may require one of the possible models, if it needs a GPU, or prefer any."""
    if not job.request.devices:
        return job
    required = draw(st.sampled_from(sorted(possible))) if len(possible) == 1 or not job.holds else None
    models = (required,) if required is not None and draw(st.booleans()) else ()
    preferred = (draw(st.sampled_from(MODELS)),) if not models and draw(st.integers(0, 2)) == 0 else ()
    return replace(job, request=replace(job.request, models=models, preferred_models=preferred))


@st.composite
def quota_trees(draw: st.DrawFn, capacity: int, cores: bool) -> tuple[Queue, ...]:
    """A tree whose quotas sum up to the capacity on each level, most of it in one or two leaves."""
    leaves = draw(st.permutations(draw(st.sampled_from(SHAPES))))
    quotas = dict.fromkeys(leaves, 0)
    first = draw(st.integers(min(2, capacity), capacity))
    quotas[leaves[0]], quotas[leaves[1]] = first, capacity - first
    names = {"/".join(leaf.split("/")[:depth]) for leaf in leaves for depth in (1, 2, 3)}
    return tuple(
        Queue(
            name=name,
            pool="train",
            parent=name.rpartition("/")[0] or None,
            quota=MilliGpu(1000 * sum(quota for leaf, quota in quotas.items() if f"{leaf}/".startswith(f"{name}/"))),
            over_quota_weight=draw(st.sampled_from((1, 1, 0, 2))),
            cpu_quota=draw(st.sampled_from((None, None, 0, 1000, 2000, 3000))) if cores else None,
        )
        for name in sorted(names)
    )


def leaves_of(queues: tuple[Queue, ...]) -> list[Queue]:
    """The queues that take work."""
    parents = {queue.parent for queue in queues}
    return [queue for queue in queues if queue.name not in parents]


def _fill(draw: st.DrawFn, nodes: tuple[Node, ...], queues: tuple[Queue, ...], cores: bool) -> tuple[Workload, ...]:
    """Running work on nearly all devices, from a few queues; what came first may lie anywhere."""
    leaves = leaves_of(queues)
    some = draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=3))
    devices = [device for node in nodes for device in node.devices]
    order = draw(st.permutations(range(len(devices))))
    fixed = dict.fromkeys((queue.name for queue in leaves), 0)
    found: list[Workload] = []
    while order:
        taken, order = _places(draw, devices, order)
        queue = draw(st.sampled_from(some))
        size = draw(st.sampled_from(("whole", "whole", "whole", "halves", "free"))) if len(taken) == 1 else "elastic"
        if size == "free":
            if cores:
                found.append(_on_cores_only(draw, queue, len(found), taken[0].id.rpartition("-")[0]))
            continue
        for part in range(2 if size == "halves" else 1):
            job = _holder(draw, queue, len(found), size, taken)
            milli = 500 if size == "halves" else 1000
            within = fixed[queue.name] + milli <= queue.quota
            if within and size != "elastic" and draw(st.integers(0, 4)) == 0:
                fixed[queue.name] += milli
                job = replace(job, preemptible=False)
            if cores and size != "halves":
                job = replace(job, request=replace(job.request, cpu_milli=CORE))
            found.append(job)
            if part and draw(st.booleans()):
                found.pop()
    return tuple(found)


def _places(draw: st.DrawFn, devices: list[Device], order: list[int]) -> tuple[list[Device], list[int]]:
    """The devices of the next job, and what is left: one device, or two or three for elastic work."""
    count = draw(st.sampled_from((1, 1, 1, 1, 1, 2, 3)))
    return [devices[place] for place in order[:count]], order[count:]


def _holder(draw: st.DrawFn, queue: Queue, number: int, size: str, taken: list[Device]) -> Workload:
    tasks = max(1, len(taken))
    job = a_job(
        f"h{number:02d}",
        queue.name,
        0.5 if size == "halves" else 1,
        submitted=number,
        tasks=tasks if tasks == 1 else tasks + draw(st.integers(0, 1)),
        min_members=1,
        elastic=tasks > 1,
        priority=draw(st.sampled_from((0, 0, 0, 1))),
        owner=draw(st.sampled_from(("ann", "bob"))),
    )
    job = replace(job, submitted_at=Instant(NOW - 500 + number))
    return running(job, *(device.id for device in taken), since=draw(st.integers(0, 400)))


def _on_cores_only(draw: st.DrawFn, queue: Queue, number: int, node: str) -> Workload:
    """A running job on one core of the node."""
    job = _holder(draw, queue, number, "whole", [])
    return replace(job, request=Request(devices=0, cpu_milli=CORE), placement=(TaskPlacement(node=node, devices=()),))


@st.composite
def _leaves_wanting(draw: st.DrawFn, queues: tuple[Queue, ...]) -> list[Queue]:
    """The queues of the work that arrives, most of them with a quota."""
    leaves = leaves_of(queues)
    entitled = [queue for queue in leaves if queue.quota]
    count = draw(st.integers(1, 3))
    return [draw(st.sampled_from(draw(st.sampled_from((entitled, entitled, leaves))))) for _ in range(count)]


def _arrival(draw: st.DrawFn, queue: Queue, number: int, capacity: int, cores: bool) -> Workload:
    size = draw(st.sampled_from((1, 2, 2, 2, 3, 4)))
    size = min(size, max(1, queue.quota // 1000), capacity)
    gang = draw(st.booleans())
    job = a_job(
        f"w{number:02d}",
        queue.name,
        submitted=number,
        tasks=size if gang else 1,
        priority=draw(st.sampled_from((0, 0, 1))),
        owner=draw(st.sampled_from(("ann", "bob"))),
        preemptible=draw(st.integers(0, 3)) > 0,
    )
    request = Request(devices=1 if gang else size)
    if cores:
        request = replace(request, cpu_milli=CORE)
        if draw(st.integers(0, 2)) == 0:
            request = Request(devices=0, cpu_milli=CORE * draw(st.integers(1, 2)))
            job = replace(job, tasks=1, min_members=1)
    return replace(job, request=request, submitted_at=Instant(NOW - 500 + number))
