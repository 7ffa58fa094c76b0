"""The properties that hold always, as functions that raise when one does not.

They judge by `tests.property.arithmetic` and `tests.property.victims`, never by functions of the core that is judged.
"""

from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Reserve, Shrink
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cycle_state import CycleState
from tests.builders import NOW, is_short
from tests.property.arithmetic import Amounts, Books, Tally, held, of_tasks, smallest
from tests.property.victims import fits_soon, is_guaranteed, may_go_together, victims_for


def devices_hold_at_most_one_gpu(snapshot: Snapshot) -> None:
    held: dict[str, int] = {}
    for workload in snapshot.workloads:
        if not workload.holds or workload.state is State.SUSPENDED:
            continue
        for task in (*workload.placement, *(leaving.task for leaving in workload.leaving)):
            for device in task.devices:
                held[device] = held.get(device, 0) + workload.request_of(task.group).milli_per_device
    known = {device.id for node in snapshot.nodes for device in node.devices}
    assert set(held) <= known
    assert all(milli <= 1000 for milli in held.values()), held


def tasks_lie_on_distinct_devices_of_one_node(snapshot: Snapshot) -> None:
    node_of = {device.id: node.name for node in snapshot.nodes for device in node.devices}
    for workload in snapshot.workloads:
        for task in workload.placement:
            assert len(set(task.devices)) == len(task.devices) == workload.request_of(task.group).devices
            assert {node_of[device] for device in task.devices} <= {task.node}


def gangs_are_whole_or_absent(snapshot: Snapshot) -> None:
    for workload in snapshot.workloads:
        if workload.holds:
            least = workload.min_members if workload.stale_since is None else 1
            assert least <= len(workload.placement) <= workload.tasks, workload.id
            for group in workload.groups:
                least = group.min_members if workload.stale_since is None else 0
                assert least <= sum(task.group == group.name for task in workload.placement) <= group.tasks, workload.id
        else:
            assert not workload.placement


def nodes_keep_their_room(snapshot: Snapshot) -> None:
    """No node gives more CPU or memory than it has, nor takes more tasks than it may; what is stopping counts."""
    taken: dict[str, list[Request]] = {}
    for workload in snapshot.workloads:
        if workload.holds:
            for task in (*workload.placement, *(leaving.task for leaving in workload.leaving)):
                taken.setdefault(task.node, []).append(workload.request_of(task.group))
    for node in snapshot.nodes:
        there = taken.get(node.name, [])
        assert node.cpu_milli is None or sum(request.cpu_milli for request in there) <= node.cpu_milli, node.name
        assert node.memory is None or sum(request.memory for request in there) <= node.memory, node.name
        assert node.max_tasks is None or len(there) <= node.max_tasks, node.name


def tasks_go_where_they_may(snapshot: Snapshot) -> None:
    """Only nodes with the labels, only devices of the models; all in one domain of the level that is required."""
    levels = {topology.name: topology.levels for topology in snapshot.topologies}
    nodes = {node.name: node for node in snapshot.nodes}
    models = {device.id: device.model for node in snapshot.nodes for device in node.devices}
    for workload in snapshot.workloads:
        for task in workload.placement:
            request = workload.request_of(task.group)
            assert all(nodes[task.node].labels.get(key) == value for key, value in request.node_labels), workload.id
            assert not request.models or {models[device] for device in task.devices} <= {*request.models}
        for names, constraint in ((None, workload.topology), *(({g.name}, g.topology) for g in workload.groups)):
            if constraint is not None and constraint.required is not None:
                down = levels[constraint.topology][: levels[constraint.topology].index(constraint.required) + 1]
                there = [task.node for task in workload.placement if names is None or task.group in names]
                assert len({tuple(nodes[name].labels.get(level) for level in down) for name in there}) <= 1, workload.id


