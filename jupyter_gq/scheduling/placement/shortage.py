"""Shortages: what a cluster lacks for a workload even if nobody else were there, with numbers and a remedy.

Rules
-----
1. Order. The first demand that no node meets is named: devices, their model, their memory, labels of the node, its CPU,
   its memory. Only nodes that meet all earlier demands are counted for a later one.
2. Gangs. After that: whether the smallest gang fits as a whole, and whether it fits into one domain.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.domain.amount import NO_MEMORY, HostResource
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL, Device, Node
from jupyter_gq.domain.errors import Resource
from jupyter_gq.domain.workload import Request, TaskGroup, Workload
from jupyter_gq.scheduling.wording import (
    describe_cores,
    describe_gpus,
    describe_host_amount,
    describe_memory,
    enumerate_names,
    name_host_amount,
)
from jupyter_gq.scheduling.workloads import gang

from . import DeviceLedger, View
from . import gang_placement as assemble


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """A demand that the cluster cannot meet, with the supply and a remedy."""

    #: The demand, such as "4 GPUs on one node".
    asked: str
    #: The supply, as a clause that follows "but".
    have: str
    #: The remedy, as a sentence for the user.
    fix: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    #: Number of devices on another suitable node that would do, for all tasks.
    devices: int = 0
    #: The part of the request that is short.
    resource: Resource = Resource.GPU


def find_shortage(ledger: DeviceLedger, pool: str, workload: Workload) -> Shortage | None:
    """Return what a workload lacks on these nodes; None if it fits. `ledger` must be without work (`empty_ledger`)."""
    groups = sorted(gang.groups_of(workload), key=assemble.largest_first)
    needed = _tasks_by_request(groups)
    for request, tasks in needed.items():
        found = _of_one_task(ledger, pool, request) if tasks else None
        if found is not None:
            return replace(found, devices=request.devices * tasks)
    for request, tasks in needed.items():
        slots = ledger.slots_exactly(pool, request)
        if slots < tasks:
            return _of_all_tasks(pool, request, tasks, slots)
    if workload.groups or workload.topology is not None:
        return _together(ledger, pool, workload, groups)
    return None


def _of_one_task(ledger: DeviceLedger, pool: str, request: Request) -> Shortage | None:
    """Return the first demand that keeps even one task of the request from fitting on any node.

    Returns None if one task fits.
    """
    if ledger.slots_exactly(pool, request):
        return None
    nodes = ledger.layout.nodes
    for step in _steps(request):
        left = [node for node in nodes if ledger.slots_on(node.name, pool, step, View.NOW)]
        if not left:
            return _missing(ledger, pool, step, nodes)
        nodes = left
    return None


def _steps(request: Request) -> Iterator[Request]:
    """Yield requests that make one more demand each, until all demands of `request` are made.

    The first one asks for the devices alone.
    """
    step = replace(
        request,
        device_memory=None,
        models=(),
        preferred_models=(),
        only_devices=(),
        cpu_milli=0,
        memory=NO_MEMORY,
        node_labels=(),
    )
    yield step
    for name in ("models", "device_memory", "node_labels", "cpu_milli", "memory", "only_devices"):
        following = replace(step, **{name: getattr(request, name)})
        if following != step:
            step = following
            yield step


def _missing(ledger: DeviceLedger, pool: str, step: Request, nodes: list[Node]) -> Shortage:
    """Return the shortage for the last demand of `step`, which none of these nodes meets."""
    devices = [[d for d in node.devices if d.pool == pool and d.healthy] for node in nodes]
    largest = max(map(len, devices), default=0)
    there = f"{describe_gpus(step.milli)} on one node" if step.devices else "a node"
    if step.only_devices:
        found = Shortage(
            asked="the GPU on which the job was paused, the only one to which its GPU memory can return",
            have=f"that GPU takes no new work{_in_brackets(_why_away(step.only_devices, ledger.layout.nodes))}",
            fix="Ask your administrator, or cancel the job and send it again.",
        )
    elif step.memory or step.cpu_milli:
        found = _missing_host(pool, step, nodes, there)
    elif SHARE_LABEL in step.node_labels:
        found = _no_sharing(pool, nodes, there)
    elif step.node_labels:
        wanted = enumerate_names([f"{key}={value}" for key, value in step.node_labels])
        found = Shortage(
            asked=f"{there} with {wanted}",
            have=f"no node of the pool {pool} that has the rest has that",
            fix="Ask your administrator which labels there are.",
        )
    elif not step.devices:
        closed = _in_brackets(_closed(nodes))
        found = Shortage(asked=there, have=f"no node takes new work{closed}", fix="Ask your administrator.")
    elif largest and (step.device_memory is not None or step.models):
        found = _missing_device(pool, step, [d for each in devices for d in each], there)
    else:
        found = _missing_number(pool, step, nodes, largest)
    return replace(found, numbers={**found.numbers, "largest_node": 1000 * largest})


def _missing_host(pool: str, step: Request, nodes: list[Node], there: str) -> Shortage:
    """Return the shortage if no node has the memory, or else the CPU, that `step` asks for."""
    resource, name = (HostResource.MEMORY, "most_memory") if step.memory else (HostResource.CPU, "most_cpu_milli")
    amounts = [node.memory if step.memory else node.cpu_milli for node in nodes]
    most = max((amount for amount in amounts if amount is not None), default=0)
    return Shortage(
        asked=name_host_amount(resource, step.memory or step.cpu_milli) + (f" beside {there}" if step.devices else ""),
        have=f"no such node of the pool {pool} has more than {describe_host_amount(resource, most)}",
        fix=_advise(describe_host_amount(resource, most), most),
        numbers={name: most},
        resource=Resource[resource.name],
    )


def _missing_number(pool: str, step: Request, nodes: list[Node], largest: int) -> Shortage:
    """Return the shortage if no node has as many GPUs as `step` asks for; the largest one has `largest`."""
    if largest:
        return Shortage(
            asked=describe_gpus(step.milli),
            have=f"no node of the pool {pool} has more than {describe_gpus(1000 * largest)}"
            + _in_brackets(_drained(pool, nodes)),
            fix=_advise(str(largest), largest),
        )
    of_pool = [node for node in nodes if any(device.pool == pool for device in node.devices)]
    # Of a node without devices nobody knows the pool; that it is closed may be why it has none.
    why = _closed(of_pool or (node for node in nodes if not node.devices))
    return Shortage(
        asked=describe_gpus(step.milli),
        have=f"the pool {pool} has no GPU{_in_brackets(why or _drained(pool, nodes))}",
        fix="Ask your administrator.",
    )


def _advise(amount: str, size: int) -> str:
    """Return the advice to ask for `amount` or less, the largest possible one; `size` 0 means that there is nothing."""
    return f"Ask for {amount} or less." if size else "Ask your administrator: there is none."


def _advise_tasks(most: int) -> str:
    """Return the advice to ask for fewer tasks if at most `most` fit; if none fits, to ask for less in each."""
    if most > 1:
        return f"Ask for {most} tasks or less."
    return "Ask for one task." if most else "Ask for less in each task."


def _no_sharing(pool: str, nodes: list[Node], there: str) -> Shortage:
    """Return the shortage if no node can share its devices, with the cause: MIG slices or agents that do not work."""
    have = f"GPUs of the pool {pool} cannot be shared now, because no node of it has a working agent"
    fix = "Ask for whole GPUs, or ask your administrator to look at the agents of the nodes."
    if nodes and all(NEVER_SHARED in node.labels.items() for node in nodes):
        have = f"the devices of the pool {pool} are slices of GPUs (MIG), which are not divided further"
        fix = "Ask for 1, which is one slice."
    return Shortage(asked=there, have=have, fix=fix)


def _closed(nodes: Iterable[Node]) -> list[str]:
    """Return the reasons why nodes take no new work, one for each closed node."""
    return [node.closed for node in nodes if node.closed]


def _drained(pool: str, nodes: Iterable[Node]) -> list[str]:
    """Return a clause for each device of the pool on these nodes that is being drained."""
    return [
        _describe_drain(node, device)
        for node in nodes
        for device in node.devices
        if device.draining and device.pool == pool
    ]


def _why_away(wanted: Collection[str], nodes: Iterable[Node]) -> list[str]:
    """Return why the wanted devices take no new work: their node is closed, or they are being drained."""
    having = [(node, device) for node in nodes for device in node.devices if device.id in wanted]
    closed = [node.closed for node, _ in having if node.closed]
    return closed or [_describe_drain(node, device) for node, device in having if device.draining]


def _describe_drain(node: Node, device: Device) -> str:
    """Return the clause that a device is being drained."""
    return f"GPU {device.index} of {node.name} is being drained"


def _in_brackets(reasons: Sequence[str]) -> str:
    """Return the reasons in brackets, after a space; "" if there are none."""
    return f" ({enumerate_names(reasons)})" if reasons else ""


def _missing_device(pool: str, step: Request, devices: list[Device], there: str) -> Shortage:
    """Return the shortage if the pool has devices, but too few of the model or the memory that `step` asks for."""
    if step.device_memory is not None:
        fitting = [d for d in devices if not step.models or d.model in step.models]
        most = max((d.memory for d in fitting), default=NO_MEMORY)
        if most:
            wanted = "it" if step.devices == 1 else f"{step.devices} such GPUs"
            have = f"no node of the pool {pool} has {wanted}; the largest GPU has {describe_memory(most)}"
            fix = _advise(describe_memory(most), most)
        else:
            have = f"the memory of the GPUs of the pool {pool} is not known"
            fix = "Ask for a number of GPUs or a fraction of one."
        return Shortage(
            asked=f"{describe_memory(step.device_memory)} of GPU memory",
            have=have,
            fix=fix,
            numbers={"most_device_memory": most},
            resource=Resource.GPU_MEMORY,
        )
    known = sorted({d.model for d in devices})
    return Shortage(
        asked=f"{there}, of the model {enumerate_names(step.models, 'or')}",
        have=f"no node of the pool {pool} has that; it has {enumerate_names(known)}",
        fix=f"Ask for {enumerate_names(known, 'or')}.",
        resource=Resource.MODEL,
    )


def _of_all_tasks(pool: str, request: Request, tasks: int, slots: int) -> Shortage:
    """Return the shortage of room for all tasks at once, of which only `slots` fit."""
    return Shortage(
        asked=f"{tasks} tasks of {describe_request(request)} that start together",
        have=f"the pool {pool} has room for {slots} of them",
        fix=_advise_tasks(slots),
        numbers={"slots": slots},
        devices=request.devices * (tasks - slots),
    )


def _together(ledger: DeviceLedger, pool: str, workload: Workload, groups: Iterable[TaskGroup]) -> Shortage | None:
    """Return the shortage of a gang with task groups or a topology that has no place as a whole; None if it has one.

    The ledger changes on trial only.
    """
    mark = ledger.mark()
    placed = assemble.place(ledger, pool, workload, View.NOW)
    ledger.rollback(mark)
    if placed is not None:
        return None
    devices = sum(group.request.devices * group.min_members for group in groups)
    tasks = sum(group.min_members for group in groups)
    for constraint in (workload.topology, *(group.topology for group in workload.groups)):
        if constraint is not None and constraint.required not in (None, *ledger.domains.levels(constraint.topology)):
            known = ledger.domains.levels(constraint.topology)
            return Shortage(
                asked=f"tasks in one {constraint.required} of the topology {constraint.topology}",
                have=f"it has the levels {enumerate_names(known)}" if known else "there is no such topology",
                fix="Ask your administrator which there are.",
                numbers={"levels": len(known)},
                devices=devices,
            )
    domains = assemble.required_domains(ledger, workload)
    if domains is None:
        return Shortage(
            asked=f"{tasks} tasks that start together",
            have=f"the nodes of the pool {pool} cannot take all of them at once as it asks",
            fix="Ask for less.",
            numbers={"tasks": tasks},
            devices=devices,
        )
    request = assemble.leading_request(workload)
    slots = max((ledger.slots(pool, request, View.NOW, within=(domain,)) for domain in domains), default=0)
    level = domains[0].levels[-1] if domains else "domain"
    return Shortage(
        asked=f"{tasks} tasks of {describe_request(request)} in one {level}",
        have=f"no {level} of the pool {pool} has room for more than {min(slots, tasks - 1)} of them",
        fix=f"{_advise_tasks(min(slots, tasks - 1))[:-1]}, or do not require one {level}.",
        numbers={"slots": slots, "domains": len(domains)},
        devices=devices,
    )


def _tasks_by_request(groups: Iterable[TaskGroup]) -> dict[Request, int]:
    tasks: dict[Request, int] = {}
    for group in groups:
        tasks[group.request] = tasks.get(group.request, 0) + group.min_members
    return tasks


def describe_request(request: Request) -> str:
    """Return what one task asks for in words, such as "0.5 GPU, 4 CPU cores and 16 GiB of memory"."""
    parts = []
    if request.device_memory is not None:
        parts.append(f"{describe_memory(request.device_memory)} of GPU memory")
    elif request.devices:
        parts.append(describe_gpus(request.milli))
    if request.cpu_milli:
        parts.append(describe_cores(request.cpu_milli))
    if request.memory:
        parts.append(f"{describe_memory(request.memory)} of memory")
    return enumerate_names(parts) if parts else "no GPU"
