"""Evicted work that may take devices from others gets its new place in the same decision, so it stops only once."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MilliGpu, Seconds
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import decide, run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Grow, Reserve
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from jupyter_gq.scheduling.wording import describe_preemptor
from tests.builders import NOW, Cluster, a_job, admitted, apply, running, stopped
from tests.explanations import explained
from tests.property.balance import accounts_follow_what_was_decided

#: Three nodes of two GPUs: each runs a job of `over`, which is above its fair share, and one of `fair`, which is not.
PAIRS = (("m-0", "m-1"), ("n-0", "n-1"), ("o-0", "o-1"))


def mixed_nodes() -> Cluster:
    cluster = Cluster().queue("taker", 2).queue("fair", 0, over_quota_weight=3).queue("over", 0)
    for number, pair in enumerate(PAIRS):
        cluster.node(pair[0][0], devices=2)
        for queue, device in zip(("over", "fair"), pair, strict=True):
            job = a_job(f"{queue}{number}", queue, submitted=number)
            cluster.add(running(job, device, since=10 * number + 5 * (queue == "fair")))
    return cluster


def evictions(decision: Decision) -> dict[str, Evict]:
    return {each.workload: each for each in decision.instructions if isinstance(each, Evict)}


def kept_for(decision: Decision) -> dict[str, Reserve]:
    return {each.workload: each for each in decision.instructions if isinstance(each, Reserve)}


def decided(snapshot: Snapshot, policy: Policy | None = None) -> Decision:
    return explained(snapshot, policy or Policy(), NOW)


@pytest.mark.parametrize("consolidate", [True, False])
def test_a_victim_within_its_share_goes_on_where_one_above_its_share_stops(consolidate):
    policy = Policy(consolidate=consolidate)
    snapshot = mixed_nodes().add(a_job("wide", "taker", 2, submitted=100)).snapshot()
    decision = decided(snapshot, policy)
    gone, kept = evictions(decision), kept_for(decision)
    assert len(gone) == 3
    (moved,) = (name for name in gone if name.startswith("fair"))
    assert [each.by for each in gone.values()] == ["wide"] * 3
    assert all(describe_preemptor(snapshot.workloads[-1]) in each.sentence for each in gone.values())
    assert kept[moved].nominated
    assert {task.devices for task in kept[moved].placement} <= {
        task.devices for w in snapshot.workloads if w.id in gone and w.queue == "over" for task in w.placement
    }
    after = stopped(apply(snapshot, decision))
    following = decided(after, policy)
    assert sorted(admitted(following)) == sorted((moved, "wide"))
    assert not evictions(following)


def test_the_owner_is_told_where_it_goes_on():
    snapshot = mixed_nodes().add(a_job("wide", "taker", 2, submitted=100)).snapshot()
    gone = evictions(decided(snapshot))
    (moved,) = (each for name, each in gone.items() if name.startswith("fair"))
    assert moved.reason is EvictReason.RECLAIMED
    assert moved.sentence.startswith("Paused: ")
    assert "needed its 2 GPUs back. Continues by itself at " in moved.sentence
    assert moved.sentence.endswith(", where room is made for it.")


def test_a_victim_goes_on_in_the_place_of_a_lower_priority_of_its_queue():
    cluster = Cluster().node("m", devices=2).node("n", devices=1).queue("taker", 2).queue("other", 0)
    for name, device, priority in (("high", "m-0", 1), ("free", "m-1", 1), ("low", "n-0", 0)):
        cluster.add(running(a_job(name, "other", priority=priority), device))
    decision = decided(cluster.add(a_job("wide", "taker", 2, submitted=100)).snapshot())
    gone = evictions(decision)
    assert gone.keys() == {"high", "free", "low"}
    assert (gone["low"].reason, gone["low"].by) == (EvictReason.RECLAIMED, "wide")
    kept = kept_for(decision)
    (moved,) = kept.keys() - {"wide"}
    assert kept[moved].placement[0].devices == ("n-0",)


def test_work_that_is_protected_from_the_large_job_does_not_stop_for_its_victim():
    cluster = Cluster().node("m", devices=2).node("n", devices=1).queue("taker", 2).queue("other", 0)
    cluster.queues[1] = replace(cluster.queues[1], reclaim_min_runtime=Seconds(100))
    for name, device, priority, since in (("high", "m-0", 1, 0), ("free", "m-1", 1, 0), ("low", "n-0", 0, 950)):
        cluster.add(running(a_job(name, "other", priority=priority), device, since=since))
    decision = decided(cluster.add(a_job("wide", "taker", 2, submitted=100)).snapshot())
    gone = evictions(decision)
    assert gone.keys() == {"high", "free"}
    assert kept_for(decision).keys() == {"wide"}


def test_a_victim_goes_on_where_elastic_work_would_grow():
    cluster = Cluster().node("m", devices=2).node("n", devices=1).node("o", devices=1)
    cluster.queue("taker", 2).queue("fair", 0, over_quota_weight=3).queue("over", 0)
    elastic = a_job("elastic", "over", tasks=2, min_members=1, elastic=True)
    cluster.add(running(a_job("fair0", "fair"), "m-0", since=5), running(a_job("over0", "over"), "m-1", since=5))
    cluster.add(running(elastic, "n-0", since=100), a_job("wide", "taker", 2, submitted=100))
    decision = decided(cluster.snapshot())
    assert evictions(decision).keys() == {"fair0", "over0"}
    assert kept_for(decision)["fair0"].placement[0].devices == ("o-0",)
    assert not any(isinstance(each, Grow) for each in decision.instructions)


def test_the_new_place_is_kept_while_the_others_stop():
    """The victim has stopped before the job whose place it gets; older work of its queue does not get that place."""
    snapshot = mixed_nodes().add(a_job("wide", "taker", 2, submitted=100)).snapshot()
    decision = decided(snapshot)
    (moved,) = (name for name in evictions(decision) if name.startswith("fair"))
    after = apply(snapshot, decision)
    done = {workload.id: workload for workload in stopped(after).workloads}
    workloads = [done[w.id] if w.id == moved else w for w in after.workloads]
    older = replace(a_job("older", "fair"), submitted_at=workloads[0].submitted_at)
    waiting = replace(after, workloads=(*workloads, older))
    assert admitted(decided(waiting)) == []
    assert moved in admitted(decided(stopped(waiting)))


def test_an_elastic_victim_goes_on_with_its_smallest_gang():
    cluster = Cluster().node("m", devices=2).node("n", devices=1).queue("q", 3).queue("over", over_quota_weight=0)
    low = a_job("low", "q", tasks=2, min_members=1, elastic=True)
    cluster.add(running(low, "m-0", "m-1", since=1), running(a_job("stops", "over"), "n-0"))
    snapshot = cluster.add(a_job("wide", "q", 2, priority=1, preemptible=False)).snapshot()
    decision = decided(snapshot, Policy(consolidate=False))
    assert evictions(decision).keys() == {"low", "stops"}
    assert [task.devices for task in kept_for(decision)["low"].placement] == [("n-0",)]
    following = decided(stopped(apply(snapshot, decision)), Policy(consolidate=False))
    assert sorted(admitted(following)) == ["low", "wide"]
    assert not evictions(following)


def two_low_jobs_on_a_node(quota: int) -> Cluster:
    """A job of a higher priority, which cannot be paused, needs the node of two jobs of its queue."""
    cluster = Cluster().node("m", devices=2).queue("q", quota).queue("over", over_quota_weight=0)
    cluster.add(running(a_job("low0", "q"), "m-0", since=1), running(a_job("low1", "q"), "m-1", since=2))
    return cluster.add(a_job("wide", "q", 2, priority=1, preemptible=False))


def test_a_victim_goes_on_in_the_place_of_work_that_has_not_started():
    """Otherwise that work would start, and stop for the victim in the next cycle."""
    cluster = two_low_jobs_on_a_node(quota=3).node("n", devices=1).add(a_job("late", "over", submitted=100))
    snapshot = cluster.snapshot()
    decision = decided(snapshot, Policy(consolidate=False))
    assert admitted(decision) == []
    assert evictions(decision).keys() == {"low0", "low1"}
    following = decided(stopped(apply(snapshot, decision)), Policy(consolidate=False))
    assert len(admitted(following)) == 2
    assert "late" not in admitted(following)
    assert not evictions(following)


def test_work_that_gives_its_place_to_a_victim_starts_elsewhere_in_the_same_decision():
    """The last device is too small for the victim."""
    cluster = two_low_jobs_on_a_node(quota=3).node("n", devices=1).node("o", devices=1)
    cluster.nodes[2] = replace(cluster.nodes[2], cpu_milli=0)
    cluster.workloads = [replace(w, request=replace(w.request, cpu_milli=1000)) for w in cluster.workloads]
    picky = a_job("picky", "over", submitted=100)
    cluster.nodes[1] = replace(cluster.nodes[1], labels={"zone": "a"})
    decision = decided(cluster.add(picky).snapshot(), Policy(consolidate=False))
    (start,) = (each for each in decision.instructions if isinstance(each, Admit))
    assert (start.workload, start.placement[0].node) == ("picky", "o")


def test_two_victims_do_not_count_on_the_same_free_device():
    cluster = two_low_jobs_on_a_node(quota=4).node("n", devices=1).node("o", devices=1)
    snapshot = cluster.add(running(a_job("stops", "over"), "o-0")).snapshot()
    decision = decided(snapshot, Policy(consolidate=False))
    assert evictions(decision).keys() == {"low0", "low1", "stops"}
    following = decided(stopped(apply(snapshot, decision)), Policy(consolidate=False))
    assert sorted(admitted(following)) == ["low0", "low1", "wide"]
    assert not evictions(following)


def test_a_protected_job_is_not_stopped_for_a_victim():
    """The min runtime holds against evicted work as well as against any other."""
    cluster = mixed_nodes()
    cluster.queues = [
        replace(queue, reclaim_min_runtime=Seconds(10_000)) if queue.name == "over" else queue
        for queue in cluster.queues
    ]
    decision = run_cycle(cluster.add(a_job("one", "taker", submitted=100)).snapshot(), Policy(), NOW)
    assert [name[:4] for name in evictions(decision)] == ["fair"]
    assert kept_for(decision).keys() == {"one"}


def test_a_victim_that_fits_without_others_starts_again_by_itself():
    """Only one node suits the taker, and other devices are free for its victim."""
    cluster = Cluster().node("m", devices=1).node("n", devices=2).queue("taker", 1).queue("other", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], labels={"zone": "m"})
    cluster.add(running(a_job("small", "other", priority=1), "m-0"), running(a_job("low", "other"), "n-0"))
    picky = a_job("picky", "taker", submitted=100)
    picky = replace(picky, request=replace(picky.request, node_labels=(("zone", "m"),)))
    decision = decided(cluster.add(picky).snapshot(), Policy(consolidate=False))
    assert evictions(decision).keys() == {"small"}
    assert kept_for(decision).keys() == {"picky"}
    assert "small" in admitted(decided(stopped(apply(cluster.snapshot(), decision)), Policy(consolidate=False)))


def test_a_victim_with_a_right_goes_on_where_another_victim_would_start_again():
    """`small` fits beside `low` by itself. `owned` takes that whole device one cycle later, so it does so now."""
    cluster = Cluster().node("m", 3).node("n", 3).queue("d", 4).queue("e", 2, over_quota_weight=0)
    cluster.queue("a", 4, parent="d").queue("b", 0, parent="d", over_quota_weight=0)
    cluster.add(
        running(a_job("small", "b", "0.5", priority=1), "m-0", since=256),
        running(a_job("tiny", "b", "0.5"), "m-0", since=350),
        running(a_job("whole", "b"), "m-1", since=256),
        running(a_job("owned", "e", priority=1), "m-2", since=218),
        running(a_job("low", "e", "0.5"), "n-2", since=44),
        running(a_job("stays", "e", priority=1), "n-1", since=50),
        running(a_job("other", "b", "0.5"), "n-0", since=59),
        a_job("large", "a", 3, submitted=500),
        a_job("single", "a", submitted=501),
    )
    decision = run_cycle(cluster.snapshot(), Policy(consolidate=False), NOW)
    assert evictions(decision)["low"].by == "large"
    assert {"large", "single", "owned"} == kept_for(decision).keys()
    after = run_cycle(stopped(apply(cluster.snapshot(), decision)), Policy(consolidate=False), NOW)
    assert set(admitted(after)) == {"large", "single", "owned"}
    assert evictions(after) == {}


def test_work_that_may_take_back_from_the_one_for_which_it_goes_stays():
    """While `high` goes for `wide`, `low` goes for `cores`: that leaves its share to the queue, and so to `high`."""

    def job(name, queue, *, cores, gpus=1, milli=1000, **fields):
        request = Request(devices=gpus, milli_per_device=MilliGpu(milli), cpu_milli=cores)
        return replace(a_job(name, queue, **fields), request=request)

    cluster = Cluster().node("m", 3).node("n", 3).queue("other", 0.5, cpu_quota=2000)
    cluster.queue("own", 1.5, limit=2.5, cpu_quota=4000, preempt_min_runtime=60)
    cluster.nodes = [replace(node, cpu_milli=cores) for node, cores in zip(cluster.nodes, (3000, 2000), strict=True)]
    cluster.add(
        job("waits", "own", cores=2000, milli=500),
        job("wide", "other", cores=1000, tasks=2, priority=1, submitted=1),
        running(job("low", "own", cores=2000, submitted=3), "m-0", since=900),
        running(job("high", "own", cores=2000, milli=300, priority=1, submitted=4), "n-0", since=901),
        job("cores", "own", cores=500, gpus=0, tasks=3, min_members=1, elastic=True, priority=1, submitted=6),
    )
    decision = decided(cluster.snapshot())
    assert {name: gone.by for name, gone in evictions(decision).items()} == {"low": "cores"}
    assert admitted(decision) == ["cores"]
    state = begin_cycle(ClusterIndex(cluster.snapshot(), Policy()), NOW)
    decide(state)
    accounts_follow_what_was_decided(state, Policy())
