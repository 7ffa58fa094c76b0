"""Random clusters where notebooks have lent their shares, and what happens there: where a share can fail to come back.

Notebooks hold most devices, several on one device or one on several devices, and many are suspended. Nodes have few
cores and little memory, of which the notebooks keep theirs. Then jobs come, notebooks are used and fall idle, devices
and nodes are drained, cordoned, lost and moved to other pools, and all of that is taken back.
"""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from jupyter_gq.controller.drains import mark_drained
from jupyter_gq.domain.amount import Instant, MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import BUILD_ROOT, Queue, build_queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Kind, Request, Workload
from jupyter_gq.scheduling.policy import IdleRule, PlacementStrategy, Policy
from tests.builders import NOW, a_job, a_node, a_notebook, idle, later, running, without
from tests.property.clusters import A_WHILE, LONG, among
from tests.property.contention import describe

OWNERS = ("ann", "bob", "carol", "dora", "erin")
#: Cores of a node in thousandths, and its memory; the largest notebook needs more than half of either.
CORES, MEMORY = (None, 4000, 5000), (None, None, MiB(4000))
#: Notebooks are idle for longer than the rule asks for, and for less.
UNUSED = 4000
PARTS = (250, 300, 500, 500, 700, 1000)

#: What happens, to what, and how much of the scheduler's work is done before the next thing happens (see `PACES`).
Event = tuple[str, object, str]
#: No cycle; a cycle; a cycle after which every other victim has stopped; cycles until all is at rest.
PACES = ("nothing", "cycle", "half", "rest", "rest")


@dataclass
class Site:
    """The devices as they are, and what people have done to them."""

    bare: tuple[Node, ...]
    #: Names of nodes and ids of devices.
    drained: set[str] = field(default_factory=set)
    #: Names of nodes that a cluster has cordoned.
    cordoned: set[str] = field(default_factory=set)
    #: Ids of devices that do not work.
    lost: set[str] = field(default_factory=set)
    #: Pools of devices that the configuration has moved, by id; "" = no pool.
    pools: dict[str, str] = field(default_factory=dict)

    def nodes(self) -> tuple[Node, ...]:
        """The nodes as the scheduler is shown them."""
        return tuple(mark_drained([self._node(node) for node in self.bare], self.drained))

    def device(self, number: int) -> str:
        devices = [device.id for node in self.bare for device in node.devices]
        return devices[number % len(devices)]

    def node(self, number: int) -> str:
        return self.bare[number % len(self.bare)].name

    def _node(self, node: Node) -> Node:
        node = replace(node, devices=tuple(map(self._device, node.devices)))
        if node.name not in self.cordoned:
            return node
        return replace(node, closed=f"{node.name} is cordoned", draining=True)

    def _device(self, device: Device) -> Device:
        device = replace(device, healthy=device.id not in self.lost, pool=self.pools.get(device.id, device.pool))
        return device if device.pool else replace(device, healthy=False, withheld=device.healthy)


@dataclass
class Lending:
    """A cluster with notebooks, and what will happen to it."""

    site: Site
    snapshot: Snapshot
    policy: Policy
    history: list[Event] = field(default_factory=list)

    def __repr__(self) -> str:
        """A line for each node, queue, workload and event, short enough to draw the cluster by hand."""
        nodes = [f"{n.name}: {len(n.devices)} cpu={n.cpu_milli} memory={n.memory}" for n in self.site.bare]
        queues = [f"{queue.name} quota={queue.quota} limit={queue.limit}" for queue in self.snapshot.queues]
        events = [
            f"{act} {describe(what) if isinstance(what, Workload) else what} ({pace})"
            for act, what, pace in self.history
        ]
        rules = f"{self.policy}"
        return "\n  ".join((*nodes, *queues, *map(describe, self.snapshot.workloads), *events, rules))


