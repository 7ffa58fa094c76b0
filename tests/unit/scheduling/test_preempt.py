"""Preemption: inside one queue, strictly lower priority gives way."""

from dataclasses import replace

from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_node, acts, evicted, running, why


def cycle(*workloads, devices=1, **queue):
    cluster = Cluster().node("n", devices).queue("q", 1, **queue).queue("other", 1)
    return run_cycle(cluster.add(*workloads).snapshot(), Policy(), NOW)


def test_a_higher_priority_takes_the_place_of_a_lower_one():
    decision = cycle(running(a_job("low", "q"), "n-0"), a_job("high", "q", priority=10, owner="bob"))
    (instruction,) = acts(decision)
    assert (instruction.workload, instruction.reason, instruction.by) == ("low", EvictReason.PREEMPTED, "high")
    assert reveal(instruction.sentence) == (
        "Paused: bob's high (1 GPU) in the same queue has the higher priority (10 over 0). "
        "Continues by itself when a GPU is free."
    )


def test_the_same_priority_waits():
    assert cycle(running(a_job("one", "q", priority=5), "n-0"), a_job("two", "q", priority=5)).instructions == ()


def test_another_queue_is_not_preempted():
    assert cycle(running(a_job("low", "other"), "n-0"), a_job("high", "q", priority=10)).instructions == ()


def test_what_cannot_be_paused_stays():
    assert (
        cycle(running(a_job("low", "q", preemptible=False), "n-0"), a_job("high", "q", priority=1)).instructions == ()
    )


def test_the_lowest_priority_goes_first_however_old_it_is():
    decision = cycle(
        running(a_job("lowest", "q", "0.5", priority=0), "n-0", since=0),
        running(a_job("low", "q", "0.5", priority=1), "n-0", since=9),
        a_job("high", "q", "0.5", priority=2),
    )
    assert evicted(decision) == ["lowest"]


def test_preemption_brings_no_queue_above_its_fair_share():
    """Others would take that back, and the preempted one would start again: for ever."""
    decision = cycle(
        running(a_job("low", "q", 1), "n-0"),
        running(a_job("fixed", "other", 1, preemptible=False), "n-1"),
        a_job("high", "q", 2, priority=1),
        devices=3,
        over_quota_weight=0,
    )
    assert evicted(decision) == []


def test_work_without_a_gpu_does_not_take_the_room_for_which_other_queues_give_way():
    """Neither may it take that room itself, nor would the sentence be true that names the job with GPUs."""
    cluster = Cluster().queue("taker", 2).queue("fixed", 2, over_quota_weight=0).queue("giver")
    cluster.nodes += [replace(a_node("m", 2), cpu_milli=2000), replace(a_node("n", 2), cpu_milli=2000)]
    cluster.nodes += [replace(a_node("o", 2), cpu_milli=0)]
    one_core = Request(devices=1, cpu_milli=1000)
    for number in range(2):
        stays = a_job(f"stays{number}", "fixed", preemptible=False)
        cluster.add(running(replace(stays, request=one_core), f"m-{number}"))
        cluster.add(running(replace(a_job(f"gives{number}", "giver"), request=one_core), f"n-{number}"))
    wide = replace(a_job("wide", "taker"), request=Request(devices=2, cpu_milli=1000))
    cluster.add(wide, replace(a_job("cores", "taker", priority=1), request=Request(devices=0, cpu_milli=2000)))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert sorted(evicted(decision)) == ["gives0", "gives1"]
    assert {each.by for each in acts(decision)} == {"wide"}
    assert why(decision, "wide").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert why(decision, "cores").why.reason is not PendingReason.WAITS_FOR_EVICTION
