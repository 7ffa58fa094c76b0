"""Launch capacity: all admissions are decided, the first ones are carried out, the others wait and read why."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, admitted, running, why


def cluster(*workloads: Workload, devices: int = 4, capacity: int | None = None) -> Snapshot:
    made = Cluster().node("n", devices).queue("vision", 2).queue("nlp", 2).fixed("train", ann="1")
    bound = {} if capacity is None else {Kind.TRAINING: capacity}
    return replace(made.add(*workloads).snapshot(), launch_capacity=bound)


def decide(*workloads: Workload, devices: int = 4, capacity: int | None = None) -> Decision:
    return run_cycle(cluster(*workloads, devices=devices, capacity=capacity), Policy(), NOW)


def jobs(count: int, **fields) -> list[Workload]:
    return [a_job(f"j{number}", "vision", submitted=number, **fields) for number in range(count)]


def deferred(decision: Decision) -> list[str]:
    return [admission.workload for admission in decision.deferred]


@pytest.mark.parametrize("capacity", [0, 1, 2, 3, 4, 9])
def test_the_first_in_the_order_of_admission_start_with_the_places_that_all_of_them_would_have(capacity):
    everything, bound = decide(*jobs(6)), decide(*jobs(6), capacity=capacity)
    assert bound.instructions == everything.instructions[:capacity]
    assert bound.deferred == everything.instructions[capacity:]


def test_without_a_bound_nothing_is_deferred():
    assert decide(*jobs(6)).deferred == ()


def test_a_deferred_workload_has_its_place_in_its_queue_and_reads_that_it_starts_soon():
    decision = decide(*jobs(6), capacity=1)
    assert deferred(decision) == ["j1", "j2", "j3"]
    assert {entry.workload: entry.position for entry in decision.pending} == {f"j{n}": n for n in range(1, 6)}
    reasons = {entry.workload: entry.why.reason for entry in decision.pending}
    assert [reasons[f"j{n}"] for n in (1, 2, 3)] == [PendingReason.STARTS_SOON] * 3
    assert PendingReason.STARTS_SOON not in {reasons["j4"], reasons["j5"]}


def test_a_workload_that_passed_a_gang_stands_behind_it_while_it_is_deferred():
    gang, small = a_job("gang", "vision", tasks=3, submitted=1), a_job("small", "vision", submitted=2)
    decision = decide(running(a_job("other", "nlp"), "n-0"), gang, small, devices=2, capacity=0)
    assert deferred(decision) == ["small"]
    assert (why(decision, "gang").position, why(decision, "small").position) == (1, 2)


def test_who_waits_reads_of_deferred_workloads_what_it_would_read_if_they_had_started():
    everything, bound = decide(*jobs(6)), decide(*jobs(6), capacity=0)
    assert why(bound, "j5").why == why(everything, "j5").why


def test_each_task_of_a_gang_counts_and_the_last_one_may_exceed_what_is_left():
    gang, small = a_job("gang", "vision", tasks=3, submitted=0), a_job("small", "vision", submitted=1)
    assert admitted(decide(gang, small, capacity=1)) == ["gang"]
    assert deferred(decide(gang, small, capacity=1)) == ["small"]
    assert admitted(decide(gang, small, capacity=4)) == ["gang", "small"]


def test_nothing_small_passes_a_gang_that_has_to_wait():
    first, gang = a_job("first", "vision", submitted=0), a_job("gang", "vision", tasks=2, submitted=1)
    small = a_job("small", "vision", submitted=2)
    assert deferred(decide(first, gang, small, capacity=1)) == ["gang", "small"]


def test_kinds_without_a_bound_wait_for_nobody():
    decision = decide(*jobs(2), a_notebook("ann", 1), capacity=0)
    assert (admitted(decision), deferred(decision)) == (["nb-ann"], ["j0", "j1"])


def test_work_without_devices_counts_as_one_task():
    assert deferred(decide(*jobs(3, gpus=0), capacity=2)) == ["j2"]


def test_a_scheduler_that_remembers_sees_the_capacity_change():
    kept = Scheduler(cluster(*jobs(6)), Policy())
    for capacity in (2, None, 5, 0):
        snapshot = cluster(*jobs(6), capacity=capacity)
        kept.follow(snapshot, Policy())
        decision = kept.decide(NOW)
        assert decision == run_cycle(snapshot, Policy(), NOW)
        silent = kept.decide(NOW, explain=False)
        assert (silent.instructions, silent.deferred) == (decision.instructions, decision.deferred)
    kept.set(queues=cluster().queues[:1])
    assert len(kept.decide(NOW).deferred) == 4, "another configuration keeps the capacity"
