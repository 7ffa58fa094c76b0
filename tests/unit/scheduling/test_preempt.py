"""Preemption: inside one queue, strictly lower priority gives way."""

from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, acts, evicted, running


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
