"""Hold every explanation of a decision against the decision: do the numbers add up, does what would help help?

    explained(snapshot, policy, now)

runs the cycle, and for each workload that waits follows what it was told, one step after the other, with the others in
line set aside: after at most `STEPS` of them it starts. For each eviction the one it was for gets the room.
"""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil

from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.queue import BUILD_ROOT
from jupyter_gq.domain.reasons import EvictReason, Explanation, Grant, PendingReason, Remedy
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Grow, Pending, Shrink, Suspend
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, apply, groups_of, without
from tests.property.arithmetic import held, smallest
from tests.property.free import GPU

#: A limit may hide a quota, and that a lack of devices; never more than that many in a row.
STEPS = 8
#: Reasons with which room is kept: it starts when who was told to stop has stopped.
KEPT = {PendingReason.WAITS_FOR_EVICTION}
#: Only for sets so small each blamed one is tried for being needed.
THOROUGH = 4


def explained(snapshot: Snapshot, policy: Policy, now: Instant) -> Decision:
    """The decision; raise `AssertionError` when a sentence of it is not true."""
    snapshot = _with_parts_of_devices(snapshot)
    decision = run_cycle(snapshot, policy, now)
    for entry in decision.pending:
        _numbers_add_up(snapshot, decision, entry)
        _who_is_named_is_there(snapshot, entry.why)
        _what_would_help_helps(snapshot, policy, now, entry)
        _each_is_needed(_as_decided(snapshot, decision, entry), policy, now, entry)
    for instruction in decision.instructions:
        if isinstance(instruction, Evict | Shrink | Suspend):
            _who_gives_way_is_told_for_whom(snapshot, decision, instruction)
    return decision


# --- who waits


def _numbers_add_up(snapshot: Snapshot, decision: Decision, entry: Pending) -> None:
    why, workload = entry.why, _of(snapshot, entry.workload)
    assert why.sentence.startswith("Waiting: "), why
    assert why.sentence.endswith("."), why
    assert all(amount >= 0 for amount in why.numbers.values()), why
    if why.reason is PendingReason.UNKNOWN_QUEUE:
        return
    queue = next(q for q in snapshot.queues if q.name == workload.queue)
    assert why.numbers["requested"] == smallest(workload)[0], why
    assert why.numbers["quota"] == queue.quota, why
    assert why.numbers["used"] == _used(snapshot, decision, queue.name), why
    if "bound" in why.numbers:
        assert why.remedy is not None
        bounding = next(q for q in snapshot.queues if q.name == why.remedy.queue)
        wanted = why.numbers.get("bound_requested", why.numbers["requested"])
        assert why.numbers["bound"] == getattr(bounding, _field(why.remedy)), why
        assert why.numbers["bound_used"] + wanted > why.numbers["bound"], why
        assert _amount(why.remedy, why.numbers["bound"]) in why.sentence, why


def _used(snapshot: Snapshot, decision: Decision, queue: str) -> int:
    """What the queue holds once the decision is carried out, with what is still stopping."""
    below = {queue}
    while more := {q.name for q in snapshot.queues if q.parent in below} - below:
        below |= more
    in_use = sum(held(w)[0] for w in snapshot.workloads if w.queue in below and w.holds)
    started = {i.workload: i.placement for i in decision.instructions if isinstance(i, Admit | Grow)}
    return in_use + sum(
        held(replace(w, placement=started[w.id]))[0] for w in snapshot.workloads if w.queue in below and w.id in started
    )


def _who_is_named_is_there(snapshot: Snapshot, why: Explanation) -> None:
    known = {workload.id: workload for workload in snapshot.workloads}
    counted = any(node.cpu_milli or node.memory or node.max_tasks for node in snapshot.nodes)
    for name in why.blockers:
        assert name in known, why
        assert counted or known[name].request.devices, why


def _what_would_help_helps(snapshot: Snapshot, policy: Policy, now: Instant, entry: Pending) -> None:
    if entry.why.reason is PendingReason.UNKNOWN_QUEUE:
        assert entry.why.remedy is None
        return
    others = {w.id for w in snapshot.workloads if w.state is State.PENDING} - {entry.workload}
    seen, why = [], entry.why
    for _ in range(STEPS):
        assert why.remedy is not None, f"nothing would help {entry.workload}: {seen} {why}"
        seen.append(why.remedy)
        snapshot, now = granted(snapshot, now, why.remedy, _of(snapshot, entry.workload))
        alone = _content(without(snapshot, *others))
        decision = run_cycle(alone, policy, now)
        if _starts(decision, entry.workload):
            return
        why = next(each.why for each in decision.pending if each.workload == entry.workload)
        assert why.remedy != seen[-1] or why.remedy.grant is Grant.TIME, f"it did not help {entry.workload}: {why}"
    raise AssertionError(f"{entry.workload} was told {seen} and still waits: {why}")