@st.composite
def lendings(draw: st.DrawFn) -> Lending:
    """A cluster, its notebooks, and a history."""
    nodes = tuple(
        replace(a_node(f"n{i}", draw(among(1, 2, 2, 3))), cpu_milli=draw(among(*CORES)), memory=draw(among(*MEMORY)))
        for i in range(draw(among(1, 1, 2)))
    )
    notebooks = _notebooks(draw, nodes)
    queues = _queues(draw, notebooks)
    policy = Policy(
        placement=draw(among(*PlacementStrategy)),
        fraction_placement=draw(among(None, *PlacementStrategy)),
        idle=IdleRule(always=draw(among(False, False, False, True))),
        consolidate=draw(among(True, True, False)),
        moved_after=Seconds(0),
        reserve_after=draw(among(None, None, LONG)),
    )
    world = Lending(Site(nodes), Snapshot(nodes=nodes, queues=queues, workloads=notebooks), policy)
    for number in range(draw(st.integers(2, 4))):
        world.history.append(("submit", _job(draw, number), draw(among("nothing", "cycle", "rest"))))
    for number in range(4, 4 + draw(st.integers(3, 10))):
        world.history.append((*_event(draw, number), draw(among(*PACES))))
    return world


def _notebooks(draw: st.DrawFn, nodes: tuple[Node, ...]) -> tuple[Workload, ...]:
    """Notebooks that fit beside each other on the devices and nodes, most of them suspended."""
    free = {device.id: 1000 for node in nodes for device in node.devices}
    room = {node.name: [node.cpu_milli, node.memory] for node in nodes}
    found = []
    for owner in OWNERS[: draw(st.integers(1, 4))]:
        milli, count = draw(among(*PARTS)), draw(among(1, 1, 1, 2))
        request = Request(
            devices=count,
            milli_per_device=MilliGpu(milli),
            cpu_milli=draw(among(0, 1000, 2500, 2500)),
            memory=draw(among(MiB(0), MiB(1000), MiB(2500))),
        )
        for node in draw(st.permutations(nodes)):
            suits = [device.id for device in node.devices if free[device.id] >= milli][:count]
            has = room[node.name]
            needs = (request.cpu_milli, request.memory)
            if len(suits) < count or any(h is not None and h < n for h, n in zip(has, needs, strict=True)):
                continue
            for device in suits:
                free[device] -= milli
            room[node.name] = [None if h is None else h - n for h, n in zip(has, needs, strict=True)]
            found.append(_notebook(draw, owner, request, suits))
            break
    return tuple(found)


def _notebook(draw: st.DrawFn, owner: str, request: Request, devices: list[str]) -> Workload:
    notebook = replace(a_notebook(owner), request=request, suspendable=draw(among(True, True, True, False)))
    named = among(None, None, NOW - 1, NOW + A_WHILE)
    times = {"expire_at": draw(named), "promised_until": draw(named), "kept_until": draw(named)}
    notebook = idle(running(notebook, *devices), UNUSED, busy=False, **times)
    if notebook.suspendable and draw(among(True, True, False)):
        return replace(notebook, state=State.SUSPENDED)
    return used(notebook) if draw(st.booleans()) else notebook


def _queues(draw: st.DrawFn, notebooks: tuple[Workload, ...]) -> tuple[Queue, ...]:
    """A fixed quota for each notebook, one more for one that may come, and queues of jobs in two pools."""
    fixed = {notebook.owner: notebook.milli for notebook in notebooks}
    fixed.setdefault(OWNERS[-1], MilliGpu(1000))
    root = Queue(name=BUILD_ROOT, pool="train", quota=MilliGpu(sum(fixed.values())))
    leaves = (
        Queue(name=build_queue(owner), pool="train", parent=BUILD_ROOT, quota=milli, limit=milli, over_quota_weight=0)
        for owner, milli in fixed.items()
    )
    bound = draw(among(None, None, None, 1000))
    jobs = (
        Queue(name="q", pool="train", quota=MilliGpu(draw(among(0, 1000, 2000, 2000)))),
        Queue(name="z", pool="train", quota=MilliGpu(0), limit=bound),
        Queue(name="s", pool="spare", quota=MilliGpu(500)),
    )
    return (root, *leaves, *jobs)


