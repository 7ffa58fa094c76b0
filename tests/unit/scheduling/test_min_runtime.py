"""Least run times: which one protects a victim, what it protects, and what those who wait for it are told."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import MinRuntimeMethod, MinRuntimeRule, Policy
from jupyter_gq.scheduling.quota.min_runtime import before_preemption, before_reclaim, remaining_protection
from tests.builders import NOW, Cluster, a_job, a_queue, admitted, apply, evicted, later, running, stopped, why

#: Builders count from so long ago.
AGO = 1000
LCA = MinRuntimeRule(method=MinRuntimeMethod.LCA, preempt=Seconds(1), reclaim=Seconds(2))
QUEUE = MinRuntimeRule(method=MinRuntimeMethod.QUEUE, preempt=Seconds(1), reclaim=Seconds(2))


def path(*times):
    """From the leaf to the root, each (name, reclaim time)."""
    return [a_queue(name, reclaim_min_runtime=time) for name, time in times]


ROOT = ("root", 50)
DEPARTMENT = ("department", None)
TEAM = ("team", 7)
SISTER = ("sister", 8)
OTHER_DEPARTMENT = ("other", 40)


@pytest.mark.parametrize(
    ("taker", "victim", "rule", "expected"),
    [
        ([SISTER, DEPARTMENT, ROOT], [TEAM, DEPARTMENT, ROOT], LCA, 7),
        ([SISTER, OTHER_DEPARTMENT, ROOT], [TEAM, DEPARTMENT, ROOT], LCA, 50),
        ([SISTER, OTHER_DEPARTMENT, ROOT], [TEAM, DEPARTMENT, ROOT], QUEUE, 7),
        ([SISTER, DEPARTMENT, ROOT], [TEAM, OTHER_DEPARTMENT, ROOT], LCA, 40),
        ([("x", None)], [TEAM, DEPARTMENT, ROOT], LCA, 50),
        ([("x", None)], [TEAM, DEPARTMENT], LCA, 2),
        ([("x", None)], [TEAM, DEPARTMENT], QUEUE, 7),
        ([("x", None)], [("y", None)], QUEUE, 2),
        ([TEAM, ROOT], [TEAM, ROOT], LCA, 7),
        ([("x", 3)], [("y", 0), ROOT], QUEUE, 0),
    ],
)
def test_reclaim_goes_by_the_queue_or_by_where_the_paths_part(taker, victim, rule, expected):
    assert before_reclaim(path(*taker), path(*victim), rule) == expected


def test_preemption_goes_by_the_nearest_queue_that_says_something():
    team, department = a_queue("team"), a_queue("department", preempt_min_runtime=9)
    assert before_preemption([team, department], LCA) == 9
    assert before_preemption([team], LCA) == 1


@pytest.mark.parametrize(("since", "expected"), [(AGO, 60), (AGO - 1, 59), (AGO - 59, 1), (AGO - 60, 0), (0, 0)])
def test_the_time_counts_from_the_start_of_the_run(since, expected):
    assert remaining_protection(running(a_job("digits", "q"), "n-0", since=since), Seconds(60), NOW) == expected


def test_what_has_not_started_is_not_protected():
    assert remaining_protection(a_job("digits", "q"), Seconds(60), NOW) == 0


def borrowed(since, **fields):
    """nlp borrows the only device, which is vision's."""
    cluster = Cluster().node("n").queue("vision", 1).queue("nlp", 0, reclaim_min_runtime=300)
    job = running(a_job("resnet", "nlp", owner="bob", **fields), "n-0", since=since)
    return cluster.add(job, a_job("bert", "vision"))


def test_a_borrower_is_left_alone_until_it_has_run_long_enough():
    decision = run_cycle(borrowed(AGO - 120).snapshot(), Policy(), NOW)
    assert evicted(decision) == []
    found = why(decision, "bert").why
    assert found.reason is PendingReason.MIN_RUNTIME
    assert reveal(found.sentence) == (
        "Waiting: bob's resnet (1 GPU) may run 3 more minutes before it can be paused for vision."
    )
    assert found.numbers["seconds_left"] == 180
    assert found.blockers == ("resnet",)


def test_afterwards_it_gives_way():
    assert evicted(run_cycle(borrowed(AGO - 300).snapshot(), Policy(), NOW)) == ["resnet"]
    assert evicted(run_cycle(borrowed(AGO - 299).snapshot(), Policy(), NOW)) == []


def test_the_default_holds_where_no_queue_says_anything():
    cluster = Cluster().node("n").queue("vision", 1).queue("nlp", 0)
    cluster.add(running(a_job("resnet", "nlp"), "n-0", since=AGO - 5), a_job("bert", "vision"))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["resnet"]
    patient = Policy(min_runtime=MinRuntimeRule(reclaim=Seconds(6)))
    assert evicted(run_cycle(cluster.snapshot(), patient, NOW)) == []