def no_gang_is_stale_for_too_long(snapshot: Snapshot, policy: Policy) -> None:
    """It has got what it lacked, or has been told to stop, or waits for what it was promised."""
    for workload in snapshot.workloads:
        if workload.state is State.RUNNING and workload.stale_since is not None and is_short(workload):
            waits = workload.elastic and any(w.state is State.STOPPING or w.leaving for w in snapshot.workloads)
            assert NOW - workload.stale_since < policy.stale_after or waits, workload.id


def growth_takes_nothing_above_its_fair_share(books: Books, left: Books, decision: Decision) -> None:
    """Assert that elastic work that stops others in order to grow leaves each of its queues within its fair share.

    The guaranteed quota counts if it is larger. Usage is what the queue has after the whole decision.
    """
    by_id = {workload.id: workload for workload in books.snapshot.workloads}
    for instruction in decision.instructions:
        taker = by_id.get(getattr(instruction, "by", None) or "")
        if taker is None or not taker.holds or is_short(taker):
            continue
        for tally in books.path(taker.queue):
            lasting = left.tallies[tally.queue.name].lasting[0]
            assert lasting <= max(tally.fair_share, tally.queue.quota), tally.queue.name


def queues_obey_limit_and_quota(books: Books) -> None:
    for tally in books.tallies.values():
        for limit, used in zip(tally.limits, tally.used, strict=True):
            assert limit is None or used <= limit, f"{tally.queue.name} is above a limit"
        assert tally.fixed_used <= tally.queue.quota, f"{tally.queue.name}: not preemptible above its quota"


def accounts_are_the_sum_of_allocations(state: CycleState, books: Books) -> None:
    """The accounts of a cycle that begins are what its queues hold, and its fair shares those of the specification."""
    for account in state.allocations.accounts:
        tally = books.tallies[account.queue.name]
        assert (account.used, *account.host_used) == tally.used, account.queue.name
        assert account.fair_share == tally.fair_share, account.queue.name


def evictions_are_lawful(snapshot: Snapshot, decision: Decision, policy: Policy) -> None:
    """Each victim in its turn: reclaimed from a queue above its quota, or preempted by a higher priority.

    A decision does not tell the turns. If there is any order of victims that is lawful, it is so when those that are
    reclaimed are first, and of these those that give fewest GPUs: each leaves most to the next ones. A victim that goes
    on elsewhere gives nothing.

    What the same decision admits or nominates brings a queue above its quota only if it is not preemptible. All else
    would go first.
    """
    told = [each for each in decision.instructions if isinstance(each, Evict | Shrink)]
    if not told:
        return
    books = Books(snapshot, policy)
    places = {i.workload: i.placement for i in decision.instructions if isinstance(i, Reserve) and i.nominated}
    by_id = {workload.id: workload for workload in snapshot.workloads}
    _count_what_is_fixed(books, by_id, decision)

    def turn(each: Evict | Shrink) -> tuple[bool, Amounts]:
        return (each.reason is not EvictReason.RECLAIMED, _left_with_others(by_id, each, places))

    for instruction in sorted(told, key=turn):
        victim, gives = by_id[instruction.workload], _given_by(by_id, instruction)
        if instruction.reason is EvictReason.IDLE:
            assert victim.kind is Kind.NOTEBOOK
            continue
        # A gang that has lost tasks goes back for its own sake, and for nobody else's.
        assert victim.preemptible or (instruction.reason is EvictReason.STALE_GANG and instruction.by is None)
        starts = "Paused: " if isinstance(instruction, Evict) else ("Runs on with ", "One of its ")
        assert instruction.sentence.startswith(starts)
        assert victim.elastic or isinstance(instruction, Evict)
        leaf = books.tallies[victim.queue]
        if instruction.reason is EvictReason.RECLAIMED:
            taker = by_id[instruction.by or ""]
            assert taker.queue != victim.queue
            # A fixed quota is a place: whoever borrowed it goes, whatever its queue is guaranteed.
            if taker.state is not State.SUSPENDED:
                above = leaf.lasting[0] > leaf.queue.quota or books.uses_more_host_than_guaranteed(victim.queue)
                assert above, f"{victim.id} was taken from a queue within its quota"
                assert isinstance(instruction, Shrink) or books.has_run_long_enough(victim, taker)
        elif instruction.reason is EvictReason.PREEMPTED:
            taker = by_id[instruction.by or ""]
            assert taker.queue == victim.queue
            assert taker.priority > victim.priority
            assert isinstance(instruction, Shrink) or books.has_run_long_enough(victim, taker)
        elif instruction.reason is EvictReason.CONSOLIDATED:
            assert victim.kind is Kind.TRAINING
            assert policy.consolidate
            continue
        books.add_usage(victim, gives, sign=-1, now=False)
        books.add_usage(victim, of_tasks(victim, places.get(victim.id, ())), now=False)


