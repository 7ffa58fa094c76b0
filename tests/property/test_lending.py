"""Notebooks that have lent their shares, whatever happens to devices, nodes and borrowers: they come back.

Safety: what never happens. Liveness: what happens in the end.
"""

from hypothesis import given

from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, anything_stops, half_stopped, stopped
from tests.property import endings, laws, loans
from tests.property.histories import check, random_worlds
from tests.property.lending import happens, lendings


@random_worlds
@given(lendings())
def test_whatever_happens_a_notebook_gets_back_what_it_has_lent(world):
    """All laws of each cycle and of each rest; a scheduler that remembers decides what a new one does.

    In the end all notebooks are used at once.
    """
    snapshot, scheduler, before = world.snapshot, Scheduler(world.snapshot, world.policy), None
    for act, what, pace in world.history:
        snapshot = happens(world.site, snapshot, act, what)
        if pace == "rest":
            snapshot = _come_to_rest(scheduler, snapshot, world.policy)
        elif pace != "nothing":
            decision, snapshot = _cycle(scheduler, snapshot, world.policy)
            loans.a_place_gets_worse_only_if_an_older_notebook_is_wanted_as_well(before, decision)
            before = decision
            snapshot = half_stopped(snapshot) if pace == "half" else snapshot
    snapshot = _come_to_rest(scheduler, snapshot, world.policy)
    decision = run_cycle(snapshot, world.policy, NOW)
    endings.those_named_as_in_the_way_really_are(snapshot, world.policy, decision)
    notebooks = [w for w in snapshot.workloads if w.kind is Kind.NOTEBOOK and w.holds]
    for number in range(len(notebooks)):
        snapshot = happens(world.site, snapshot, "use", number)
    _come_to_rest(scheduler, snapshot, world.policy)


def _cycle(scheduler: Scheduler, snapshot: Snapshot, policy: Policy) -> tuple[Decision, Snapshot]:
    """One cycle with all laws, and the cluster after it."""
    decision, after = check(snapshot, policy)
    scheduler.follow(snapshot, policy)
    assert scheduler.decide(NOW) == decision
    loans.loans_are_lawful(snapshot, after, decision)
    return decision, after


def _come_to_rest(scheduler: Scheduler, snapshot: Snapshot, policy: Policy, rounds: int = 30) -> Snapshot:
    """Cycles until nothing happens any more, whatever is told to stop stopping in between."""
    for _ in range(rounds):
        decision, snapshot = _cycle(scheduler, snapshot, policy)
        if not decision.instructions and not anything_stops(snapshot):
            loans.nobody_waits_beside_free_room(snapshot, policy)
            loans.suspended_notebooks_named_as_in_the_way_really_are(snapshot, policy, decision)
            laws.nobody_entitled_waits(snapshot, policy)
            return snapshot
        snapshot = stopped(snapshot)
    raise AssertionError("the cluster does not come to rest")