def _each_is_needed(snapshot: Snapshot, policy: Policy, now: Instant, entry: Pending) -> None:
    """If anyone of them stays, it does not start, unless it starts anyway once the others in line are gone.

    Those in line for whom something is reserved stay.

    Of elastic work perhaps only a part is in the way; then another one that goes as a whole may be enough.
    """
    name, remedy = entry.workload, entry.why.remedy
    waiting = {w.id for w in snapshot.workloads if w.state is State.PENDING} - {name}
    if remedy is None or remedy.grant is not Grant.STOPS or waiting & set(remedy.workloads):
        return
    if len(remedy.workloads) > THOROUGH or any(_of(snapshot, other).elastic for other in remedy.workloads):
        return
    alone = _content(without(snapshot, *(other for other in waiting if not _of(snapshot, other).reserved)))
    if _starts(run_cycle(alone, policy, now), name):
        return
    for kept in remedy.workloads:
        rest = without(alone, *(set(remedy.workloads) - {kept}))
        assert not _starts_now(run_cycle(rest, policy, now), name), f"{kept} is not in the way of {name}"


def _as_decided(snapshot: Snapshot, decision: Decision, entry: Pending) -> Snapshot:
    """The cluster with what starts, and with all others that get a place later as if they ran there.

    What stops has stopped, unless the entry says that it is waited for.
    """
    left = []
    for workload in apply(snapshot, decision, NOW).workloads:
        if workload.id == entry.workload:
            left.append(workload)
        elif workload.nominated and workload.reserved and workload.state in {State.PENDING, State.STOPPING}:
            left.append(replace(workload, state=State.RUNNING, placement=workload.reserved, started_at=NOW, stop=None))
        elif workload.state is State.STOPPING and workload.id in entry.why.blockers:
            left.append(_of(snapshot, workload.id))
        elif workload.state is not State.STOPPING:
            left.append(replace(workload, leaving=()))
    return replace(snapshot, workloads=tuple(left))


def _content(snapshot: Snapshot) -> Snapshot:
    """What runs wants no more than it has: growth is a place in the line too."""
    return replace(snapshot, workloads=tuple(_as_large_as_it_is(w) if w.elastic else w for w in snapshot.workloads))


def _as_large_as_it_is(workload: Workload) -> Workload:
    if not workload.placement:
        return workload
    count = Counter(task.group for task in workload.placement)
    groups = tuple(replace(group, tasks=count[group.name]) if group.tasks else group for group in workload.groups)
    return replace(workload, tasks=len(workload.placement), groups=groups)


def _starts(decision: Decision, name: str) -> bool:
    kept = {entry.workload for entry in decision.pending if entry.why.reason in KEPT}
    return name in kept or _starts_now(decision, name)


def _starts_now(decision: Decision, name: str) -> bool:
    return any(isinstance(i, Admit) and i.workload == name for i in decision.instructions)


def granted(snapshot: Snapshot, now: Instant, remedy: Remedy, workload: Workload) -> tuple[Snapshot, Instant]:
    """The same with what would help that workload."""
    match remedy.grant:
        case Grant.STOPS:
            assert remedy.workloads
            return without(snapshot, *remedy.workloads), now
        case Grant.LIMIT | Grant.QUOTA:
            return _with_queue(snapshot, remedy), now
        case Grant.DEVICES:
            return replace(snapshot, nodes=(*snapshot.nodes, *_nodes_like(snapshot, remedy, workload))), now
        case Grant.TIME:
            return snapshot, Instant(now + remedy.amount)
    raise AssertionError(remedy)


def _with_queue(snapshot: Snapshot, remedy: Remedy) -> Snapshot:
    raised = {_field(remedy): remedy.amount}
    queues = (replace(queue, **raised) if queue.name == remedy.queue else queue for queue in snapshot.queues)
    return replace(snapshot, queues=tuple(queues))


def _field(remedy: Remedy) -> str:
    """Of a queue: what is raised."""
    return ("" if remedy.resource == "gpu" else f"{remedy.resource}_") + remedy.grant.value.lower()


def _amount(remedy: Remedy, amount: int) -> str:
    if remedy.resource == "gpu":
        return _gpus(amount)
    if remedy.resource == "cpu":
        return f"{_decimal(amount, 1000)} CPU core{'' if amount == 1000 else 's'}"
    return f"{amount} MiB" if amount < 1024 else f"{_decimal(amount * 100 // 1024, 100)} GiB"


