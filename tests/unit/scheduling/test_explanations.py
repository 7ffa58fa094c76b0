"""Every reason to wait renders to one sentence with numbers."""

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.wording import describe_duration, describe_gpus, describe_workload, enumerate_names
from tests.builders import NOW, Cluster, a_device, a_job, a_notebook, evicted, running, stopping, why


def explained(cluster, workload):
    return why(run_cycle(cluster.snapshot(), Policy(), NOW), workload).why


def test_no_device_is_idle():
    cluster = Cluster().node("n", 1).queue("vision", "0.5").queue("nlp", "0.5")
    found = explained(cluster.add(running(a_job("digits", "vision"), "n-0"), a_job("more", "vision")), "more")
    assert found.reason is PendingReason.NO_FREE_DEVICE
    assert found.blockers == ("digits",)
    assert reveal(found.sentence) == (
        "Waiting: vision uses 1 of its 0.5 guaranteed GPU and no device is idle; ann's digits (1 GPU) is in the way."
    )
    assert (found.numbers["used"], found.numbers["quota"], found.numbers["idle"]) == (1000, 500, 0)


def test_enough_is_idle_but_not_on_one_device():
    cluster = Cluster().node("n", 2).queue("q", 2)
    cluster.add(*[running(a_job(f"h{i}", "q", "0.5"), f"n-{i}", since=900 + i) for i in range(2)], a_job("whole", "q"))
    found = explained(cluster, "whole")
    assert found.reason is PendingReason.FRAGMENTED
    assert reveal(found.sentence) == (
        "Waiting: q uses 1 of its 2 guaranteed GPUs and 1 GPU is idle, at most 0.5 of it on one device; "
        "ann's h1 (0.5 GPU) is in the way."
    )


def test_more_than_one_gpu_are_idle():
    cluster = Cluster().node("n", 4).queue("q", 4).add(a_job("whole", "q"), a_job("three", "q", 3))
    cluster.add(*[running(a_job(f"h{i}", "q", "0.5", preemptible=False), f"n-{i}") for i in range(4)])
    assert "and 2 GPUs are idle, at most 0.5 of them on one device; " in explained(cluster, "whole").sentence
    assert "and only 2 GPUs are idle of the 3 it needs; " in explained(cluster, "three").sentence


def test_work_that_moves_is_in_the_way_at_its_new_place():
    """The half of a GPU moves for the job that needs a whole one; the job that needs both waits for all of them."""
    cluster = Cluster().node("n", 2).queue("q", 2)
    cluster.add(
        running(a_job("quarter", "q", "0.25", preemptible=False), "n-0"), running(a_job("half", "q", "0.5"), "n-1")
    )
    cluster.add(a_job("both", "q", 2, submitted=1), a_job("whole", "q"))
    decision = run_cycle(cluster.snapshot(), Policy(moved_after=Seconds(0)), NOW)
    assert evicted(decision) == ["half"]
    assert set(why(decision, "both").why.blockers) == {"quarter", "half", "whole"}


def test_a_limit_names_what_would_have_to_end():
    cluster = Cluster().node("n", 3).queue("q", 1, limit=1).add(running(a_job("a", "q"), "n-0"), a_job("b", "q"))
    found = explained(cluster, "b")
    assert found.reason is PendingReason.QUEUE_LIMIT
    assert reveal(found.sentence) == (
        "Waiting: the limit of q is 1 GPU, 1 of it is in use, and it needs 1; ann's a (1 GPU) is in the way."
    )


def test_a_fixed_quota_is_called_yours():
    cluster = Cluster().node("n", 1, pool="build").fixed(ann="0.5")
    cluster.add(running(a_notebook("ann", "0.5"), "n-0"), a_notebook("ann", "0.25", name="b"))
    assert reveal(explained(cluster, "nb-annb").sentence) == (
        "Waiting: your fixed quota is 0.5 GPU, 0.5 of it is in use, and it needs 0.25; "
        "ann's server (0.5 GPU) is in the way."
    )


def test_a_notebook_within_its_fixed_quota_is_told_who_is_in_the_way():
    cluster = Cluster().node("n", 1, pool="build").fixed(ann="1", bob="1")
    cluster.add(running(a_notebook("bob", "0.75"), "n-0"), a_notebook("ann", "0.5"))
    assert reveal(explained(cluster, "nb-ann").sentence) == (
        "Waiting: your fixed quota of 1 GPU allows it, but only 0.25 GPU is idle of the 0.5 it needs; "
        "bob's server (0.75 GPU) is in the way."
    )