def _job(draw: st.DrawFn, number: int) -> Workload:
    tasks = draw(among(1, 1, 1, 2, 3))
    job = a_job(
        f"w{number:02d}",
        draw(among("q", "q", "q", "z", "z", "s")),
        tasks=tasks,
        min_members=draw(st.integers(1, tasks)),
        priority=draw(among(0, 0, 1)),
        preemptible=draw(among(True, True, True, False)),
        elastic=draw(st.booleans()),
        estimate=draw(among(None, None, Seconds(100))),
    )
    devices = draw(among(1, 1, 1, 1, 2, 0))
    request = Request(
        devices=devices,
        milli_per_device=MilliGpu(draw(among(*PARTS)) if devices == 1 else 1000),
        cpu_milli=draw(among(0, 1000, 1000, 2000)),
        memory=draw(among(MiB(0), MiB(1000))),
    )
    return replace(job, request=request, submitted_at=Instant(NOW - 500 + number))


def _event(draw: st.DrawFn, number: int) -> tuple[str, object]:
    act = draw(among(*_ACTS))
    match act:
        case "submit":
            return act, _job(draw, number)
        case "start":
            request = Request(devices=1, milli_per_device=MilliGpu(500), cpu_milli=draw(among(0, 1000, 2000)))
            notebook = replace(a_notebook(OWNERS[-1], id=f"w{number:02d}"), request=request, suspendable=True)
            return act, replace(notebook, submitted_at=Instant(NOW - 500 + number))
        case "wait":
            return act, draw(among(A_WHILE, Seconds(1000)))
        case "pool":
            return act, (draw(st.integers(0, 5)), draw(among("train", "spare", "", "")))
    return act, draw(st.integers(0, 5))


_ACTS = (
    *("submit", "submit", "submit", "start", "start", "end", "end", "wait"),
    *("use", "use", "use", "use", "idle", "idle"),
    *("drain", "drain", "drain", "drain node", "pool", "pool", "pool", "cordon", "lose"),
    *("undrain", "undrain node", "uncordon", "find"),
)


def used(notebook: Workload) -> Workload:
    """The notebook executes a cell."""
    return _with_use(notebook, busy=True, last_active=NOW)


def unused(notebook: Workload) -> Workload:
    """The notebook has executed its last cell long ago."""
    return _with_use(notebook, busy=False, last_active=Instant(NOW - UNUSED))


def _with_use(notebook: Workload, *, busy: bool, last_active: Instant) -> Workload:
    known = notebook.activity or Activity(busy=busy, last_active=last_active, sampled_at=NOW)
    return replace(notebook, activity=replace(known, busy=busy, last_active=last_active))


def happens(site: Site, snapshot: Snapshot, act: str, what: object) -> Snapshot:
    """A second passes, and then the next thing of a history; things that are done to devices change the site."""
    snapshot = later(snapshot, 1)
    match act, what:
        case (("submit" | "start"), Workload()):
            return replace(snapshot, workloads=(*snapshot.workloads, what))
        case "wait", float() | int():
            return later(snapshot, what)
        case "end", int():
            holding = [w.id for w in snapshot.workloads if w.state in {State.RUNNING, State.SUSPENDED}]
            return without(snapshot, *holding[what : what + 1])
        case (("use" | "idle"), int()):
            notebooks = [w for w in snapshot.workloads if w.kind is Kind.NOTEBOOK and w.holds]
            if not notebooks:
                return snapshot
            chosen = notebooks[what % len(notebooks)]
            changed = used(chosen) if act == "use" else unused(chosen)
            return replace(snapshot, workloads=tuple(changed if w is chosen else w for w in snapshot.workloads))
    _is_done(site, act, what)
    return replace(snapshot, nodes=site.nodes())


def _is_done(site: Site, act: str, what: object) -> None:
    match act, what:
        case "pool", (int() as number, str() as pool):
            site.pools[site.device(number)] = pool
        case "drain", int():
            site.drained.add(site.device(what))
        case "undrain", int():
            site.drained.discard(site.device(what))
        case "drain node", int():
            site.drained.add(site.node(what))
        case "undrain node", int():
            site.drained.discard(site.node(what))
        case "cordon", int():
            site.cordoned.add(site.node(what))
        case "uncordon", int():
            site.cordoned.discard(site.node(what))
        case "lose", int():
            site.lost.add(site.device(what))
        case "find", int():
            site.lost.discard(site.device(what))
