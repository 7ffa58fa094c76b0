"""Laws of the cycles that follow a decision: what was decided is not undone soon.

Safety: what never happens. Liveness: what happens in the end.
"""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict, Shrink
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, a_job, admitted, apply, half_stopped, stopped
from tests.property.arithmetic import Books
from tests.property.histories import check
from tests.property.victims import is_guaranteed, victims_for


def nothing_is_evicted_twice_nor_for_what_was_evicted(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """Liveness. With a fixed set of work no exchange of evictions goes on, and none leads to another one.

    Returns the cluster once it has come to rest. Work may move for what was evicted, and what was evicted may grow
    within its fair share once it runs again, also in the decision that starts it. A gang that stops because it has lost
    a task stops for nobody: it may evict whatever work that waits may evict.
    See docs/decisions/0292-let-evicted-work-move-others-and-grow.md.
    """
    gone, lost = set[str](), set[str]()
    for _ in range(40):
        decision = run_cycle(snapshot, policy, NOW)
        told = [each for each in decision.instructions if isinstance(each, Evict | Shrink)]
        taken = _taken_for_what_waits(snapshot, decision)
        for each in taken:
            assert each.by not in gone - lost, f"{each.by} was evicted, and then {each.workload} for it"
        for each in told:
            assert isinstance(each, Shrink) or each.workload not in gone, f"{each.workload} was stopped twice"
        gone |= {each.workload for each in told if isinstance(each, Evict)}
        lost |= {each.workload for each in told if each.reason is EvictReason.STALE_GANG}
        assert not (gone - lost) & {each.by for each in taken}, f"evicted for what was evicted: {taken}"
        if not decision.instructions:
            return snapshot
        snapshot = stopped(apply(snapshot, decision))
    raise AssertionError("the cluster does not come to rest")


def _taken_for_what_waits(snapshot: Snapshot, decision: Decision) -> list[Evict | Shrink]:
    """What is taken for work without which that work would go on waiting, and not for its growth, and without moves."""
    pending = {workload.id for workload in snapshot.workloads if workload.state is State.PENDING}
    waiting = pending.difference(admitted(decision))
    told = (each for each in decision.instructions if isinstance(each, Evict | Shrink))
    return [each for each in told if each.reason is not EvictReason.CONSOLIDATED and each.by in waiting]


def room_that_was_made_goes_to_its_preemptor(snapshot: Snapshot, policy: Policy, which: int) -> None:
    """Liveness. Older work of its queue arrives, and elastic work would grow, before and after victims have stopped.

    Guaranteed work of another queue may have the room instead, if it had no right to it before the decision that made
    the room. See docs/decisions/0302-let-a-right-that-a-decision-gives-hold-against-its-nominees.md.
    """
    after = apply(snapshot, run_cycle(snapshot, policy, NOW))
    kept = [workload for workload in after.workloads if workload.nominated]
    if not kept:
        return
    preemptor = kept[which % len(kept)]
    rival = a_job("rival", preemptor.queue, priority=preemptor.priority, owner=preemptor.owner)
    rival = replace(rival, submitted_at=Instant(NOW - 900))
    half = half_stopped(after)
    _, partly = check(replace(half, workloads=(*half.workloads, rival)), policy)
    left = apply(stopped(partly), run_cycle(stopped(partly), policy, NOW))
    if not any(workload.id == preemptor.id and workload.state is State.RUNNING for workload in left.workloads):
        taken = [w for w in left.workloads if w.queue != preemptor.queue and _is_at(w, preemptor.reserved)]
        waiting = [w for w in snapshot.workloads if w.state is State.PENDING and w.id in {each.id for each in taken}]
        books = Books(snapshot, policy)
        by_right = [w for w in waiting if is_guaranteed(books, w) and victims_for(snapshot, books, w) is None]
        assert by_right, f"{preemptor.id} lost the room that was made for it"


def _is_at(workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
    """Whether the workload has, or is to get, a device of the place."""
    devices = {device for task in place for device in task.devices}
    return any(devices & {*task.devices} for task in (*workload.placement, *workload.reserved))
