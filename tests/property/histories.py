"""Histories of random clusters: what happens in them, and one cycle after the other until they come to rest."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings

from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import decide
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, anything_stops, apply, later, lost, stopped, without
from tests.property import balance, laws
from tests.property.arithmetic import Books
from tests.property.clusters import World

#: `make soak-worlds` plays more worlds of each kind; a number is the same worlds again.
WORLDS = int(os.environ.get("JUPYTER_GQ_WORLDS", "60"))
#: Makes other worlds, which differ from test to test.
SEED = os.environ.get("JUPYTER_GQ_WORLDS_SEED")

Test = TypeVar("Test", bound=Callable[..., None])

#: Worlds are small enough to read; shrinking one takes longer than understanding it.
_SETTINGS = settings(
    max_examples=WORLDS,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def random_worlds(test: Test) -> Test:
    """Play `WORLDS` random worlds in a test."""
    test = _SETTINGS(test)
    return test if SEED is None else seed(f"{SEED} {test.__module__} {test.__name__}")(test)


def check(snapshot: Snapshot, policy: Policy) -> tuple[Decision, Snapshot]:
    """One cycle, every safety law, and the cluster that comes out of it."""
    state, books = begin_cycle(ClusterIndex(snapshot, policy), NOW), Books(snapshot, policy)
    laws.accounts_are_the_sum_of_allocations(state, books)
    decision = decide(state)
    balance.accounts_follow_what_was_decided(state, policy)
    after, left = snapshot, books
    if decision.instructions:
        after = apply(snapshot, decision)
        left = Books(after, policy)
        laws.accounts_are_the_sum_of_allocations(begin_cycle(ClusterIndex(after, policy), NOW), left)
    laws.everyone_who_waits_is_explained_once(snapshot, decision)
    laws.evictions_are_lawful(snapshot, decision, policy)
    laws.who_moves_has_a_new_place(snapshot, after, decision, policy)
    laws.what_is_held_goes_to_nobody_else(snapshot, decision)
    laws.preemptors_have_recorded_places(snapshot, after, decision)
    laws.work_without_a_gpu_takes_its_turn(books, left, decision)
    laws.devices_hold_at_most_one_gpu(after)
    laws.tasks_lie_on_distinct_devices_of_one_node(after)
    laws.gangs_are_whole_or_absent(after)
    laws.nodes_keep_their_room(after)
    laws.tasks_go_where_they_may(after)
    laws.no_gang_is_stale_for_too_long(after, policy)
    laws.growth_takes_nothing_above_its_fair_share(books, left, decision)
    laws.queues_above_their_share_give_first(snapshot, decision, policy)
    laws.queues_obey_limit_and_quota(left)
    return decision, after


def settle(snapshot: Snapshot, policy: Policy, rounds: int = 40) -> Snapshot:
    """Cycles until nothing happens any more, whatever is told to stop stopping in between."""
    for _ in range(rounds):
        decision, snapshot = check(snapshot, policy)
        if not decision.instructions and not anything_stops(snapshot):
            return snapshot
        snapshot = stopped(snapshot)
    raise AssertionError("the cluster does not come to rest")


def happens(snapshot: Snapshot, act: str, what: Any) -> Snapshot:
    """A second passes, and then the next thing of a history."""
    return takes_place(later(snapshot, 1), act, what)


def takes_place(snapshot: Snapshot, act: str, what: Any) -> Snapshot:
    """That thing of a history, at this moment."""
    if act == "submit":
        return replace(snapshot, workloads=(*snapshot.workloads, what))
    if act == "wait":
        return later(snapshot, what)
    if act == "lose":
        return lost(snapshot, what)
    running = [w.id for w in snapshot.workloads if w.state is State.RUNNING]
    return without(snapshot, *running[what : what + 1])


def play(world: World, at_rest: Callable[[Snapshot, Policy], None] | None = None) -> Snapshot:
    """The cluster at the end; `at_rest` is asked each time that it has come to rest."""
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = settle(happens(snapshot, act, what), world.policy)
        if at_rest is not None:
            at_rest(snapshot, world.policy)
    return snapshot


def told(scheduler: Scheduler, before: Snapshot, after: Snapshot) -> None:
    """Tell it what changed, and nothing else."""
    known = {workload.id: workload for workload in before.workloads}
    for workload in after.workloads:
        if known.pop(workload.id, None) != workload:
            scheduler.put(workload)
    for name in known:
        scheduler.remove(name)