def _given_by(by_id: dict[str, Workload], instruction: Evict | Shrink) -> Amounts:
    """What the victim gives back."""
    victim = by_id[instruction.workload]
    return of_tasks(victim, instruction.placement) if isinstance(instruction, Shrink) else held(victim)


def _left_with_others(
    by_id: dict[str, Workload], instruction: Evict | Shrink, places: dict[str, tuple[TaskPlacement, ...]]
) -> Amounts:
    """What the victim gives back, less what it has again at its new place."""
    back = of_tasks(by_id[instruction.workload], places.get(instruction.workload, ()))
    gpus, cpu, memory = (gives - has for gives, has in zip(_given_by(by_id, instruction), back, strict=True))
    return gpus, cpu, memory


def _count_what_is_fixed(books: Books, by_id: dict[str, Workload], decision: Decision) -> None:
    """Count what is not preemptible and is admitted, or nominated for a place that was not kept for it before."""
    kept = {workload.id for workload, _ in books.kept}
    for instruction in decision.instructions:
        if not isinstance(instruction, Admit | Reserve) or by_id[instruction.workload].preemptible:
            continue
        starts = by_id[instruction.workload]
        if isinstance(instruction, Admit):
            books.add_usage(starts, of_tasks(starts, instruction.placement))
        elif instruction.nominated and starts.id not in kept and starts.state is State.PENDING:
            books.add_usage(starts, of_tasks(starts, instruction.placement), now=False)


def who_moves_has_a_new_place(snapshot: Snapshot, after: Snapshot, decision: Decision, policy: Policy) -> None:
    """Room is kept for all tasks of moved work, and for the work it makes room for; both start when all has stopped."""
    if policy.reserve_after is not None:  # then a place may be written down long before it is free
        return
    moves = [i for i in decision.instructions if isinstance(i, Evict) and i.reason is EvictReason.CONSOLIDATED]
    # The share of an idle notebook is written down for who waits for it before its time has come.
    awaits = {entry.workload for entry in decision.pending if entry.why.reason is PendingReason.WAITS_FOR_IDLE}
    kept = {w.id: w for w in after.workloads if w.reserved and w.id not in awaits}
    by_id = {workload.id: workload for workload in snapshot.workloads}
    for move in moves:
        assert len(kept[move.workload].reserved) == len(by_id[move.workload].placement)
        assert kept[move.workload].reserved != by_id[move.workload].placement
    everything = [*after.workloads, *(replace(w, placement=w.reserved) for w in kept.values())]
    staying = (w for w in everything if w.state is not State.SUSPENDED)
    lasting = tuple(w for w in staying if w.state is not State.STOPPING or w.placement == w.reserved)
    devices_hold_at_most_one_gpu(
        replace(after, workloads=tuple(replace(w, state=State.RUNNING, leaving=()) for w in lasting))
    )


def what_is_held_goes_to_nobody_else(snapshot: Snapshot, decision: Decision) -> None:
    """Nobody of the same queue, with no higher priority and no estimate, starts on whole devices held for another."""
    by_id = {workload.id: workload for workload in snapshot.workloads}
    started = {i.workload: i for i in decision.instructions if isinstance(i, Admit)}
    given_up = {i.workload for i in decision.instructions if isinstance(i, Reserve)}
    for holder in snapshot.workloads:
        if not holder.reserved or holder.state is not State.PENDING or holder.id in {*started, *given_up}:
            continue
        held = {device for task in holder.reserved for device in task.devices}
        for name, start in started.items():
            other = by_id[name]
            bound = other.queue == holder.queue and other.priority <= holder.priority and other.estimate is None
            if bound and holder.request.milli_per_device == 1000 and not other.reserved:
                assert not held & {device for task in start.placement for device in task.devices}


