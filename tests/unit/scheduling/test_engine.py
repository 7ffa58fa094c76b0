"""A scheduler that is told what happened (that it decides as a fresh one does, is a property test)."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from tests.builders import NOW, Cluster, a_job, a_node, a_queue, admitted, evicted, running


def scheduler(*workloads, devices=2) -> Scheduler:
    cluster = Cluster().node("n", devices).queue("q", 1).queue("r", 1).add(*workloads)
    return Scheduler(cluster.snapshot(), Policy())


def test_it_decides_the_same_until_it_is_told_what_became_of_it():
    kept = scheduler(a_job("a", "q"))
    assert admitted(kept.decide(NOW)) == admitted(kept.decide(NOW)) == ["a"]
    kept.put(running(a_job("a", "q"), "n-0"))
    assert kept.decide(NOW).instructions == ()


def test_what_comes_and_what_goes_is_seen():
    kept = scheduler(running(a_job("a", "q", 2), "n-0", "n-1"))
    kept.put(a_job("b", "r"))
    assert evicted(kept.decide(NOW)) == ["a"]
    kept.remove("a")
    assert admitted(kept.decide(NOW)) == ["b"]
    kept.remove("b")
    kept.remove("never heard of")
    assert kept.decide(NOW).instructions == ()


def test_a_final_workload_is_gone():
    job = running(a_job("a", "q", 2), "n-0", "n-1")
    kept = scheduler(job, a_job("b", "q"))
    kept.put(replace(job, state=State.SUCCEEDED, placement=()))
    assert admitted(kept.decide(NOW)) == ["b"]


def test_another_cluster_other_queues_another_policy():
    jobs = [a_job("a", "q", "0.5"), a_job("b", "q", "0.5"), a_job("c", "gone")]
    kept = scheduler(*jobs, devices=1)
    assert admitted(kept.decide(NOW)) == ["a", "b"]
    kept.set(nodes=(a_node("n", 3),), queues=(a_queue("q", 1), a_queue("gone", 1)), policy=Policy())
    assert admitted(kept.decide(NOW)) == ["a", "c", "b"]
    kept.set(policy=Policy(placement=PlacementStrategy.SPREAD, fraction_placement=None))
    places = [i.placement[0].devices for i in kept.decide(NOW).instructions]
    assert len(set(places)) == 3


def test_queues_that_are_no_tree_are_refused_and_nothing_changes():
    kept = scheduler(a_job("a", "q"))
    with pytest.raises(InvalidSnapshot):
        kept.set(queues=(a_queue("q", parent="q"),))
    assert admitted(kept.decide(NOW)) == ["a"]


def test_nobody_is_told_why_who_waits_if_nobody_asks():
    kept = scheduler(a_job("a", "q", 2), a_job("b", "q"))
    decision = kept.decide(NOW, explain=False)
    assert (admitted(decision), decision.pending) == (["a"], ())
