"""The laws of what notebooks lend, as functions that raise when one does not hold.

As in `tests.property.laws`, they judge by plain sums over a snapshot, never by functions of the core that is judged.

Safety: what never happens. Liveness: what happens in the end.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import (
    Admit,
    Decision,
    Evict,
    Grow,
    KeptOut,
    Reserve,
    Resume,
    Returning,
    Shrink,
    Suspend,
)
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, admitted, without
from tests.property.arithmetic import Books
from tests.property.free import GPU
from tests.property.victims import fits_soon


def loans_are_lawful(snapshot: Snapshot, after: Snapshot, decision: Decision) -> None:
    """All laws of one cycle: the snapshot before it, the one after it, and what it decided."""
    what_starts_is_at_working_devices_of_its_pool(snapshot, decision)
    only_idle_notebooks_are_suspended_and_for_borrowers(snapshot, decision)
    nothing_is_taken_before_a_time_that_was_named(snapshot, decision)
    notebooks_come_back_where_they_were(snapshot, decision)
    everything_lent_can_be_given_back(after)
    a_used_notebook_comes_back_now_or_as_soon_as_borrowers_have_stopped(snapshot, after, decision)
    no_borrower_leaves_needlessly(snapshot, after, decision)
    every_cell_that_waits_has_an_honest_plan(snapshot, decision)


def what_starts_is_at_working_devices_of_its_pool(snapshot: Snapshot, decision: Decision) -> None:
    """Safety. A device that is drained, lost or in another pool, and a node that is closed, take nothing new."""
    devices, nodes = _devices(snapshot), {node.name: node for node in snapshot.nodes}
    by_id = {workload.id: workload for workload in snapshot.workloads}
    pools = {queue.name: queue.pool for queue in snapshot.queues}
    for each in decision.instructions:
        if isinstance(each, Admit | Grow) or (isinstance(each, Reserve) and each.nominated):
            for task in each.placement:
                assert not nodes[task.node].closed, f"{each.workload} starts on {task.node}, which is closed"
                for device in map(devices.__getitem__, task.devices):
                    assert device.healthy, f"{each.workload} starts on {device.id}, which takes nothing new"
                    assert device.pool == pools[by_id[each.workload].queue], each.workload


def only_idle_notebooks_are_suspended_and_for_borrowers(snapshot: Snapshot, decision: Decision) -> None:
    """Safety. What is suspended for work is suspended for work that can give the devices back."""
    by_id = {workload.id: workload for workload in snapshot.workloads}
    for each in decision.instructions:
        if isinstance(each, Suspend):
            notebook = by_id[each.workload]
            assert notebook.state is State.RUNNING
            assert notebook.suspendable
            assert notebook.activity is not None
            assert notebook.activity.busy is False
            assert each.by is None or can_give_back(by_id[each.by])


def nothing_is_taken_before_a_time_that_was_named(snapshot: Snapshot, decision: Decision) -> None:
    """Safety. Neither a warning, nor one that was withdrawn, nor "Keep it" named a later time than now."""
    by_id = {workload.id: workload for workload in snapshot.workloads}
    for each in decision.instructions:
        notebook = by_id[each.workload]
        if isinstance(each, Suspend) or (isinstance(each, Evict) and each.reason is EvictReason.IDLE):
            activity = notebook.activity
            assert activity is not None
            for named in (activity.expire_at, activity.promised_until, activity.kept_until):
                assert named is None or named <= NOW, f"{notebook.id} was told {named}, and it is {NOW}"


def notebooks_come_back_where_they_were(snapshot: Snapshot, decision: Decision) -> None:
    """Safety. And only if they are used again; a suspended notebook is told to stop for nobody."""
    by_id = {workload.id: workload for workload in snapshot.workloads}
    devices = _devices(snapshot)
    for each in decision.instructions:
        notebook = by_id[each.workload]
        if isinstance(each, Resume):
            assert is_wanted_back(notebook)
            assert each.placement == notebook.placement
            assert all(_works(devices[device]) for device in _devices_of([notebook]))
        else:
            assert notebook.state is not State.SUSPENDED, each


def everything_lent_can_be_given_back(after: Snapshot) -> None:
    """Safety. What cannot give way leaves room on each device, and on each node, for what is suspended there."""
    held = _held_by(w for w in after.workloads if w.holds and not can_give_back(w))
    assert all(milli <= GPU for milli in held.values()), held


def a_used_notebook_comes_back_now_or_as_soon_as_borrowers_have_stopped(
    snapshot: Snapshot, after: Snapshot, decision: Decision
) -> None:
    """Liveness. A cycle brings the notebook back, or else tells enough borrowers to stop.

    Of two notebooks that cannot both come back at once, one does.
    """
    resumed = {each.workload for each in decision.instructions if isinstance(each, Resume)}
    now = _held_by([*_awake(snapshot), *(w for w in snapshot.workloads if w.id in resumed)])
    staying = (w for w in _awake(after) if w.state is not State.STOPPING)
    soon = _held_by(replace(w, leaving=()) for w in staying)
    devices = _devices(snapshot)
    for notebook in filter(is_wanted_back, snapshot.workloads):
        if not all(_works(devices[device]) for device in _devices_of([notebook])) or notebook.id in resumed:
            continue
        assert not _fits_beside(notebook, now), f"{notebook.id} could come back at once"
        assert _fits_beside(notebook, soon), f"{notebook.id} does not come back when all has stopped"


def no_borrower_leaves_needlessly(snapshot: Snapshot, after: Snapshot, decision: Decision) -> None:
    """Safety. Borrowers that stop for a notebook leave it too little room if any one of them stays.

    Work that stops for another reason may need longer than the notebook was promised, so it counts as if it stayed.
    """
    by_id = {workload.id: workload for workload in snapshot.workloads}
    lenders = {workload.id for workload in snapshot.workloads if workload.state is State.SUSPENDED}
    lasting = [w for w in after.workloads if w.holds and w.state is not State.SUSPENDED and not _stops_for(w, lenders)]
    back = [w for w in snapshot.workloads if is_wanted_back(w) and w.id not in {each.id for each in lasting}]
    for each in decision.instructions:
        by = by_id.get(getattr(each, "by", None) or "")
        if not isinstance(each, Evict | Shrink) or by is None or by.state is not State.SUSPENDED:
            continue
        victim = by_id[each.workload]
        assert is_wanted_back(by), f"{victim.id} goes for {by.id}, which is not used"
        assert can_give_back(victim)
        assert _devices_of([victim]) & _devices_of([by]), f"{victim.id} does not borrow from {by.id}"
        promised = [(w, w.reserved) for w in after.workloads if w.nominated or w.state is State.STOPPING]
        held = _held_by([*lasting, *back, victim])
        for workload, place in promised:
            held += _held_at(workload, place)
        assert any(held[device] > GPU for device in _devices_of([victim])), f"{victim.id} goes for nothing"


def every_cell_that_waits_has_an_honest_plan(snapshot: Snapshot, decision: Decision) -> None:
    """Safety. A wanted notebook comes back now, or is told how many notebooks are before it and which work leaves.

    Before it are the older ones in which cells wait for one of its devices, unless something else is in their way. The
    work that leaves holds one of its devices, and was told to stop. A notebook that does not come reads why. The plan
    of one that comes is complete: it names all work on its devices that was told to stop for a notebook.
    """
    by_id = {workload.id: workload for workload in snapshot.workloads}
    resumed = {each.workload for each in decision.instructions if isinstance(each, Resume)}
    told = {each.workload for each in decision.instructions if isinstance(each, Evict | Shrink)}
    wanted = {workload.id for workload in snapshot.workloads if is_wanted_back(workload)}
    plans = {each.workload: each for each in decision.returning}
    assert len(plans) == len(decision.returning)
    assert plans.keys() == wanted - resumed
    coming = {name for name, plan in plans.items() if plan.is_coming}
    for name, plan in plans.items():
        notebook = by_id[name]
        devices = _devices_of([notebook])
        older = {
            each
            for each in coming | resumed
            if (by_id[each].submitted_at, each) < (notebook.submitted_at, name)
            and not devices.isdisjoint(_devices_of([by_id[each]]))
        }
        if plan.is_coming:
            assert plan.ahead == len(older - resumed), f"{plan} although {older} are older"
            _the_plan_names_all_that_leave(snapshot, decision, plan)
        else:
            what_keeps_a_notebook_out_really_does(snapshot, notebook, plan, [by_id[each] for each in older])
        for leaving in plan.leaving:
            work = by_id[leaving]
            assert leaving in told or work.stop is not None or work.leaving, f"{leaving} was not told to leave"
            assert not devices.isdisjoint(_held_by([work])), f"{leaving} holds nothing of {name}"


def what_keeps_a_notebook_out_really_does(
    snapshot: Snapshot, notebook: Workload, plan: Returning, older: Sequence[Workload]
) -> None:
    """Safety. The reason is true: the devices are gone, or what is named leaves the notebook too little of them.

    `older` are the notebooks that come back to its devices before it.
    """
    known, devices = _devices(snapshot), _devices_of([notebook])
    firm = [w for w in _awake(snapshot) if w.state is not State.STOPPING and not can_give_back(w)]
    match plan.kept_out:
        case KeptOut.UNOBSERVED:
            assert snapshot.unobserved
        case KeptOut.MISSING:
            assert not devices <= known.keys()
        case KeptOut.UNUSABLE:
            assert not all(_works(known[device]) for device in devices)
        case KeptOut.WORK:
            assert 0 < plan.blockers <= len(firm)
            assert not _fits_beside(notebook, _held_by(firm))
        case KeptOut.OLDER:
            assert plan.ahead == len(older) > 0
            assert not _fits_beside(notebook, _held_by([*firm, *older]))
        case _:
            assert not _fits_beside(notebook, _held_by([*firm, *older])), f"{plan} although there is room"


def _the_plan_names_all_that_leave(snapshot: Snapshot, decision: Decision, plan: Returning) -> None:
    by_id = {workload.id: workload for workload in snapshot.workloads}
    lenders = {workload.id for workload in snapshot.workloads if workload.state is State.SUSPENDED}
    own = _devices_of([by_id[plan.workload]])
    told = {e.workload for e in decision.instructions if isinstance(e, Evict | Shrink) and e.by in lenders}
    told |= {workload.id for workload in snapshot.workloads if _stops_for(workload, lenders)}
    leaving = {name for name in told if not own.isdisjoint(_held_by([by_id[name]]))}
    assert leaving <= set(plan.leaving), f"{leaving} leave for {plan.workload}, and {plan.leaving} are named"


def a_place_gets_worse_only_if_an_older_notebook_is_wanted_as_well(before: Decision | None, decision: Decision) -> None:
    """Safety. Whoever comes before a cell that waits already did so before, or begins to be wanted now."""
    if before is None:
        return
    known = {each.workload: each for each in before.returning if each.is_coming}
    newcomers = {each.workload for each in decision.returning if each.is_coming} - known.keys()
    for plan in decision.returning:
        if plan.workload in known and plan.is_coming:
            assert plan.ahead <= known[plan.workload].ahead + len(newcomers - {plan.workload})


def _stops_for(workload: Workload, notebooks: Container[str]) -> bool:
    """Whether the workload was told to stop for one of the notebooks."""
    return workload.state is State.STOPPING and workload.stop is not None and workload.stop.by in notebooks


def nobody_waits_beside_free_room(snapshot: Snapshot, policy: Policy) -> None:
    """Liveness, in a cluster at rest. No device, core or memory is counted twice: what fits and may start, starts."""
    if any(workload.reserved for workload in snapshot.workloads):
        return
    books = Books(snapshot, policy)
    for workload in snapshot.workloads:
        if workload.state is State.PENDING and not books.is_forbidden(workload):
            assert not fits_soon(snapshot, books, workload), f"{workload.id} fits and waits"


def suspended_notebooks_named_as_in_the_way_really_are(snapshot: Snapshot, policy: Policy, decision: Decision) -> None:
    """Safety. Nobody who may borrow from a notebook waits for it, except for the cores and memory that it keeps.

    Nobody is told of one beside which they would start, if the others named were gone and nobody else waited.
    """
    by_id = {workload.id: workload for workload in snapshot.workloads}
    waiting = {entry.workload for entry in decision.pending}
    counts_host = any((node.cpu_milli, node.memory) != (None, None) for node in snapshot.nodes)
    for entry in decision.pending:
        named = [by_id[name] for name in entry.why.blockers if by_id[name].state is State.SUSPENDED]
        if named:
            borrows = can_give_back(by_id[entry.workload]) and not any(map(is_wanted_back, named))
            assert counts_host or not borrows, entry
            others = {*entry.why.blockers, *waiting} - {entry.workload, *(each.id for each in named)}
            assert entry.workload not in admitted(run_cycle(without(snapshot, *others), policy, NOW)), entry


def is_wanted_back(workload: Workload) -> bool:
    """Whether a suspended notebook is used again."""
    return workload.state is State.SUSPENDED and workload.activity is not None and workload.activity.busy is True


def can_give_back(workload: Workload) -> bool:
    """Whether work may borrow the devices of a suspended notebook."""
    return workload.preemptible and workload.kind is Kind.TRAINING


def _works(device: Device) -> bool:
    return device.healthy or device.withheld


def _awake(snapshot: Snapshot) -> list[Workload]:
    return [workload for workload in snapshot.workloads if workload.holds and workload.state is not State.SUSPENDED]


def _fits_beside(notebook: Workload, held: Counter[str]) -> bool:
    milli = notebook.request.milli_per_device
    return all(held[device] + milli <= GPU for device in _devices_of([notebook]))


def _devices(snapshot: Snapshot) -> dict[str, Device]:
    return {device.id: device for node in snapshot.nodes for device in node.devices}


def _devices_of(workloads: Iterable[Workload]) -> set[str]:
    return {device for workload in workloads for task in workload.placement for device in task.devices}


def _held_by(workloads: Iterable[Workload]) -> Counter[str]:
    """Milli-GPU that these workloads hold of each device, with the tasks that are leaving unless the workload stops."""
    held: Counter[str] = Counter()
    for workload in workloads:
        held += _held_at(workload, workload.held_places)
    return held


def _held_at(workload: Workload, place: Iterable[TaskPlacement]) -> Counter[str]:
    held: Counter[str] = Counter()
    for task in place:
        for device in task.devices:
            held[device] += workload.request_of(task.group).milli_per_device
    return held