def preemptors_have_recorded_places(snapshot: Snapshot, after: Snapshot, decision: Decision) -> None:
    """Work that still waits after others were told to stop for it has a recorded place, so nobody else gets that.

    If work of the victim's own queue was entitled to the place in the same decision, that work has it instead.
    """
    by_id = {workload.id: workload for workload in snapshot.workloads}
    left = {workload.id: workload for workload in after.workloads if workload.state is State.PENDING}
    for instruction in decision.instructions:
        if not isinstance(instruction, Evict | Shrink) or instruction.by not in left:
            continue
        victim, preemptor = by_id[instruction.workload], left[instruction.by]
        freed = {device for task in victim.placement for device in task.devices}
        heirs = [w for w in left.values() if freed & {device for task in w.reserved for device in task.devices}]
        if not any(heir.queue == victim.queue for heir in heirs):
            assert preemptor.reserved, f"{instruction.workload} went for {preemptor.id}, which has no place"
            assert preemptor.nominated, preemptor.id


def work_without_a_gpu_takes_its_turn(books: Books, left: Books, decision: Decision) -> None:
    """Work without a GPU gets no room before older work of its queue that has no lower priority and needs that room.

    Work gets room when it starts, or earlier, when others are told to stop for it: then the room is its own. Room that
    others give up for what its queue is guaranteed goes to no older work without such a right. Work that starts at once
    waits for no older work that also needs room of those who are told to stop only now: that room is free later.
    """
    if left.policy.per_user:
        return
    snapshot = books.snapshot
    by_right = {i.by for i in decision.instructions if isinstance(i, Evict | Shrink)}
    kept = {w.id for w in snapshot.workloads if w.nominated}
    starts = {i.workload for i in decision.instructions if isinstance(i, Admit)}
    served = starts | {i.workload for i in decision.instructions if isinstance(i, Reserve) and i.nominated}
    for gets in (w for w in left.snapshot.workloads if w.id in served - kept and not smallest(w)[0]):
        instead = _books_without_its_place(left, gets)
        for waits in (w for w in _ahead_of(snapshot, gets) if w.id not in served | kept):
            if fits_soon(left.snapshot, left, waits) or (gets.id in starts and not fits_soon(snapshot, books, waits)):
                continue
            if gets.id not in by_right or _may_claim(instead, waits):
                assert not fits_soon(instead.snapshot, instead, waits), f"{gets.id} took the turn of {waits.id}"


def _ahead_of(snapshot: Snapshot, workload: Workload) -> list[Workload]:
    """The pending work of the same queue that comes before this workload."""
    turn = (-workload.priority, workload.submitted_at)
    there = (w for w in snapshot.workloads if w.queue == workload.queue and w.state is State.PENDING)
    return [other for other in there if (-other.priority, other.submitted_at) < turn]


def _books_without_its_place(left: Books, gets: Workload) -> Books:
    """The books if a workload that has a place, or will have one, had none."""
    back = replace(gets, state=State.PENDING, placement=(), reserved=(), nominated=False)
    workloads = tuple(back if w.id == gets.id else w for w in left.snapshot.workloads)
    return Books(replace(left.snapshot, workloads=workloads), left.policy)


def _may_claim(books: Books, workload: Workload) -> bool:
    """Whether the workload is guaranteed what it needs, and no quota of processors or memory would be exceeded."""
    return is_guaranteed(books, workload) and books.is_within_host_quotas(workload)


