"""Nodes that are being drained: who leaves, who stays, and that nobody goes there."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Evict, Shrink
from jupyter_gq.scheduling.policy import MinRuntimeRule, Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, admitted, apply, cordoned, evicted, running, stopped, why


def drained(cluster: Cluster, *names: str) -> Cluster:
    """Those nodes are cordoned."""
    cluster.nodes = [cordoned(node) if node.name in names else node for node in cluster.nodes]
    return cluster


def decide(cluster: Cluster, **policy):
    return run_cycle(cluster.snapshot(), Policy(**policy), NOW)


def two_nodes() -> Cluster:
    return drained(Cluster().node("old", 2).node("new", 1).queue("q", 3), "old")


def test_training_leaves_and_goes_on_elsewhere_with_its_seniority():
    cluster = two_nodes().add(running(a_job("j", "q"), "old-0"))
    decision = decide(cluster)
    assert decision.instructions == (
        Evict(
            workload="j",
            reason=EvictReason.NODE_EMPTIED,
            by=None,
            sentence="Paused: the node old is being drained. Continues by itself when a GPU is free.",
        ),
    )
    told = apply(cluster.snapshot(), decision)
    assert run_cycle(told, Policy(), NOW).instructions == (), "it is told once"
    (again,) = run_cycle(stopped(told), Policy(), NOW).instructions
    assert isinstance(again, Admit)
    assert again.placement[0].node == "new"
    assert stopped(told).workloads[0].submitted_at == cluster.workloads[0].submitted_at


def test_it_leaves_even_if_there_is_no_room_for_it_elsewhere_and_whatever_it_has_been_promised():
    cluster = drained(Cluster().node("old", 1).queue("q", 1), "old").add(running(a_job("j", "q"), "old-0", since=5))
    decision = decide(cluster, min_runtime=MinRuntimeRule(preempt=3600, reclaim=3600))
    assert evicted(decision) == ["j"]
    waiting = run_cycle(stopped(apply(cluster.snapshot(), decision)), Policy(), NOW)
    assert waiting.instructions == ()
    found = why(waiting, "j").why
    assert found.reason is PendingReason.NO_DEVICE
    assert found.sentence == "Waiting: it needs 1 GPU, but the pool train has no GPU (old is cordoned) at present."


def test_notebooks_and_what_cannot_be_paused_stay():
    cluster = drained(
        Cluster().node("old", 3, pool="shared").fixed("shared", ann="1").queue("q", 2, pool="shared"), "old"
    )
    cluster.add(running(a_notebook("ann", "1"), "old-0"))
    cluster.add(running(a_job("fixed", "q", preemptible=False), "old-1"), running(a_job("j", "q"), "old-2"))
    assert evicted(decide(cluster)) == ["j"]


def test_a_gang_leaves_whole_where_one_of_its_tasks_is_there():
    gang = running(a_job("g", "q", tasks=2, min_members=2), "old-0", "new-0")
    assert evicted(decide(two_nodes().add(gang))) == ["g"]


def test_elastic_work_gives_up_the_tasks_that_are_there():
    elastic = a_job("e", "q", tasks=3, min_members=1, elastic=True)
    (shrink,) = decide(two_nodes().add(running(elastic, "new-0", "old-0", "old-1"))).instructions
    assert isinstance(shrink, Shrink)
    assert {task.node for task in shrink.placement} == {"old"}
    assert shrink.reason is EvictReason.NODE_EMPTIED
    assert shrink.sentence.startswith("Runs on with 1 of its 3 tasks: the node old is being drained.")
    (evict,) = decide(two_nodes().add(running(elastic, "old-0", "new-0"))).instructions
    assert isinstance(evict, Evict), "its smallest gang is there"


def test_nothing_starts_there():
    cluster = two_nodes().add(a_job("first", "q"), a_job("second", "q"))
    decision = decide(cluster)
    assert admitted(decision) == ["first"]
    assert why(decision, "second").why.reason is not PendingReason.STARTS_NOW


@pytest.mark.parametrize("closed", [True, False])
def test_without_devices_nothing_starts_on_a_closed_node_either(closed):
    """Also a node that is only lost: what it takes is not only a matter of its devices."""
    cluster = Cluster().node("n", 1).queue("q", 1).add(replace(a_job("cpu", "q", 0), request=Request(devices=0)))
    cluster.nodes = [replace(node, closed="n is not ready" if closed else "") for node in cluster.nodes]
    decision = decide(cluster)
    assert bool(decision.instructions) is not closed
    if closed:
        assert (
            why(decision, "cpu").why.sentence
            == "Waiting: it needs a node, but no node takes new work (n is not ready) at present."
        )


def test_what_is_there_may_still_end_or_be_counted():
    """A node without room for anything new keeps those who stay on its books."""
    cluster = drained(Cluster().node("old", 2).node("new", 1).queue("q", 3), "old")
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    request = Request(devices=1, cpu_milli=1000)
    cluster.add(replace(running(a_job("fixed", "q", preemptible=False), "old-0"), request=request))
    cluster.add(replace(a_job("j", "q"), request=request))
    assert admitted(decide(cluster)) == ["j"]
