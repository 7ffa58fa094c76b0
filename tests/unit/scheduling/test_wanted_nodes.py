"""How many new nodes would serve those who wait and have a right to devices."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant, MiB
from jupyter_gq.domain.cluster import SHARE_LABEL, NewNodes, NodeRequest
from jupyter_gq.domain.errors import NeverFits
from jupyter_gq.domain.queue import build_queue
from jupyter_gq.domain.reasons import EvictReason, Explanation, PendingReason
from jupyter_gq.domain.workload import Kind, Request, TopologyConstraint
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict, Pending
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.preview.admission import check_fits
from jupyter_gq.scheduling.scale.wanted_nodes import wanted_nodes
from tests.builders import NOW, Cluster, a_job, a_node, a_notebook, backing_off, running, stopping, why


def new(gpus=8, count=4, pool="train", **fields):
    like = replace(a_node("new", gpus, pool), labels=dict([SHARE_LABEL]), **fields)
    return NewNodes(pool=pool, like=like, count=count)


def a_cluster(quota=16, **queues):
    made = Cluster().queue("vision", quota)
    for name, amount in queues.items():
        made.queue(name, amount)
    return made


def wanted(made, *nodes):
    """What the cycle itself says, which is what the decision and the snapshot come to."""
    snapshot = replace(made.snapshot(), new_nodes=nodes or (new(),))
    decision = run_cycle(snapshot, Policy(), NOW)
    assert decision.wanted_nodes == wanted_nodes(snapshot, decision)
    return decision.wanted_nodes


def test_where_no_pool_can_grow_nothing_is_wanted():
    made = a_cluster().add(a_job("a", "vision", 8))
    assert wanted_nodes(made.snapshot(), run_cycle(made.snapshot(), Policy(), NOW)).count == {}
    assert wanted(made, new(count=0)).count == {}


def test_who_waits_for_the_first_node_of_a_pool_has_one_asked_for():
    found = wanted(a_cluster().add(a_job("a", "vision", 8)))
    assert (found.count, found.served) == ({"train": 1}, {"a": "train"})


def test_new_nodes_are_filled_before_another_is_asked_for():
    made = a_cluster().add(*(a_job(f"j{i}", "vision", gpus) for i, gpus in enumerate((4, 4, 2, 1, "0.5", "0.5", 4))))
    assert wanted(made).count == {"train": 2}


def test_a_loan_makes_no_node_come():
    found = wanted(a_cluster(quota=8).add(*(a_job(f"j{i}", "vision", 4, submitted=i) for i in range(3))))
    assert (found.count, sorted(found.served)) == ({"train": 1}, ["j0", "j1"])


def test_one_that_is_no_guarantee_is_passed_over_and_who_comes_after_it_is_not():
    large, small = a_job("large", "vision", 8, submitted=0), a_job("small", "vision", 4, submitted=1)
    found = wanted(a_cluster(quota=4).add(large, small))
    assert found.served == {"small": "train"}


def test_what_the_queue_holds_is_of_its_quota():
    made = a_cluster(quota=8).node("there", 4)
    made.add(running(a_job("holds", "vision", 4), *(f"there-{i}" for i in range(4))))
    made.add(a_job("a", "vision", 4, submitted=0), a_job("b", "vision", 4, submitted=1))
    assert wanted(made).served == {"a": "train"}


def test_what_is_told_to_stop_is_of_nobodys_quota():
    made = a_cluster(quota=8).node("there", 4)
    made.add(stopping(running(a_job("goes", "vision", 4), *(f"there-{i}" for i in range(4))), requeue=False))
    made.add(a_job("a", "vision", 8))
    assert wanted(made).count == {"train": 1}


def test_what_begins_now_is_of_its_quota_and_what_is_told_to_go_is_not():
    made = a_cluster(quota=4).node("there", 4)
    made.add(a_job("begins", "vision", 4, submitted=0), a_job("borrows", "vision", 4, submitted=1))
    assert wanted(made).count == {}
    holder = running(a_job("holds", "vision", 4), *(f"there-{i}" for i in range(4)))
    snapshot = replace(a_cluster(quota=4).add(holder, a_job("a", "vision", 4)).snapshot(), new_nodes=(new(),))
    waits = Pending(
        workload="a", position=1, why=Explanation(reason=PendingReason.NO_FREE_DEVICE, sentence="Waiting: ...")
    )
    goes = Evict(workload="holds", reason=EvictReason.NODE_EMPTIED, by=None, sentence="Paused: ...")
    assert wanted_nodes(snapshot, Decision(instructions=(), pending=(waits,))).count == {}
    assert wanted_nodes(snapshot, Decision(instructions=(goes,), pending=(waits,))).count == {"train": 1}


def test_work_without_devices_makes_no_node_come():
    made = a_cluster()
    made.nodes.append(replace(a_node("there", 1), cpu_milli=500))
    made.add(replace(a_job("a", "vision"), request=Request(devices=0, cpu_milli=1000)))
    snapshot = replace(made.snapshot(), new_nodes=(new(cpu_milli=64_000),))
    decision = run_cycle(snapshot, Policy(), NOW)
    assert len(decision.pending) == 1
    assert wanted_nodes(snapshot, decision).count == {}


def test_the_quota_above_counts_too():
    made = Cluster().queue("research", 4).queue("a", 4, parent="research").queue("b", 4, parent="research")
    made.add(a_job("one", "a", 4, submitted=0), a_job("two", "b", 4, submitted=1))
    assert wanted(made).served == {"one": "train"}


def test_a_notebook_within_its_fixed_quota_makes_a_node_come():
    made = Cluster().fixed(ann="0.25", bob="0.25").add(a_notebook("ann", "0.25"), a_notebook("bob", "0.25"))
    found = wanted(made, new(pool="build"))
    assert found.count == {"build": 1}
    assert len(found.served) == 2


def test_who_only_waits_until_somebody_has_gone_makes_no_node_come():
    made = a_cluster(quota=4, nlp=4).node("there", 8)
    made.add(running(a_job("borrows", "nlp", 8), *(f"there-{i}" for i in range(8))), a_job("owns", "vision", 4))
    snapshot = replace(made.snapshot(), new_nodes=(new(),))
    decision = run_cycle(snapshot, Policy(), NOW)
    assert why(decision, "owns").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert wanted_nodes(snapshot, decision).count == {}


def test_a_promise_is_of_the_quota_of_those_behind_it():
    made = a_cluster(quota=4, nlp=4).node("there", 4)
    made.add(running(a_job("borrows", "nlp", 4), *(f"there-{i}" for i in range(4))), a_job("own", "vision", 4))
    made.queues[1] = replace(made.queues[1], quota=0)
    made.add(a_job("more", "vision", 4, submitted=5))
    assert wanted(made).count == {}


def test_who_is_at_a_limit_makes_no_node_come():
    made = Cluster().queue("vision", 8, limit=8)
    made.queues[0] = replace(made.queues[0], cpu_limit=1000)
    job = a_job("a", "vision", 4)
    made.add(replace(job, request=replace(job.request, cpu_milli=2000)))
    assert wanted(made).count == {}


def test_a_gang_needs_as_many_nodes_as_it_has_tasks_for():
    made = a_cluster(quota=32).add(a_job("gang", "vision", 8, tasks=3))
    assert wanted(made).count == {"train": 3}
    assert wanted(made, new(count=2)).count == {}, "a part of a gang is of no use"


def test_what_of_a_gang_fits_the_nodes_that_are_there_needs_no_other():
    made = a_cluster(quota=80).node("there", 8).node("taken", 8)
    made.add(running(a_job("holds", "vision", 8), *(f"taken-{i}" for i in range(8))))
    made.add(a_job("gang", "vision", 8, tasks=2))
    assert wanted(made).count == {"train": 1}
    made.add(a_job("other", "vision", 8, tasks=2, submitted=5))
    assert wanted(made).count == {"train": 3}, "the same room serves one of them"
    assert wanted(made, new(count=2)).count == {"train": 1}
    made.workloads.insert(1, a_job("huge", "vision", 8, tasks=4, submitted=-5))
    assert wanted(made, new(count=2)).count == {"train": 1}, "who cannot be served takes no room"


def test_who_is_served_reads_what_became_of_asking_and_nobody_else_does():
    made = a_cluster(quota=8, nlp=0).add(a_job("entitled", "vision", 8), a_job("borrows", "nlp", 8))
    for request, told in (
        (None, "The cluster is asked for a new node of train."),
        (NodeRequest(since=Instant(NOW - 130)), "A new node of train was asked for 2 min ago."),
    ):
        snapshot = replace(made.snapshot(), new_nodes=(replace(new(), request=request),))
        decision = run_cycle(snapshot, Policy(), NOW)
        assert why(decision, "entitled").why.sentence.endswith(f". {told}")
        assert why(decision, "entitled").why.reason is PendingReason.NO_DEVICE
        assert "new node" not in why(decision, "borrows").why.sentence


def test_a_scheduler_that_remembers_sees_what_became_of_asking():
    snapshot = a_cluster(quota=8).add(a_job("a", "vision", 8)).snapshot()
    kept = Scheduler(snapshot, Policy())
    for request in (None, NodeRequest(since=NOW), NodeRequest(sentence="No such class.")):
        for count in (1, 0):
            changed = replace(snapshot, new_nodes=(replace(new(count=count), request=request),))
            kept.follow(changed, Policy())
            assert kept.decide(NOW) == run_cycle(changed, Policy(), NOW)
            assert kept.decide(NOW).wanted_nodes.count == ({"train": 1} if count else {})


def test_a_workload_that_backs_off_makes_no_node_come_and_leaves_its_quota_to_others():
    paused, other = backing_off(a_job("paused", "vision", 8)), a_job("other", "vision", 8, submitted=1)
    assert wanted(a_cluster(quota=8).add(paused, other)).served == {"other": "train"}


def test_what_cannot_be_launched_soon_is_of_its_quota_as_if_it_had_begun():
    made = a_cluster(quota=8).node("n", 8).add(*(a_job(f"j{i}", "vision", 8, submitted=i) for i in range(2)))
    snapshot = replace(made.snapshot(), new_nodes=(new(),))
    bound = run_cycle(replace(snapshot, launch_capacity={Kind.TRAINING: 0}), Policy(), NOW)
    assert (len(bound.deferred), bound.wanted_nodes) == (1, run_cycle(snapshot, Policy(), NOW).wanted_nodes)


def test_while_a_backend_cannot_be_observed_its_workloads_make_no_node_come():
    snapshot = replace(a_cluster().add(a_job("a", "vision", 8)).snapshot(), new_nodes=(new(),))
    blind = run_cycle(replace(snapshot, unobserved=(Kind.TRAINING,)), Policy(), NOW)
    assert blind.wanted_nodes.count == {}
    assert "new node" not in why(blind, "a").why.sentence


def test_no_more_than_may_come():
    made = a_cluster(quota=32).add(*(a_job(f"j{i}", "vision", 8) for i in range(3)))
    found = wanted(made, new(count=2))
    assert (found.count, len(found.served)) == ({"train": 2}, 2)


@pytest.mark.parametrize(
    "request_",
    [
        Request(devices=9),
        Request(devices=1, cpu_milli=65_000),
        Request(devices=1, memory=MiB(2 * 1024**2)),
        Request(devices=1, models=("H100",)),
        Request(devices=1, node_labels=(("disk", "ssd"),)),
        Request(devices=0, cpu_milli=1000),
    ],
)
def test_who_would_not_fit_a_new_node_makes_none_come(request_):
    made = a_cluster().add(replace(a_job("a", "vision"), request=request_))
    nodes = new(cpu_milli=64_000, memory=MiB(1024**2))
    assert wanted(made, nodes).count == {}
    assert wanted(made, new()).count == (
        {"train": 1} if request_.devices == 1 and not request_.models + request_.node_labels else {}
    )


def test_a_topology_that_is_required_cannot_be_promised_of_new_nodes():
    constraint = TopologyConstraint(topology="where", required="rack")
    made = a_cluster().add(replace(a_job("a", "vision", 8, tasks=2), topology=constraint))
    assert wanted(made).count == {}


def test_each_pool_grows_for_its_own():
    made = Cluster().queue("vision", 8).fixed(ann="1").add(a_job("a", "vision", 8), a_notebook("ann", 1))
    assert wanted(made).count == {"train": 1}
    assert wanted(made, new(), new(pool="build")).count == {"train": 1, "build": 1}


# --- what may be asked for at all


def check(workload, *nodes, made=None):
    check_fits(replace((made or a_cluster()).snapshot(), new_nodes=nodes), workload)


def test_what_only_a_new_node_could_serve_may_be_asked_for_while_one_may_come():
    job = a_job("a", "vision", 8)
    check(job, new())
    for nodes in ((), (new(count=0),), (new(gpus=4),), (new(pool="build"),)):
        with pytest.raises(NeverFits, match="You asked for 8 GPUs"):
            check(job, *nodes)


def test_a_gang_may_be_as_large_as_the_nodes_that_are_there_and_those_that_may_come():
    made = a_cluster().node("there", 8)
    check(a_job("a", "vision", 8, tasks=3), new(count=2), made=made)
    with pytest.raises(NeverFits, match="has room for 3 of them"):
        check(a_job("a", "vision", 8, tasks=4), new(count=2), made=made)


def test_cpu_and_memory_of_a_new_node_are_reckoned_with_where_they_are_known():
    job = replace(a_job("a", "vision"), request=Request(devices=1, cpu_milli=65_000))
    check(job, new())
    with pytest.raises(NeverFits, match="no such node of the pool train has more than 64 CPU cores"):
        check(job, new(cpu_milli=64_000))


def test_a_notebook_may_wait_for_the_first_node_of_its_pool():
    made = Cluster().fixed(ann="0.25")
    notebook = replace(a_notebook("ann", "0.25"), queue=build_queue("ann"))
    check(notebook, new(pool="build"), made=made)
    with pytest.raises(NeverFits):
        check(notebook, made=made)