def test_what_cannot_be_paused_must_fit_the_quota():
    cluster = Cluster().node("n", 3).queue("q", 1)
    cluster.add(running(a_job("a", "q", preemptible=False), "n-0"), a_job("b", "q", preemptible=False))
    found = explained(cluster, "b")
    assert found.reason is PendingReason.NON_PREEMPTIBLE_OVER_QUOTA
    assert found.blockers == ("a",)
    assert reveal(found.sentence) == (
        "Waiting: it cannot be paused, so it must fit the quota of q, 1 GPU; work of that kind uses 1 of it, and "
        "it needs 1; ann's a (1 GPU) is in the way."
    )


def test_a_device_that_is_out_of_order_is_no_device():
    cluster = Cluster().queue("q", 1).add(a_job("a", "q"))
    cluster.nodes.append(Node(name="n", devices=(a_device("n-0", healthy=False),)))
    found = explained(cluster, "a")
    assert found.reason is PendingReason.NO_DEVICE
    assert found.sentence == "Waiting: it needs 1 GPU, but the pool train has no GPU at present."


def test_a_node_whose_devices_nobody_tells_says_why():
    cluster = Cluster().queue("q", 1).add(a_job("a", "q"))
    cluster.nodes.append(Node(name="n", closed="n has no agent"))
    found = explained(cluster, "a")
    assert found.reason is PendingReason.NO_DEVICE
    assert found.sentence == "Waiting: it needs 1 GPU, but the pool train has no GPU (n has no agent) at present."


def test_a_gang_larger_than_the_cluster_says_so():
    cluster = Cluster().node("n", 2).queue("q", 8).add(a_job("g", "q", 1, tasks=3))
    assert explained(cluster, "g").sentence == (
        "Waiting: it needs 3 tasks of 1 GPU that start together, but the pool train has room for 2 of them at present."
    )


def test_a_queue_that_was_removed_is_said():
    found = explained(Cluster().node("n", 1).add(a_job("a", "gone")), "a")
    assert found.reason is PendingReason.UNKNOWN_QUEUE
    assert "the queue gone is no longer in the configuration" in found.sentence


def test_work_that_gives_way_and_whose_queue_was_removed_is_not_told_that_it_continues():
    cluster = Cluster().node("n", 1).queue("q", 1).add(running(a_job("a", "gone"), "n-0"), a_job("b", "q"))
    (evict,) = (each for each in run_cycle(cluster.snapshot(), Policy(), NOW).instructions if isinstance(each, Evict))
    assert reveal(evict.sentence) == (
        "Paused: q needed its 1 GPU back. Its queue gone is no longer in the configuration: move it to another "
        "one, so that it goes on."
    )


def test_one_who_waits_for_a_stop_is_told_for_whose():
    cluster = Cluster().node("n", 1).queue("q", 1).add(stopping(running(a_job("a", "q"), "n-0")), a_job("b", "q"))
    assert reveal(explained(cluster, "b").sentence) == (
        "Waiting: its room is kept; it starts as soon as ann's a (1 GPU) has stopped."
    )


def test_one_who_waits_for_room_under_a_limit_is_told_too():
    cluster = Cluster().node("n", 2).queue("q", 1, limit=1)
    cluster.add(stopping(running(a_job("a", "q"), "n-0")), a_job("b", "q"))
    assert explained(cluster, "b").blockers == ("a",)


def test_one_behind_a_promise_is_told_of_it():
    cluster = Cluster().node("n", 1).queue("q", 1)
    cluster.add(stopping(running(a_job("a", "q"), "n-0")), a_job("b", "q"), a_job("c", "q", submitted=9))
    assert explained(cluster, "c").blockers == ("b",)


def test_positions_count_those_who_wait_in_the_queue():
    cluster = Cluster().node("n", 1).queue("q", 1).queue("r", 1).add(running(a_job("run", "q"), "n-0"))
    cluster.add(*[a_job(f"{q}{i}", q, submitted=i) for q in "qr" for i in range(3)])
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert [(entry.workload, entry.position) for entry in decision.pending] == [
        ("q0", 1), ("q1", 2), ("q2", 3), ("r0", 1), ("r1", 2), ("r2", 3),
    ]  # fmt: skip


def test_words():
    assert [describe_gpus(250), describe_gpus(1000), describe_gpus(1500)] == ["0.25 GPU", "1 GPU", "1.5 GPUs"]
    assert reveal(describe_workload(a_notebook("bob", name="lab"))) == "bob's server 'lab'"
    assert reveal(describe_workload(a_job("", "q"))) == "ann's job"
    assert enumerate_names(["a", "b"]) == "a and b"
    assert enumerate_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    seconds = (45, 119.9, 120, 7199, 7200, 7260, 36 * 3600)
    told = ["45 s", "119 s", "2 min", "119 min", "2 h", "2 h 1 min", "36 h"]
    assert [describe_duration(each) for each in seconds] == told
