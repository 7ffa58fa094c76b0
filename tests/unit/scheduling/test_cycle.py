"""The cycle as a whole: who starts at once, who grows, what an empty cluster does."""

from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, a_notebook, admitted, apply, running, stopping, why


def decide(cluster):
    return run_cycle(cluster.snapshot(), Policy(), NOW)


def test_nothing_gives_nothing():
    assert run_cycle(Snapshot(nodes=(), queues=(), workloads=()), Policy(), NOW) == Decision(
        instructions=(), pending=()
    )


def test_work_without_devices_starts_at_once_even_where_there_is_no_node():
    cluster = Cluster().queue("q", 0, limit=0).fixed(ann="0").add(a_job("cpu", "q", 0), a_notebook("ann", 0))
    (first, second) = decide(cluster).instructions
    assert {first.workload, second.workload} == {"cpu", "nb-ann"}
    assert first.placement[0].devices == ()


def test_a_job_that_cannot_start_blocks_none_that_can():
    cluster = Cluster().node("n", 1).queue("q", 1).add(a_job("big", "q", 2), a_job("small", "q", submitted=9))
    decision = decide(cluster)
    assert admitted(decision) == ["small"]
    assert why(decision, "big").position == 1


def test_what_is_above_the_quota_is_said_once_for_each_gpu():
    cluster = Cluster().node("n", 3).queue("q", "1.5").add(*[a_job(f"j{i}", "q", submitted=i) for i in range(3)])
    over = {i.workload: i.over_quota for i in decide(cluster).instructions}
    assert over == {"j0": 0, "j1": 500, "j2": 1000}


def test_what_cannot_be_paused_is_never_over_quota():
    cluster = Cluster().node("n", 1).queue("q", 1).add(a_job("fixed", "q", preemptible=False))
    assert decide(cluster).instructions[0].over_quota == 0


def test_an_elastic_workload_grows_within_its_fair_share():
    cluster = Cluster().node("n", 4).queue("q", 1).queue("r", 1)
    cluster.add(a_job("elastic", "q", tasks=4, min_members=1), a_job("other", "r", submitted=1))
    found = {i.workload: len(i.placement) for i in decide(cluster).instructions if isinstance(i, Admit)}
    assert found == {"elastic": 3, "other": 1}


def test_each_workload_has_its_smallest_gang_before_any_grows():
    cluster = Cluster().node("n", 3).queue("q", 3)
    cluster.add(*[a_job(f"e{i}", "q", tasks=3, min_members=1, submitted=i) for i in range(3)])
    assert [len(i.placement) for i in decide(cluster).instructions] == [1, 1, 1]


def test_an_eviction_does_not_change_fair_shares():
    """What was told to stop and comes back is still wanted."""
    held = running(a_job("a", "q", 2), "n-0", "n-1")
    before = Cluster().node("n", 3).queue("q", 1).queue("r", 1).add(held, a_job("b", "r"))
    after = Cluster().node("n", 3).queue("q", 1).queue("r", 1).add(stopping(held), a_job("b", "r"))
    gone = Cluster().node("n", 3).queue("q", 1).queue("r", 1).add(stopping(held, requeue=False), a_job("b", "r"))
    cycles = [begin_cycle(ClusterIndex(each.snapshot(), Policy()), NOW) for each in (before, after, gone)]
    shares = [{each.queue.name: each.fair_share for each in cycle.allocations.accounts} for cycle in cycles]
    assert shares == [{"q": 2000, "r": 1000}, {"q": 2000, "r": 1000}, {"q": 0, "r": 1000}]


def test_what_is_stopping_holds_its_devices():
    cluster = Cluster().node("n", 1).queue("q", 1).add(stopping(running(a_job("a", "q"), "n-0")), a_job("b", "q"))
    decision = decide(cluster)
    assert decision.instructions == ()
    assert why(decision, "b").why.reason is PendingReason.WAITS_FOR_EVICTION


def test_the_input_is_not_changed():
    cluster = Cluster().node("n", 1).queue("q", 1).add(a_job("a", "q"))
    snapshot = cluster.snapshot()
    decision = run_cycle(snapshot, Policy(), NOW)
    assert snapshot == cluster.snapshot()
    assert apply(snapshot, decision) != snapshot


def test_work_on_a_device_that_is_gone_is_left_to_the_controller():
    cluster = Cluster().node("n", 1).queue("q", 1).add(running(a_job("lost", "q"), "gone-0"), a_job("b", "q", "0.5"))
    assert admitted(decide(cluster)) == ["b"]
