"""The check that a snapshot does not contradict itself, for snapshots from outside; cycles do not repeat it.

Rules
-----
Known names: every queue, node, device, group, topology and level that is named exists.

Unique names: names and ids are unique, no amount is negative, and no queue and no group is above itself.

One pool: a queue uses the pool of the queue above it.

Places: a workload that holds devices has a place for each task, on devices of one node; other workloads have no place.
No device is given away more than once.

Live snapshots: machines may have changed under running work, so its nodes and devices may be gone. A queue that was
removed from the configuration under its work is named in `Snapshot.vanished`. All other rules hold.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from .amount import ONE_GPU, format_gpus
from .cluster import Node, Topology
from .errors import InvalidSnapshot
from .queue import Queue
from .snapshot import Snapshot
from .states import State
from .workload import Request, TaskGroup, TaskPlacement, TopologyConstraint, Workload

#: A message lists at most so many names.
_LISTED = 8


def check(snapshot: Snapshot, *, live: bool = False) -> None:
    """Raise `InvalidSnapshot` for the first contradiction, with the object, its fault, and what was expected.

    `live`: the snapshot is of a running service, so running work may be on nodes and devices that are gone, and a
    topology that work asks for may be gone.
    """
    for fault in _faults(snapshot, live):
        raise InvalidSnapshot(fault)


def _faults(snapshot: Snapshot, live: bool) -> Iterator[str]:
    """Yield a sentence for each contradiction in the snapshot; `live` as in `check`."""
    nodes = {node.name: node for node in snapshot.nodes}
    queues = {queue.name: queue for queue in snapshot.queues}
    topologies = {topology.name: topology for topology in snapshot.topologies}
    yield from _node_faults(snapshot.nodes)
    yield from _new_node_faults(snapshot)
    yield from _topology_faults(snapshot.topologies)
    yield from _queue_faults(snapshot.queues, queues)
    yield from _usage_faults(snapshot.usage)
    yield from _duplicate_faults("unobserved kind", snapshot.unobserved)
    yield from _amount_faults(
        "the launch capacity", {f"of {kind}": tasks for kind, tasks in snapshot.launch_capacity.items()}
    )
    yield from _duplicate_faults("workload", [workload.id for workload in snapshot.workloads])
    known = {*queues, *snapshot.vanished}
    for workload in snapshot.workloads:
        if workload.queue not in known:
            yield f"{_describe(workload)} is in the queue {workload.queue!r}; {_expected('queues', queues)}"
        yield from _workload_faults(workload, None if live else topologies)
        yield from _placement_faults(workload, nodes, live)
    yield from _device_faults(snapshot)


def _describe(workload: Workload) -> str:
    """Return a phrase such as "the workload 'job-1'"."""
    return f"the workload {workload.id!r}"


def _expected(nouns: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that lists the known names, at most `_LISTED` of them."""
    names = sorted(known)
    listed = ", ".join(repr(name) for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"expected one of the {nouns} that there are: {listed}{more}." if names else f"there are no {nouns}."


def _duplicate_faults(noun: str, names: Sequence[Hashable]) -> Iterator[str]:
    """Yield a sentence for each further occurrence of a name that has occurred before; `noun` says what is named."""
    if len(set(names)) == len(names):
        return
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            yield f"there are two of the {noun} {name!r}; each was expected once."
        seen.add(name)


def _amount_faults(what: str, amounts: Mapping[str, float | None]) -> Iterator[str]:
    """Yield a sentence for each amount of the object `what` that is negative or not finite."""
    for name, amount in amounts.items():
        if amount is not None and not 0 <= amount < float("inf"):
            yield f"{what} has {name} = {amount}; 0 or more was expected."


# --- nodes, topologies, queues


def _node_faults(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a sentence for each name of two nodes or two devices, and for each of their amounts that is negative."""
    yield from _duplicate_faults("node", [node.name for node in nodes])
    yield from _duplicate_faults("device", [device.id for node in nodes for device in node.devices])
    for node in nodes:
        amounts = {"cpu_milli": node.cpu_milli, "memory": node.memory, "max_tasks": node.max_tasks}
        yield from _amount_faults(f"the node {node.name!r}", amounts)
        for device in node.devices:
            yield from _amount_faults(f"the device {device.id!r}", {"index": device.index, "memory": device.memory})


def _new_node_faults(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each contradiction of nodes that may still come.

    Checked are one entry for each pool, counts of 0 or more, and devices of the pool that they are to come to.
    """
    yield from _duplicate_faults("pool with new nodes,", [each.pool for each in snapshot.new_nodes])
    for each in snapshot.new_nodes:
        yield from _amount_faults(f"the entry of new nodes of the pool {each.pool!r}", {"count": each.count})
        for device in each.like.devices:
            if device.pool != each.pool:
                yield (
                    f"a new node of the pool {each.pool!r} has the device {device.id!r} of the pool {device.pool!r}; "
                    "the same pool was expected."
                )


def _topology_faults(topologies: Sequence[Topology]) -> Iterator[str]:
    """Yield a sentence for each name that two topologies have, or two levels of one topology."""
    yield from _duplicate_faults("topology", [topology.name for topology in topologies])
    for topology in topologies:
        yield from _duplicate_faults(f"level of the topology {topology.name!r},", topology.levels)


def _queue_faults(queues: Sequence[Queue], by_name: Mapping[str, Queue]) -> Iterator[str]:
    """Yield a sentence for each contradiction of queues.

    Checked are unique names, amounts, known parents, the same pool as the parent, and that no queue is above itself.
    """
    yield from _duplicate_faults("queue", [queue.name for queue in queues])
    for queue in queues:
        what = f"the queue {queue.name!r}"
        amounts = {
            "quota": queue.quota,
            "limit": queue.limit,
            "cpu_limit": queue.cpu_limit,
            "memory_limit": queue.memory_limit,
            "cpu_quota": queue.cpu_quota,
            "memory_quota": queue.memory_quota,
            "over_quota_weight": queue.over_quota_weight,
            "preempt_min_runtime": queue.preempt_min_runtime,
            "reclaim_min_runtime": queue.reclaim_min_runtime,
        }
        yield from _amount_faults(what, amounts)
        if queue.parent is None:
            continue
        parent = by_name.get(queue.parent)
        if parent is None:
            yield f"{what} is below {queue.parent!r}; {_expected('queues', by_name)}"
        elif parent.pool != queue.pool:
            yield (
                f"{what} uses the pool {queue.pool!r}, but {queue.parent!r} above it uses {parent.pool!r}; "
                "one pool was expected in a whole subtree."
            )
    yield from _cycle_faults("queue", {queue.name: queue.parent for queue in queues})


def _cycle_faults(noun: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield a sentence for the first object that is above itself; `parents` maps each name to the one above."""
    good: set[str] = set()
    for start in parents:
        path: list[str] = []
        name: str | None = start
        while name is not None and name not in good and name in parents and name not in path:
            path.append(name)
            name = parents[name]
        if name is not None and name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            yield f"the {noun} {name!r} is above itself ({circle}); a tree was expected."
            return
        good.update(path)


def _usage_faults(usage: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each queue whose past use is negative or not finite."""
    for name, seconds in usage.items():
        yield from _amount_faults("the past use", {f"of {name!r}": seconds})


# --- workloads


def _workload_faults(workload: Workload, topologies: Mapping[str, Topology] | None) -> Iterator[str]:
    """Yield a sentence for each contradiction in a workload's task counts, back-off, request, topology and groups.

    With `topologies` None, unknown topologies are none: an administrator may have removed one under waiting work.
    """
    who = _describe(workload)
    if not 1 <= workload.min_members <= workload.tasks:
        yield f"{who} has min_members = {workload.min_members}; 1 to its {workload.tasks} tasks was expected."
    if workload.backoff is not None:
        amounts = {"backoff.pause": workload.backoff.pause, "backoff.times": workload.backoff.times}
        yield from _amount_faults(who, amounts)
    yield from _request_faults(who, workload.request)
    yield from _constraint_faults(who, workload.topology, topologies)
    yield from _group_faults(who, workload.groups, topologies)


def _request_faults(who: str, request: Request) -> Iterator[str]:
    """Yield a sentence for each negative amount of a request, and for a part of a device outside of 1 to 1000."""
    amounts: dict[str, float | None] = {
        "devices": request.devices,
        "device_memory": request.device_memory,
        "cpu_milli": request.cpu_milli,
        "memory": request.memory,
    }
    yield from _amount_faults(who, amounts)
    if request.devices and not 0 < request.milli_per_device <= ONE_GPU:
        yield f"{who} asks for {request.milli_per_device} thousandths of each device; 1 to {ONE_GPU} was expected."


def _constraint_faults(
    who: str, constraint: TopologyConstraint | None, known: Mapping[str, Topology] | None
) -> Iterator[str]:
    """Yield a sentence for an unknown topology of a constraint, and for each level that its topology does not have."""
    if constraint is None or known is None:
        return
    topology = known.get(constraint.topology)
    if topology is None:
        yield f"{who} is placed by the topology {constraint.topology!r}; {_expected('topologies', known)}"
        return
    for level in (constraint.required, constraint.preferred):
        if level is not None and level not in topology.levels:
            levels = _expected(f"levels of the topology {topology.name!r}", topology.levels)
            yield f"{who} is placed by the level {level!r}; {levels}"


def _group_faults(who: str, groups: Sequence[TaskGroup], topologies: Mapping[str, Topology] | None) -> Iterator[str]:
    """Yield a sentence for each contradiction of task groups.

    Checked are unique names, known parents, task counts, requests, topologies, and that no group is above itself.
    """
    yield from _duplicate_faults(f"group of {who},", [group.name for group in groups])
    names = {group.name: group.parent for group in groups}
    for group in groups:
        what = f"the group {group.name!r} of {who}"
        if group.parent is not None and group.parent not in names:
            yield f"{what} is below {group.parent!r}; {_expected('groups', names)}"
        if group.tasks < 0 or (group.tasks and not 0 <= group.min_members <= group.tasks):
            yield f"{what} has min_members = {group.min_members}; 0 to its {group.tasks} tasks was expected."
        yield from _request_faults(what, group.request)
        yield from _constraint_faults(what, group.topology, topologies)
    yield from _cycle_faults(f"group of {who},", names)


# --- places


def _placement_faults(workload: Workload, nodes: Mapping[str, Node], live: bool) -> Iterator[str]:
    """Yield a sentence for each contradiction in the places of a workload's tasks.

    A workload that holds devices needs a place for 1 to `tasks` tasks, any other workload none. With `live`, places may
    name nodes and devices that are gone.
    """
    who = _describe(workload)
    if not workload.holds:
        if workload.placement:
            yield f"{who} is {workload.state} and has a place on {workload.placement[0].node!r}; none was expected."
        return
    if not 1 <= len(workload.placement) <= workload.tasks:
        yield f"{who} is {workload.state} with {len(workload.placement)} places; 1 to {workload.tasks} were expected."
    groups = {group.name for group in workload.groups}
    for task in workload.placement:
        if workload.groups and task.group not in groups:
            yield f"{who} has a task of the group {task.group!r}; {_expected('groups', groups)}"
        wanted = workload.request_of(task.group).devices
        if len(set(task.devices)) != wanted or len(task.devices) != wanted:
            held = ", ".join(task.devices) or "none"
            yield f"{who} holds these devices for a task: {held}; {wanted} different ones were expected."
        if not live:
            yield from _task_faults(who, task, nodes)


def _task_faults(who: str, task: TaskPlacement, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield a sentence for a node or device of a task that does not exist."""
    node = nodes.get(task.node)
    if node is None:
        yield f"{who} has a task on the node {task.node!r}; {_expected('nodes', nodes)}"
        return
    there = {device.id for device in node.devices}
    for device in task.devices:
        if device not in there:
            yield (
                f"{who} has a task on the node {task.node!r} with the device {device!r}; "
                f"{_expected('devices of that node', there)}"
            )


def _device_faults(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each device of which more than 1 GPU is given away; suspended workloads do not count."""
    held: dict[str, int] = {}
    memory = {device.id: device.memory for node in snapshot.nodes for device in node.devices}
    holders = [w for w in snapshot.workloads if w.holds and w.state is not State.SUSPENDED]
    for workload in holders:
        for task in _held_tasks(workload):
            request = workload.request_of(task.group)
            for device in task.devices:
                held[device] = held.get(device, 0) + _milli_on_device(request, memory.get(device))
    for name, given in held.items():
        if given > ONE_GPU:
            there = [w.id for w in holders if any(name in task.devices for task in _held_tasks(w))]
            names = ", ".join(repr(each) for each in there[:_LISTED])
            yield f"{format_gpus(given)} of the device {name!r} is given away, to {names}; at most 1 was expected."


def _milli_on_device(request: Request, memory: int | None) -> int:
    """Return the part of a device that a request takes, in milli-GPU; `memory` is that of the device, None if unknown.

    A request for device memory takes its share of this device, rounded up to whole hundredths.
    """
    if request.device_memory is None or not memory:
        return request.milli_per_device
    return -(-100 * request.device_memory // memory) * (ONE_GPU // 100)


def _held_tasks(workload: Workload) -> tuple[TaskPlacement, ...]:
    """Return the places of all tasks that hold devices, also of those that were told to stop."""
    return workload.held_places
