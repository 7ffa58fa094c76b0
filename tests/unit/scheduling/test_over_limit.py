"""A limit lowered under running work: what can be paused goes, newest first; what cannot stays."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.admit.start import try_nominate
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.evict.reprieve import reprieve_victims
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, a_notebook, apply, evicted, running, stopped


def test_the_newest_goes_until_the_limit_holds():
    cluster = Cluster().node("n", 3).queue("q", 0, limit=1)
    cluster.add(*[running(a_job(f"j{i}", "q"), f"n-{i}", since=i) for i in range(3)])
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == ["j2", "j1"]
    assert {i.reason for i in decision.instructions} == {EvictReason.QUOTA_LOWERED}
    assert decision.instructions[0].sentence.startswith("Paused: the limit of q was lowered to 1 GPU.")
    after = stopped(apply(cluster.snapshot(), decision))
    assert run_cycle(after, Policy(), NOW).instructions == ()


@pytest.mark.parametrize(("gpus", "fits"), [("1", True), ("2", False)])
def test_work_that_can_never_be_under_the_limit_is_promised_nothing(gpus, fits):
    cluster = Cluster().node("n", 3).queue("q", 0, limit=1)
    devices = [f"n-{number}" for number in range(1, 1 + int(gpus))]
    cluster.add(running(a_job("old", "q"), "n-0"), running(a_job("new", "q", gpus), *devices, since=9))
    (instruction,) = run_cycle(cluster.snapshot(), Policy(), NOW).instructions
    promise = "Continues by itself when there is room under it."
    assert instruction.sentence.endswith(promise if fits else "lowered to 1 GPU, less than it needs.")


def test_a_limit_above_is_obeyed_too_and_other_queues_are_left_alone():
    cluster = Cluster().node("n", 3).queue("d", 0, limit=1).queue("d/a", parent="d").queue("e")
    cluster.add(*[running(a_job(f"a{i}", "d/a"), f"n-{i}", since=i) for i in range(2)])
    cluster.add(running(a_job("e", "e"), "n-2", since=99))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["a1"]


def test_a_notebook_keeps_what_it_was_entitled_to():
    cluster = Cluster().node("n", 1, pool="build").fixed(ann="0.25")
    cluster.add(running(a_notebook("ann", "0.5"), "n-0"))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()


def test_a_lowered_quota_alone_evicts_nobody():
    cluster = Cluster().node("n", 1).queue("q", 0).add(running(a_job("j", "q"), "n-0"))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()


def test_what_a_team_borrows_goes_before_what_another_team_is_entitled_to():
    """The limit of the department was lowered to the sum of its teams' quotas."""
    cluster = Cluster().node("n", 3).queue("d", 2, limit=2).queue("d/a", 1, parent="d").queue("d/b", 1, parent="d")
    cluster.add(*(running(a_job(f"a{i}", "d/a"), f"n-{i}", since=i) for i in range(2)))
    cluster.add(running(a_job("b", "d/b"), "n-2", since=99))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["a1"]


def cores(job, count, memory=0):
    return replace(job, request=replace(job.request, cpu_milli=1000 * count, memory=MiB(memory)))


def with_room(cluster, cores=8):
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=1000 * cores, memory=MiB(100))
    return cluster


def test_a_lowered_limit_of_processors_is_obeyed_by_those_who_use_some():
    cluster = with_room(Cluster().node("n", 4).queue("q", 4, cpu_limit=2000))
    cluster.add(*[running(cores(a_job(f"j{i}", "q"), 1), f"n-{i}", since=i) for i in range(3)])
    cluster.add(running(a_job("none", "q"), "n-3", since=99))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == ["j2"]
    assert decision.instructions[0].sentence.startswith("Paused: the limit of q was lowered to 2 CPU cores.")
    after = stopped(apply(cluster.snapshot(), decision))
    assert run_cycle(after, Policy(), NOW).instructions == ()


