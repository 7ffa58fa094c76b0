"""Checks and previews of a workload before it is queued: is it within the quota, can it ever run, what happens now."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import NO_GPU, HostResource, MilliGpu, format_gpus
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL, Node
from jupyter_gq.domain.errors import NeverFits, QuotaExceeded, Resource
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import WAITING, Explanation, PendingReason, word_as_forecast
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.scheduling.placement import MemoryParts, empty_ledger
from jupyter_gq.scheduling.placement.shortage import find_shortage
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Account, Accounts
from jupyter_gq.scheduling.wording import (
    describe_gpus,
    describe_host_amount,
    describe_host_limit,
    describe_with_amount,
    is_fixed_quota,
)
from jupyter_gq.scheduling.workloads import gang

from .over_quota import describe_over_quota, find_over_quota


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """The fate of a workload if it were queued now."""

    starts_now: bool
    #: A sentence for the owner.
    sentence: str
    #: Place in the queue, from 1; None if the workload starts now.
    position: int | None = None
    #: The part that could be reclaimed if the workload ran now, beside the work that runs.
    over_quota: MilliGpu = NO_GPU
    #: Where the workload would go; empty if it waits.
    placement: tuple[TaskPlacement, ...] = ()
    #: Why the workload would wait; None if it starts now.
    why: Explanation | None = None


def check_fixed_quota(snapshot: Snapshot, workload: Workload) -> None:
    """Raise `QuotaExceeded` if a notebook asks for more than is left of its owner's fixed quota.

    The quota is 0 if the snapshot lacks the queue. Pending notebooks count, since they were granted. Stopping ones do
    not count: this one starts after their end. A notebook without a GPU always passes.
    """
    queue = next((q for q in snapshot.queues if q.name == workload.queue), None)
    quota = 0 if queue is None else queue.quota
    holders = [
        other
        for other in snapshot.workloads
        if other.queue == workload.queue
        and other.id != workload.id
        and other.state not in FINAL
        and other.state is not State.STOPPING
        and other.milli > 0
    ]
    used = sum(other.milli for other in holders)
    if workload.milli and used + workload.milli > quota:
        raise QuotaExceeded(
            requested=format_gpus(workload.milli),
            quota=format_gpus(quota),
            used=format_gpus(used),
            holders=tuple(describe_with_amount(other, other.milli) for other in holders),
        )


def check_fits(snapshot: Snapshot, workload: Workload) -> None:
    """Raise `NeverFits` if no node, pool, limit or quota could ever give what a workload needs, however long it waits.

    A node that cannot share its devices now may do so again, and a node that the cluster may add may come: a workload
    that needs such a node waits. A workload of an unknown queue passes. While the backend of a workload cannot be
    observed, nobody knows what nodes there are, so only limits and quotas count.
    """
    queue = next((q for q in snapshot.queues if q.name == workload.queue), None)
    if queue is None:
        return
    chain = Accounts(snapshot.queues).of(workload.queue).chain
    _check_host_limits(chain, workload)
    every_kind = (*snapshot.nodes, *(new.like for new in snapshot.new_nodes))
    if not _is_never_shared(queue.pool, every_kind):
        workload = replace(workload, request=_without_share_label(workload.request))
    workload = MemoryParts(every_kind).of_workload(workload, queue.pool)
    if workload.kind not in snapshot.unobserved:
        _check_place(snapshot, queue, workload)
    milli = gang.smallest(workload)
    for account in chain:
        limit, name = account.queue.limit, account.queue.name
        owner = "your fixed quota" if is_fixed_quota(name) else f"the limit of {name}"
        if limit is not None and milli > limit:
            raise NeverFits(
                f"You asked for {describe_gpus(milli)}, but {owner} is {describe_gpus(limit)}. "
                f"{_advise(describe_gpus(limit), limit)}"
            )
        if not workload.preemptible and milli > account.queue.quota:
            raise NeverFits(
                f"You asked for {describe_gpus(milli)} that cannot be paused, but the quota of {name} is "
                f"{describe_gpus(account.queue.quota)}. "
                f"{_advise(describe_gpus(account.queue.quota), account.queue.quota)}"
            )


def _is_never_shared(pool: str, nodes: Sequence[Node]) -> bool:
    """Tell whether the pool has devices and none of them can ever be shared."""
    of_pool = [node for node in nodes if any(device.pool == pool for device in node.devices)]
    return bool(of_pool) and all(NEVER_SHARED in node.labels.items() for node in of_pool)


def _without_share_label(request: Request) -> Request:
    """Return the request without the demand for a node that shares its devices now."""
    return replace(request, node_labels=tuple(label for label in request.node_labels if label != SHARE_LABEL))


def _advise(amount: str, size: int) -> str:
    """Return the advice to ask for `amount` or less; `size` is that amount, and 0 means that nothing can be had."""
    return f"Ask for {amount} or less." if size else "Ask for none, or ask your administrator for more."


def _check_host_limits(chain: Sequence[Account], workload: Workload) -> None:
    """Raise `NeverFits` if the smallest gang needs more CPU or memory than the limit of a queue in `chain`."""
    needed = gang.smallest_host(workload)
    for account in chain:
        for resource, limit in zip(HostResource, account.host_limits, strict=True):
            if limit is not None and needed[resource] > limit:
                raise NeverFits(
                    f"You asked for {describe_host_amount(resource, needed[resource])}, but "
                    f"{describe_host_limit(account.queue.name, resource, limit)}. "
                    f"{_advise(describe_host_amount(resource, limit), limit)}",
                    Resource[resource.name],
                )


def _check_place(snapshot: Snapshot, queue: Queue, workload: Workload) -> None:
    """Raise `NeverFits` if the workload would not fit even on empty nodes, including those that the cluster may add.

    A workload without devices passes if there are no nodes at all.
    """
    if not snapshot.nodes and not gang.needs_devices(workload):
        return
    if _plainly_fits(snapshot, queue.pool, workload):
        return
    tasks = sum(group.min_members for group in gang.groups_of(workload))
    nodes = (*snapshot.nodes, *(node for new in snapshot.new_nodes for node in new.first(tasks)))
    lack = find_shortage(empty_ledger(nodes, snapshot.topologies, healthy=False), queue.pool, workload)
    if lack is not None:
        raise NeverFits(f"You asked for {lack.asked}, but {lack.have}. {lack.fix}", lack.resource)


def _plainly_fits(snapshot: Snapshot, pool: str, workload: Workload) -> bool:
    """Return True if all tasks of the workload certainly fit on empty nodes; False means that a ledger must decide.

    Making a ledger of a large cluster takes long.
    """
    request = workload.request
    if workload.groups or workload.topology or request.device_memory is not None or request.node_labels:
        return False
    places = sum(_places(node, pool, request) for node in snapshot.nodes)
    places += sum(new.count * _places(new.like, pool, request) for new in snapshot.new_nodes)
    return request.devices > 0 and places >= workload.tasks


def _places(node: Node, pool: str, request: Request) -> int:
    """Return the number of tasks that certainly fit on the node if nobody else were there."""
    models = request.models
    fitting = sum(device.pool == pool and (not models or device.model in models) for device in node.devices)
    places = fitting // max(1, request.devices)
    if request.cpu_milli and node.cpu_milli is not None:
        places = min(places, (node.cpu_milli + node.cpu_by_others) // request.cpu_milli)
    if request.memory and node.memory is not None:
        places = min(places, (node.memory + node.memory_by_others) // request.memory)
    return places if node.max_tasks is None else min(places, node.max_tasks)


def queued(workload: Workload) -> Workload:
    """Return the workload as it is just after it was queued: pending, without a placement."""
    return replace(workload, state=State.PENDING, placement=())


def outlook(snapshot: Snapshot, policy: Policy, workload: Workload, decision: Decision) -> Outlook:
    """Return the outlook of a workload from a decision on a snapshot that contains it.

    The decision must admit or explain the workload.
    """
    for instruction in decision.instructions:
        if isinstance(instruction, Admit) and instruction.workload == workload.id:
            over = describe_over_quota(snapshot, policy, workload, instruction.over_quota)
            starts = f"Starts now{_describe_fewer(workload, len(instruction.placement))}"
            within = f"{starts}, within the quota." if workload.kind is Kind.TRAINING else f"{starts}."
            return Outlook(
                starts_now=True,
                sentence=f"{starts}, {over}." if over else within,
                over_quota=instruction.over_quota,
                placement=instruction.placement,
            )
    entry = next(entry for entry in decision.pending if entry.workload == workload.id)
    above = find_over_quota(snapshot, workload)
    over = describe_over_quota(snapshot, policy, workload, above)
    told = _later(entry.why)
    return Outlook(
        starts_now=False,
        sentence=f"{told} As things stand, it would run {over}." if over else told,
        position=entry.position,
        over_quota=above,
        why=entry.why,
    )


def _describe_fewer(workload: Workload, tasks: int) -> str:
    """Return the phrase for a workload that starts with so many tasks; "" if those are all."""
    return f" with {tasks} of its {workload.tasks} tasks" if tasks < workload.tasks else ""


def _later(why: Explanation) -> str:
    """Return the sentence of a pending workload, worded for a workload that has not been queued yet."""
    if why.reason is PendingReason.STARTS_SOON:
        return why.sentence
    if why.reason is PendingReason.WAITS_FOR_EVICTION:
        return f"Starts soon: {why.sentence.removeprefix(WAITING)}"
    return word_as_forecast(why.sentence)
