"""Laws of the cycles that follow a decision, when nothing happens but what was decided.

Safety: what never happens. Liveness: what happens in the end.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict, Shrink
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, admitted, apply, stopped


def nothing_is_evicted_twice_nor_for_what_was_evicted(snapshot: Snapshot, policy: Policy) -> None:
    """Liveness. With a fixed set of work no exchange of evictions goes on, and none leads to another one.

    Work may move for what was evicted, and what was evicted may grow within its fair share once it runs again, also in
    the decision that starts it. See docs/decisions/0292-let-evicted-work-move-others-and-grow.md.
    """
    gone = set[str]()
    for _ in range(40):
        decision = run_cycle(snapshot, policy, NOW)
        told = [each for each in decision.instructions if isinstance(each, Evict | Shrink)]
        taken = _taken_for_what_waits(snapshot, decision)
        for each in taken:
            assert each.by not in gone, f"{each.by} was evicted, and then {each.workload} for it"
        for each in told:
            assert isinstance(each, Shrink) or each.workload not in gone, f"{each.workload} was stopped twice"
        gone |= {each.workload for each in told if isinstance(each, Evict)}
        assert not gone & {each.by for each in taken}, f"evicted for what was evicted: {taken}"
        if not decision.instructions:
            return
        snapshot = stopped(apply(snapshot, decision))
    raise AssertionError("the cluster does not come to rest")


def _taken_for_what_waits(snapshot: Snapshot, decision: Decision) -> list[Evict | Shrink]:
    """What is taken for work without which that work would go on waiting, and not for its growth, and without moves."""
    pending = {workload.id for workload in snapshot.workloads if workload.state is State.PENDING}
    waiting = pending.difference(admitted(decision))
    told = (each for each in decision.instructions if isinstance(each, Evict | Shrink))
    return [each for each in told if each.reason is not EvictReason.CONSOLIDATED and each.by in waiting]