def test_work_that_a_limit_further_up_does_not_admit_is_not_told_that_it_continues():
    """The limit of GPUs admits `wide`, and the limit of cores of the department does not."""
    cluster = with_room(Cluster().node("n", 2).queue("d", 2, cpu_limit=2000).queue("q", 1, limit=1, parent="d"))
    cluster.add(running(a_job("old", "q"), "n-0"), running(cores(a_job("wide", "q"), 3), "n-1", since=9))
    (instruction,) = run_cycle(cluster.snapshot(), Policy(), NOW).instructions
    assert instruction.workload == "wide"
    assert instruction.sentence == "Paused: the limit of q was lowered to 1 GPU."


def test_one_of_memory_too_and_what_cannot_be_paused_stays():
    cluster = with_room(Cluster().node("n", 4).queue("q", 4, memory_limit=MiB(10)))
    for name, preemptible, since in (("old", True, 0), ("fixed", False, 9)):
        job = cores(a_job(name, "q", preemptible=preemptible), 0, memory=20)
        cluster.add(running(job, f"n-{since // 9}", since=since))
    (instruction,) = run_cycle(cluster.snapshot(), Policy(), NOW).instructions
    assert instruction.workload == "old"
    assert instruction.sentence.startswith(
        "Paused: the limit of q was lowered to 10 MiB of memory, less than it needs."
    )


def test_of_processors_too_what_a_team_borrows_goes_before_what_another_is_entitled_to():
    cluster = Cluster().node("n", 4).queue("d", 4, cpu_limit=2000)
    cluster.queue("d/a", 2, parent="d", cpu_quota=1000).queue("d/b", 2, parent="d", cpu_quota=1000)
    cluster.add(*(running(cores(a_job(f"a{i}", "d/a"), 1), f"n-{i}", since=i) for i in range(2)))
    cluster.add(running(cores(a_job("b", "d/b"), 1), "n-2", since=99))
    assert evicted(run_cycle(with_room(cluster).snapshot(), Policy(), NOW)) == ["a1"]


def test_work_without_gpus_does_not_go_for_a_limit_of_them():
    cluster = Cluster().node("n", 2).queue("q", 2, limit=1)
    cluster.add(*[running(a_job(f"j{i}", "q", preemptible=False), f"n-{i}") for i in range(2)])
    cluster.add(replace(running(a_job("cpu", "q", 0)), placement=(TaskPlacement(node="n", devices=()),)))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == []


@pytest.mark.parametrize(("limit", "goes"), [(None, False), (2000, False), (1000, True)])
def test_nobody_stays_after_all_if_that_breaks_a_limit_of_processors(limit, goes):
    cluster = with_room(Cluster().node("n").node("m").queue("q", 4, cpu_limit=limit))
    cluster.nodes[1] = replace(cluster.nodes[1], labels={"zone": "b"})
    comes = cores(a_job("comes", "q"), 1)
    cluster.add(replace(comes, request=replace(comes.request, node_labels=(("zone", "b"),))))
    cluster.add(running(cores(a_job("there", "q"), 1), "n-0"))
    index = ClusterIndex(cluster.snapshot(), Policy())
    state = begin_cycle(index, NOW)
    there = index.workloads["there"]
    state.allocations.release(there)
    state.evictions.evict(there, EvictReason.RECLAIMED, None, "Paused.")
    assert try_nominate(state.allocations, state.allocations.pending["comes"])
    reprieve_victims(state.inputs, state.allocations, state.reservations, state.evictions)
    assert ("there" in state.evictions.evicted) is goes


def test_elastic_work_gives_up_as_many_tasks_as_the_limit_of_processors_asks():
    cluster = with_room(Cluster().node("n", 4).queue("q", 4, cpu_limit=2000))
    job = cores(a_job("j", "q", tasks=4, min_members=1, elastic=True), 1)
    cluster.add(running(job, "n-0", "n-1", "n-2", "n-3"))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    (shrink,) = decision.instructions
    assert len(shrink.placement) == 2
    assert shrink.sentence.startswith("Runs on with 2 of its 4 tasks: the limit of q was lowered to 2 CPU cores.")