def everyone_who_waits_is_explained_once(snapshot: Snapshot, decision: Decision) -> None:
    admitted = {i.workload for i in decision.instructions if isinstance(i, Admit)}
    waiting = sorted(w.id for w in snapshot.workloads if w.state is State.PENDING and w.id not in admitted)
    assert sorted(entry.workload for entry in decision.pending) == waiting
    queue_of = {w.id: w.queue for w in snapshot.workloads}
    positions: dict[str, list[int]] = {}
    for entry in decision.pending:
        positions.setdefault(queue_of[entry.workload], []).append(entry.position)
        assert entry.why.sentence.startswith("Waiting: ")
        assert entry.why.sentence.endswith(".")
    assert all(found == list(range(1, len(found) + 1)) for found in positions.values())


def nobody_entitled_waits(snapshot: Snapshot, policy: Policy) -> None:
    """In a settled cluster: no workload that its queue is guaranteed waits while up to four victims could make room.

    Unless other work that waits could take its CPU or memory at once, since its queue uses more than it is guaranteed.
    See docs/decisions/0325-count-what-starts-as-the-first-to-go-in-every-resource.md.
    """
    books = Books(snapshot, policy)
    for workload in (each for each in snapshot.workloads if each.state is State.PENDING):
        if not is_guaranteed(books, workload) or _owners_ahead(snapshot, books, workload):
            continue
        victims = victims_for(snapshot, books, workload)
        keeps = victims is not None and not _may_lose_host(books, workload, victims)
        assert not keeps, f"{workload.id} could start if {[v.id for v in victims or ()]} went"


def _may_lose_host(books: Books, workload: Workload, victims: Sequence[Workload]) -> bool:
    """Whether other waiting work could take CPU or memory from the workload, had it the place of the victims."""
    waiting = (w for w in books.snapshot.workloads if w.state is State.PENDING and w.id != workload.id)
    changes = [(workload, smallest(workload), 1), *((victim, held(victim), -1) for victim in victims)]
    for each, amounts, sign in changes:
        books.add_usage(each, amounts, sign=sign, now=False)
    found = any(books.may_reclaim_host(other, workload) for other in waiting)
    for each, amounts, sign in changes:
        books.add_usage(each, amounts, sign=-sign, now=False)
    return found


def _owners_ahead(snapshot: Snapshot, books: Books, workload: Workload) -> list[Workload]:
    """The other workloads that have a place which this one must leave alone."""
    return [
        owner
        for owner in snapshot.workloads
        if owner.reserved
        and owner.id != workload.id
        and ((owner.queue == workload.queue and owner.priority >= workload.priority) or not books.is_entitled(workload))
    ]


def queues_above_their_share_give_first(snapshot: Snapshot, decision: Decision, policy: Policy) -> None:
    """If a queue within its fair share gives, no set of up to four victims of queues above theirs would do.

    Or one of that set could take from the queue that gives, so it would be the next one to do so.

    Judged where all victims of a decision go for one workload, and nothing else happens, on nodes that count only GPUs.
    """
    if any((node.cpu_milli, node.memory, node.max_tasks) != (None, None, None) for node in snapshot.nodes):
        return
    gone = [i for i in decision.instructions if isinstance(i, Evict | Shrink)]
    takers = {i.by for i in gone}
    if any(not isinstance(i, Evict | Reserve) for i in decision.instructions) or len(takers) != 1:
        return
    if any(i.nominated and i.workload not in takers for i in decision.instructions if isinstance(i, Reserve)):
        return  # others may have been served before, by victims that went on to go as a whole
    if any(i.reason is not EvictReason.RECLAIMED for i in gone) or any(w.reserved for w in snapshot.workloads):
        return
    (taker,) = (w for w in snapshot.workloads if w.id in takers)
    victims = [w for w in snapshot.workloads if w.id in {i.workload for i in gone}]
    books = Books(snapshot, policy)
    if taker.state is not State.PENDING or all(books.is_above_its_share(taker, victim) for victim in victims):
        return
    others = victims_for(snapshot, books, taker, only=books.is_above_its_share)
    if others is None or any(_could_take_from_one_of(books, each, victims) for each in others):
        return
    raise AssertionError(f"{[v.id for v in victims]} went instead of {[v.id for v in others]}")


