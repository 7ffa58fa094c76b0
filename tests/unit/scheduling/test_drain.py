"""Nodes and devices that are being drained: what leaves, what stays, and that nothing new goes there."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Evict, Shrink
from jupyter_gq.scheduling.policy import MinRuntimeRule, Policy
from jupyter_gq.scheduling.preview.admission import check_fits
from tests.builders import (
    NOW,
    Cluster,
    a_job,
    a_node,
    a_notebook,
    admitted,
    apply,
    cordoned,
    drained,
    evicted,
    running,
    stopped,
    why,
)


def drain_nodes(cluster: Cluster, *names: str) -> Cluster:
    """Those nodes are cordoned."""
    cluster.nodes = [cordoned(node) if node.name in names else node for node in cluster.nodes]
    return cluster


def decide(cluster: Cluster, **policy):
    return run_cycle(cluster.snapshot(), Policy(**policy), NOW)


def two_nodes() -> Cluster:
    return drain_nodes(Cluster().node("old", 2).node("new", 1).queue("q", 3), "old")


def leave_and_go_on(cluster: Cluster, drained: str) -> tuple[Snapshot, Admit]:
    """Check that the job `j` is told once to leave; return the snapshot after that, and its next start."""
    decision = decide(cluster)
    assert decision.instructions == (
        Evict(
            workload="j",
            reason=EvictReason.NODE_EMPTIED,
            by=None,
            sentence=f"Paused: {drained} is being drained. Continues by itself when a GPU is free.",
        ),
    )
    told = apply(cluster.snapshot(), decision)
    assert run_cycle(told, Policy(), NOW).instructions == (), "it is told once"
    (again,) = run_cycle(stopped(told), Policy(), NOW).instructions
    assert isinstance(again, Admit)
    return stopped(told), again


def test_training_leaves_and_goes_on_elsewhere_with_its_seniority():
    cluster = two_nodes().add(running(a_job("j", "q"), "old-0"))
    after, again = leave_and_go_on(cluster, "the node old")
    assert again.placement[0].node == "new"
    assert after.workloads[0].submitted_at == cluster.workloads[0].submitted_at


def test_it_leaves_even_if_there_is_no_room_for_it_elsewhere_and_whatever_it_has_been_promised():
    cluster = drain_nodes(Cluster().node("old", 1).queue("q", 1), "old").add(running(a_job("j", "q"), "old-0", since=5))
    decision = decide(cluster, min_runtime=MinRuntimeRule(preempt=3600, reclaim=3600))
    assert evicted(decision) == ["j"]
    waiting = run_cycle(stopped(apply(cluster.snapshot(), decision)), Policy(), NOW)
    assert waiting.instructions == ()
    found = why(waiting, "j").why
    assert found.reason is PendingReason.NO_DEVICE
    assert found.sentence == "Waiting: it needs 1 GPU, but the pool train has no GPU (old is cordoned) at present."


def test_notebooks_and_what_cannot_be_paused_stay():
    cluster = drain_nodes(
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
    assert why(decision, "second").why.reason is PendingReason.NO_FREE_DEVICE


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
    cluster = drain_nodes(Cluster().node("old", 2).node("new", 1).queue("q", 3), "old")
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    request = Request(devices=1, cpu_milli=1000)
    cluster.add(replace(running(a_job("fixed", "q", preemptible=False), "old-0"), request=request))
    cluster.add(replace(a_job("j", "q"), request=request))
    assert admitted(decide(cluster)) == ["j"]


# --- devices


def one_box(*indexes: int, devices: int = 3) -> Cluster:
    """A machine with these devices being drained, and a queue."""
    cluster = Cluster().queue("q", 3)
    cluster.nodes = [drained(a_node("box", devices), *indexes)]
    return cluster


def test_training_leaves_a_drained_device_and_goes_on_with_another():
    cluster = one_box(1).add(running(a_job("stays", "q"), "box-0"), running(a_job("j", "q"), "box-1"))
    _, again = leave_and_go_on(cluster, "GPU 1 of box")
    assert again.placement[0].devices == ("box-2",)


def test_each_share_of_a_drained_device_leaves_and_none_of_the_others():
    cluster = one_box(0, devices=2)
    cluster.add(running(a_job("a", "q", "0.5"), "box-0"), running(a_job("b", "q", "0.5"), "box-0"))
    cluster.add(running(a_job("c", "q", "0.5"), "box-1"))
    assert sorted(evicted(decide(cluster))) == ["a", "b"]


def test_notebooks_and_what_cannot_be_paused_stay_on_a_drained_device():
    cluster = one_box(0, 1, 2).fixed("train", ann="1")
    cluster.add(running(a_notebook("ann", "1"), "box-0"))
    cluster.add(running(a_job("fixed", "q", preemptible=False), "box-1"), running(a_job("j", "q"), "box-2"))
    assert evicted(decide(cluster)) == ["j"]


def test_a_job_of_several_devices_leaves_if_one_of_them_is_drained():
    assert evicted(decide(one_box(1).add(running(a_job("j", "q", 2), "box-0", "box-1")))) == ["j"]


def test_elastic_work_gives_up_only_the_tasks_with_a_drained_device():
    elastic = a_job("e", "q", tasks=3, min_members=1, elastic=True)
    (shrink,) = decide(one_box(1).add(running(elastic, "box-0", "box-1", "box-2"))).instructions
    assert isinstance(shrink, Shrink)
    assert [task.devices for task in shrink.placement] == [("box-1",)]
    assert shrink.sentence.startswith("Runs on with 2 of its 3 tasks: GPU 1 of box is being drained.")


def test_nothing_starts_on_a_drained_device_and_what_waits_is_told():
    decision = decide(one_box(1, 2).add(a_job("first", "q"), a_job("both", "q", 2)))
    assert admitted(decision) == ["first"]
    assert why(decision, "both").why.sentence == (
        "Waiting: it needs 2 GPUs, but no node of the pool train has more than 1 GPU "
        "(GPU 1 of box is being drained and GPU 2 of box is being drained) at present."
    )
    none_left = decide(one_box(0, devices=1).add(a_job("j", "q")))
    assert why(none_left, "j").why.sentence == (
        "Waiting: it needs 1 GPU, but the pool train has no GPU (GPU 0 of box is being drained) at present."
    )


def test_a_job_larger_than_what_is_left_is_accepted_while_a_device_is_drained():
    check_fits(one_box(1, 2).snapshot(), a_job("j", "q", 3))


# --- devices that left the pool


@pytest.mark.parametrize("pool", ["build", ""])
def test_training_leaves_a_device_that_was_given_to_another_pool_or_to_none(pool):
    cluster = Cluster().queue("q", 2).fixed("train", ann="1").pools(train=2, **{pool: 2})
    cluster.add(running(a_job("right", "q"), "box-0"), running(a_job("j", "q"), "box-2"))
    cluster.add(running(a_notebook("ann", "1"), "box-3"))
    decision = decide(cluster)
    (evict,) = decision.instructions
    assert isinstance(evict, Evict)
    assert (evict.workload, evict.reason) == ("j", EvictReason.NODE_EMPTIED)
    assert evict.sentence == "Paused: its GPU is no longer in the pool train. Continues by itself when a GPU is free."
    (again,) = run_cycle(stopped(apply(cluster.snapshot(), decision)), Policy(), NOW).instructions
    assert isinstance(again, Admit)
    assert again.placement[0].devices == ("box-1",)


def test_work_of_a_queue_that_is_gone_has_no_pool_that_its_device_could_have_left():
    cluster = Cluster().node("box", 1).queue("q", 1).add(running(a_job("j", "gone"), "box-0"))
    assert evicted(run_cycle(replace(cluster.snapshot(), vanished=("gone",)), Policy(), NOW)) == []