def _nodes_like(snapshot: Snapshot, remedy: Remedy, workload: Workload) -> tuple[Node, ...]:
    """A new node with so many devices of each pool, such as the workload asks for, unlimited in everything else."""
    models = [device for node in snapshot.nodes for device in node.devices]
    pools = sorted({device.pool for device in models} | {queue.pool for queue in snapshot.queues})
    kind = models[0] if models else Device(id="", index=0, model="any", memory=40_000, pool="")  # type: ignore[arg-type]
    name = f"new-{len(snapshot.nodes)}"
    requests = [group.request for group in groups_of(workload)]
    model = next((request.models[0] for request in requests if request.models), kind.model)
    memory = max([kind.memory, *(request.device_memory or 0 for request in requests)])
    labels = {level: name for topology in snapshot.topologies for level in topology.levels}
    labels |= {key: value for request in requests for key, value in request.node_labels}
    made = [
        replace(kind, id=f"{name}-{pool}-{index}", index=index, pool=pool, model=model, memory=memory, healthy=True)
        for pool in pools
        for index in range(remedy.amount)
    ]
    return (Node(name=name, devices=tuple(made), labels=labels),)


# --- who gives way


def _who_gives_way_is_told_for_whom(snapshot: Snapshot, decision: Decision, told: Evict | Shrink | Suspend) -> None:
    assert told.sentence.endswith("."), told
    if told.by is None:
        return
    taker = _of(snapshot, told.by)
    assert taker.state in {State.PENDING, State.SUSPENDED} or taker.elastic, told
    reason = told.reason if isinstance(told, Evict | Shrink) else None
    if reason is EvictReason.RECLAIMED:
        assert _preemptor(taker) in told.sentence, told
        # Where no GPU is asked for or given, it is processors and memory that were needed.
        of_gpus = smallest(taker)[0] and held(_of(snapshot, told.workload))[0]
        wanted = [_gpus(milli) for milli in _wanted_at_once(decision, taker)] if of_gpus else ["CPU core"]
        assert any(amount in told.sentence for amount in wanted), told
        assert taker.queue != _of(snapshot, told.workload).queue, told
    if reason is EvictReason.PREEMPTED:
        assert taker.priority > _of(snapshot, told.workload).priority, told
        assert str(taker.priority) in told.sentence, told
    assert taker.state is not State.PENDING or _starts(decision, taker.id), f"it gave way for nothing: {told}"


def _wanted_at_once(decision: Decision, taker: Workload) -> list[int]:
    """What room may be made for, in milli-GPU: its smallest gang or, of work that starts now or runs, one task more."""
    grows = taker.elastic and (taker.holds or _starts_now(decision, taker.id))
    return [smallest(taker)[0], *(group.request.milli for group in groups_of(taker) if grows)]


def _of(snapshot: Snapshot, name: str) -> Workload:
    return next(workload for workload in snapshot.workloads if workload.id == name)


# --- the judge's own words and amounts


def _decimal(amount: int, unit: int) -> str:
    """The amount in that unit, exactly, without zeros at its end."""
    return f"{Decimal(amount) / unit:f}"


def _gpus(milli: int) -> str:
    return f"{_decimal(milli, GPU)} GPU{'s' if milli > GPU else ''}"


def _preemptor(workload: Workload) -> str:
    """The queue; where it is the fixed quota of a user, the user."""
    return (
        mention(workload.owner, workload.owner, "another user")
        if workload.queue.startswith(f"{BUILD_ROOT}/")
        else workload.queue
    )


def _with_parts_of_devices(snapshot: Snapshot) -> Snapshot:
    """The same, where each request for device memory says which part of the smallest device that suits it takes."""
    pools = {queue.name: queue.pool for queue in snapshot.queues}
    devices = [device for node in snapshot.nodes for device in node.devices]

    def with_part(request: Request, pool: str | None) -> Request:
        needed = request.device_memory
        if needed is None:
            return request
        suiting = [d.memory for d in devices if d.pool == pool and d.memory >= needed]
        if request.models:
            suiting = [d.memory for d in devices if d.pool == pool and d.memory >= needed and d.model in request.models]
        hundredths = max(1, ceil(Fraction(100 * needed, min(suiting)))) if suiting else 100
        return replace(request, milli_per_device=MilliGpu(10 * hundredths))

    def with_parts(workload: Workload) -> Workload:
        pool = pools.get(workload.queue)
        groups = tuple(replace(group, request=with_part(group.request, pool)) for group in workload.groups)
        return replace(workload, request=with_part(workload.request, pool), groups=groups)

    return replace(snapshot, workloads=tuple(with_parts(workload) for workload in snapshot.workloads))