def _could_take_from_one_of(books: Books, workload: Workload, victims: Sequence[Workload]) -> bool:
    """Whether running work, if it had to wait, could have the place of one of these."""
    books.add_usage(workload, held(workload), sign=-1, now=False)
    found = any(books.may_take(workload, victim) for victim in victims)
    books.add_usage(workload, held(workload), now=False)
    return found


def moving_to(after: Snapshot, victim: str) -> set[str]:
    """The other work that was told to stop and goes on at the place of this victim."""
    (gone,) = (workload for workload in after.workloads if workload.id == victim)
    devices = {device for task in gone.placement for device in task.devices}
    moving = [w for w in after.workloads if w.state is State.STOPPING and w.reserved and w.id != victim]
    return {w.id for w in moving if devices & {device for task in w.reserved for device in task.devices}}


def went_for_nothing(before: Snapshot, after: Snapshot, policy: Policy, waiting: str, victim: str) -> bool:
    """Tell whether `waiting` would have a place, and a right to the other victims, if `victim` did not stop."""
    workloads = tuple(replace(w, state=State.RUNNING, stop=None) if w.id == victim else w for w in after.workloads)
    stays = replace(after, workloads=workloads)
    (wanting,) = (workload for workload in workloads if workload.id == waiting)
    books = Books(stays, policy)
    # A longer wait keeps its place from others, also while some of it is still in use.
    owners = [owner for owner in _owners_ahead(stays, books, wanting) if owner.state is State.PENDING]
    known = {owner.id for owner, _ in books.kept}
    books.kept += [(owner, owner.reserved) for owner in owners if owner.id not in known]
    if not fits_soon(stays, books, wanting):
        return False
    told = {w.id for w in after.workloads if w.state is State.STOPPING} - {victim, waiting}
    others = [w for w in before.workloads if w.id in told and w.state is not State.STOPPING]
    elsewhere = [w for w in others if w.queue != wanting.queue]
    return not elsewhere or may_go_together(Books(before, policy), wanting, others)


def entitled_work_goes_last(snapshot: Snapshot, decision: Decision, policy: Policy) -> None:
    """If a workload goes for a lowered limit while its queue is within its quota, no queue there is above its own."""
    books = Books(snapshot, policy)
    by_id = {workload.id: workload for workload in snapshot.workloads}
    told = {i.workload for i in decision.instructions if isinstance(i, Evict)}
    for instruction in decision.instructions:
        if not isinstance(instruction, Evict) or instruction.reason is not EvictReason.QUOTA_LOWERED:
            continue
        victim = by_id[instruction.workload]
        path = books.path(victim.queue)
        if path[0].lasting[0] > path[0].deserved:
            continue
        broken = next((t for t in path if t.queue.limit is not None and t.lasting[0] > t.queue.limit), None)
        if broken is None:  # It goes for a limit of processors.
            continue
        for other in snapshot.workloads:
            inside = other.holds and other.preemptible and not other.elastic and other.id not in told
            inside = inside and other.state is not State.STOPPING and broken in books.path(other.queue)
            if inside:
                above = books.path(other.queue)
                upward = above[: above.index(broken) + 1]
                left = [each.lasting[0] - _told_below(books, each, told) for each in upward]
                assert any(have <= each.deserved for have, each in zip(left, upward, strict=True)), victim.id


def _told_below(books: Books, tally: Tally, told: set[str]) -> int:
    gone = [workload for workload in books.snapshot.workloads if workload.id in told]
    return sum(held(workload)[0] for workload in gone if tally in books.path(workload.queue))


def only_what_cannot_go_is_above_a_limit(snapshot: Snapshot, policy: Policy) -> None:
    books = Books(snapshot, policy)
    for workload in snapshot.workloads:
        if workload.holds and workload.preemptible:
            for tally in books.path(workload.queue):
                for limit, lasting, has in zip(tally.limits, tally.lasting, held(workload), strict=True):
                    assert not has or limit is None or lasting <= limit, tally.queue.name