def test_the_time_named_is_one_at_which_it_happens_although_other_work_is_still_protected():
    """What stays counts as use of the queue, so the older one may go only when the younger one may go as well."""
    cluster = Cluster().node("n", 3).queue("vision", 1.5, preempt_min_runtime=120).queue("nlp", 1.5)
    cluster.add(
        running(a_job("wide", "nlp", "0.3", tasks=2), "n-0", "n-1"),
        running(a_job("large", "nlp", "0.7"), "n-1"),
        running(a_job("older", "vision", "0.75"), "n-2", since=AGO - 60),
        running(a_job("younger", "vision", "0.7"), "n-0", since=AGO - 10),
        a_job("urgent", "vision", 1, priority=1),
        a_job("next", "nlp", "0.5", submitted=1),
    )
    snapshot = cluster.snapshot()
    left = why(run_cycle(snapshot, Policy(), NOW), "urgent").why.numbers["seconds_left"]
    assert left == 110
    assert evicted(run_cycle(later(snapshot, left - 1), Policy(), NOW)) == []
    assert evicted(run_cycle(later(snapshot, left), Policy(), NOW)) == ["older"]


def test_an_older_one_goes_in_place_of_a_newer_one_that_is_protected():
    cluster = Cluster().node("n", 2).queue("vision", 1).queue("nlp", 0, reclaim_min_runtime=300)
    cluster.add(
        running(a_job("old", "nlp"), "n-0", since=0),
        running(a_job("new", "nlp"), "n-1", since=AGO - 10),
        a_job("bert", "vision"),
    )
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["old"]


@pytest.mark.parametrize(("least", "starts"), [(1500, "high"), (0, "owed")])
def test_another_queue_does_not_get_the_place_of_protected_work_that_stops_for_a_higher_priority(least, starts):
    """With a min runtime, neither the job that stops nor the one that starts may go for `owed`."""
    cluster = Cluster().node("n").queue("nlp", 0, reclaim_min_runtime=least).queue("vision", 1)
    cluster.add(running(a_job("low", "nlp"), "n-0", since=AGO - 100), a_job("high", "nlp", priority=1))
    snapshot = cluster.add(a_job("owed", "vision", submitted=1)).snapshot()
    stopped_for_it = apply(snapshot, run_cycle(snapshot, Policy(), NOW))
    decision = run_cycle(stopped_for_it, Policy(), NOW)
    assert decision.instructions == ()
    snapshot = stopped(stopped_for_it)
    assert admitted(run_cycle(snapshot, Policy(), NOW)) == [starts]


def test_a_higher_priority_waits_until_the_lower_one_has_run_long_enough():
    cluster = Cluster().node("n").queue("q", 1, preempt_min_runtime=60)
    cluster.add(running(a_job("low", "q"), "n-0", since=AGO - 20), a_job("high", "q", owner="bob", priority=1))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == []
    assert reveal(why(decision, "high").why.sentence) == (
        "Waiting: ann's low (1 GPU) may run 40 more seconds before it can be paused for bob's high (1 GPU)."
    )


def test_the_time_named_is_that_of_those_who_may_go_soonest():
    cluster = Cluster().node("n", 3).queue("vision", 2).queue("nlp", 0, reclaim_min_runtime=300)
    cluster.add(*(running(a_job(f"j{i}", "nlp"), f"n-{i}", since=AGO - 100 * i) for i in range(3)))
    cluster.add(a_job("bert", "vision", 2))
    found = why(run_cycle(cluster.snapshot(), Policy(), NOW), "bert").why
    assert found.blockers == ("j2", "j1")
    assert found.numbers["seconds_left"] == 200


@pytest.mark.parametrize(("preempt", "reclaim", "soonest"), [(300, 200, "fair"), (200, 300, "low"), (200, 200, "low")])
def test_the_time_named_is_the_soonest_of_lower_priorities_and_a_queue_within_its_share(preempt, reclaim, soonest):
    """Only node n suits the job, and both run there since 100 seconds. One device elsewhere is free."""
    cluster = Cluster().node("m", devices=1).node("n", devices=2)
    cluster.nodes[1] = replace(cluster.nodes[1], labels={"zone": "n"})
    cluster.queue("taker", 2, preempt_min_runtime=preempt).queue("fair", 0, reclaim_min_runtime=reclaim)
    cluster.add(
        *(running(a_job(n, q), d, since=AGO - 100) for n, q, d in (("low", "taker", "n-0"), ("fair", "fair", "n-1")))
    )
    picky = a_job("picky", "taker", priority=1)
    cluster.add(replace(picky, request=Request(devices=1, node_labels=(("zone", "n"),))))
    snapshot, policy = cluster.snapshot(), Policy(consolidate=False)
    found = why(run_cycle(snapshot, policy, NOW), "picky").why
    assert (found.reason, found.numbers["seconds_left"]) == (PendingReason.MIN_RUNTIME, 100)
    assert evicted(run_cycle(later(snapshot, 99), policy, NOW)) == []
    assert evicted(run_cycle(later(snapshot, 100), policy, NOW)) == [soonest]


def test_who_would_not_be_helped_by_waiting_is_told_something_else():
    cluster = Cluster().node("n").queue("vision", 0, limit=0.5).queue("nlp", 0, reclaim_min_runtime=300)
    cluster.add(running(a_job("resnet", "nlp"), "n-0", since=AGO), a_job("bert", "vision", 1))
    assert why(run_cycle(cluster.snapshot(), Policy(), NOW), "bert").why.reason is PendingReason.QUEUE_LIMIT


def test_a_lowered_limit_does_not_wait():
    cluster = Cluster().node("n").queue("q", 0, limit=0, reclaim_min_runtime=300, preempt_min_runtime=300)
    cluster.add(running(a_job("digits", "q"), "n-0", since=AGO))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["digits"]
