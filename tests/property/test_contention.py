"""The guarantees of the queues in full clusters, where all that arrives must be taken from somebody.

Safety: what never happens. Liveness: what happens in the end.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from tests.builders import NOW
from tests.property import laws
from tests.property.cascades import (
    nothing_is_evicted_twice_nor_for_what_was_evicted,
    room_that_was_made_goes_to_its_preemptor,
)
from tests.property.contention import Contention, contentions, leaves_of
from tests.property.histories import random_worlds, settle


def arrived(world: Contention) -> Snapshot:
    """All that arrives waits."""
    return replace(world.snapshot, workloads=(*world.snapshot.workloads, *world.arrivals))


@random_worlds
@given(contentions())
def test_liveness_nobody_entitled_waits_in_a_full_cluster(world):
    laws.nobody_entitled_waits(settle(arrived(world), world.policy), world.policy)


@random_worlds
@given(contentions(cores=True))
def test_liveness_nobody_entitled_waits_where_cores_are_scarce_too(world):
    laws.nobody_entitled_waits(settle(arrived(world), world.policy), world.policy)


@random_worlds
@given(contentions())
def test_liveness_nothing_is_evicted_twice_nor_for_what_was_evicted(world):
    nothing_is_evicted_twice_nor_for_what_was_evicted(arrived(world), world.policy)


@random_worlds
@given(contentions(), st.integers(0, 2))
def test_liveness_room_that_was_made_goes_to_its_preemptor_whoever_comes(world, which):
    room_that_was_made_goes_to_its_preemptor(arrived(world), world.policy, which)


@random_worlds
@given(contentions(cores=True), st.integers(0, 3), st.integers(1, 3))
def test_safety_priorities_count_inside_a_queue_only(world, which, more):
    """All work of one queue gets a higher priority: the decision is the same."""
    leaves = leaves_of(world.snapshot.queues)
    queue = leaves[which % len(leaves)].name
    raised = tuple(
        replace(workload, priority=workload.priority + more) if workload.queue == queue else workload
        for workload in arrived(world).workloads
    )
    before = run_cycle(arrived(world), world.policy, NOW)
    assert _acts(run_cycle(replace(world.snapshot, workloads=raised), world.policy, NOW)) == _acts(before)


def _acts(decision: Decision) -> set[tuple[object, ...]]:
    """What a decision does, without its order and its sentences."""
    return {
        (type(each), each.workload, getattr(each, "placement", None), getattr(each, "by", None))
        for each in decision.instructions
    }
