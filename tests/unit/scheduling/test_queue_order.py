"""Whose turn it is."""

from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.scheduling.admit.job_order import user_usage
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.order.pending_queue import PendingQueue
from jupyter_gq.scheduling.order.queue_order import JobOrder
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Accounts, add_usage
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from jupyter_gq.scheduling.state.evictions import ReplicaEviction
from jupyter_gq.scheduling.workloads.seniority import in_fair_order, seniority
from tests.builders import NOW, Cluster, a_job, a_node, a_queue, admitted, running


def turn_of(accounts, jobs):
    """Everybody waits."""
    lines = {}
    for job in jobs:
        lines.setdefault(job.queue, PendingQueue()).add(job)
    return JobOrder(accounts, lines, lambda job: True)


def order(queues, jobs, using=None, gpus=8):
    """The ids in the order in which they would be served, each admitted when its turn comes."""
    accounts = Accounts(queues, [a_node("n", gpus)])
    for job in jobs:
        accounts.demand(accounts.of(job.queue), job.milli)
    for name, milli in (using or {}).items():
        accounts.demand(accounts.of(name), milli)
        add_usage(accounts.of(name), milli, fixed=False)
    accounts.divide()
    turn = turn_of(accounts, jobs)
    found = []
    while (job := turn.next()) is not None:
        found.append(job.id)
        add_usage(accounts.of(job.queue), job.milli, fixed=False)
        turn.done()
    return found


def test_inside_a_queue_priority_then_seniority_then_id():
    jobs = [
        a_job("late", "q", submitted=9),
        a_job("b", "q", submitted=1),
        a_job("a", "q", submitted=1),
        a_job("urgent", "q", submitted=99, priority=1),
    ]
    assert order([a_queue("q", 4)], jobs) == ["urgent", "a", "b", "late"]


def test_a_queue_within_its_quota_goes_before_one_that_borrows():
    jobs = [a_job("borrower", "rich", submitted=0), a_job("entitled", "poor", submitted=5)]
    assert order([a_queue("rich", 1), a_queue("poor", 1)], jobs, {"rich": 1000}) == ["entitled", "borrower"]


def test_queues_take_turns_by_the_part_of_their_share_that_they_use():
    jobs = [a_job(f"{q}{i}", q, submitted=i) for q in ("large", "small") for i in range(3)]
    found = order([a_queue("large", 4, over_quota_weight=0), a_queue("small", 2, over_quota_weight=0)], jobs)
    assert found == ["large0", "small0", "large1", "large2", "small1", "small2"]


def test_a_queue_priority_decides_between_those_equally_entitled():
    jobs = [a_job("low", "a"), a_job("high", "b", submitted=9)]
    assert order([a_queue("a", 2), a_queue("b", 2, priority=1)], jobs) == ["high", "low"]


def test_a_queue_within_its_fair_share_goes_before_a_higher_queue_priority():
    queues = [a_queue("hungry", priority=5, over_quota_weight=0), a_queue("fair")]
    assert order(queues, [a_job("h", "hungry"), a_job("f", "fair")], gpus=1) == ["f", "h"]


def test_a_queue_above_its_fair_share_goes_last_whatever_its_priority():
    queues = [a_queue("over", priority=9, over_quota_weight=0), a_queue("under", over_quota_weight=0)]
    assert order(queues, [a_job("o", "over"), a_job("u", "under")], {"over": 1000})[0] == "u"


def test_the_guarantee_goes_before_a_fair_share_of_the_surplus_and_before_queue_priority():
    queues = [a_queue("wealthy", priority=9), a_queue("modest", 1)]
    assert order(queues, [a_job("w", "wealthy"), a_job("m", "modest")], gpus=4) == ["m", "w"]


def test_departments_are_compared_before_their_queues():
    queues = [a_queue("x", 1), a_queue("x/a", 1, parent="x"), a_queue("y", 1), a_queue("y/b", 1, parent="y")]
    jobs = [a_job("xa", "x/a", submitted=0), a_job("yb", "y/b", submitted=5)]
    assert order(queues, jobs, {"x": 500}, gpus=4) == ["yb", "xa"]


def test_those_passed_over_take_their_class_with_them_and_nobody_else():
    accounts = Accounts([a_queue("q", 1)])
    jobs = [a_job(f"big{i}", "q", 4, submitted=i) for i in range(3)] + [a_job("small", "q", 1, submitted=9)]
    turn = turn_of(accounts, jobs)
    assert turn.next().id == "big0"
    turn.skip_class()
    assert turn.next().id == "small"
    turn.done()
    assert turn.next() is None


def test_a_queue_touched_by_others_is_compared_anew():
    accounts = Accounts([a_queue("a", 2), a_queue("b", 2)])
    add_usage(accounts.of("b"), 1000, fixed=False)
    turn = turn_of(accounts, [a_job("x", "a"), a_job("y", "b")])
    assert turn.next().id == "x"
    add_usage(accounts.of("b"), -1000, fixed=False)
    add_usage(accounts.of("a"), 1000, fixed=False)
    turn.touch(accounts.of("a"))
    turn.touch(accounts.of("b"))
    assert turn.next().id == "y"


def in_turn(*jobs, used=None, hopeless=()):
    """The order in which a queue without bounds serves these; those of `hopeless` are passed over."""
    accounts = Accounts([a_queue("q", 9)])
    line = PendingQueue()
    for job in jobs:
        line.add(job)
    turn = JobOrder(accounts, {"q": line}, lambda job: True, used=used)
    served = []
    while (workload := turn.next()) is not None:
        served.append(workload.id)
        if workload.id in hopeless:
            turn.skip_class()
        else:
            turn.done()
    return served


def of(owner, name, submitted, **fields):
    return a_job(name, "q", owner=owner, submitted=submitted, **fields)


BURST = [of("ann", f"a{i}", i) for i in range(3)] + [of("bob", f"b{i}", 10 + i) for i in range(2)]


def test_by_default_the_older_one_goes_first_whoever_sent_it():
    assert in_turn(*BURST) == ["a0", "a1", "a2", "b0", "b1"]


def test_per_user_the_one_with_less_of_the_queue_goes_first():
    assert in_turn(*BURST, used={}) == ["a0", "b0", "a1", "b1", "a2"]
    assert in_turn(*BURST, used={"q": {"ann": 2000}}) == ["b0", "b1", "a0", "a1", "a2"]


def test_per_user_a_higher_priority_still_goes_first():
    urgent = of("ann", "a9", 20, priority=1)
    assert in_turn(*BURST, urgent, used={"q": {"ann": 5000}})[0] == "a9"


def test_per_user_large_work_counts_for_what_it_is():
    jobs = [of("ann", "big", 0, gpus=3), of("ann", "a1", 1), *(of("bob", f"b{i}", 10 + i) for i in range(3))]
    assert in_turn(*jobs, used={}) == ["big", "b0", "b1", "b2", "a1"]


def test_per_user_those_like_one_that_cannot_be_helped_are_passed_over_whoever_sent_them():
    assert in_turn(*BURST, used={}, hopeless={"a0"}) == ["a0"]


def test_per_user_the_place_in_the_queue_is_that_of_the_turn():
    members = sorted(BURST, key=seniority)
    assert [w.id for w in in_fair_order(members, {"ann": 500})] == in_turn(*BURST, used={"q": {"ann": 500}})


def test_per_user_what_the_cycle_itself_starts_counts():
    cluster = Cluster().node("n", 3).queue("q", 3)
    cluster.add(running(of("ann", "there", 0), "n-0"), *BURST)
    decision = run_cycle(cluster.snapshot(), Policy(per_user=True), NOW)
    assert admitted(decision) == ["b0", "a0"]
    assert [(entry.workload, entry.position) for entry in decision.pending] == [("b1", 1), ("a1", 2), ("a2", 3)]


def test_per_user_a_replica_that_is_evicted_does_not_count():
    job = replace(a_job("wide", "q", tasks=2), min_members=1, elastic=True)
    snapshot = Cluster().node("n", 2).queue("q", 2).add(running(job, "n-0", "n-1")).snapshot()
    state = begin_cycle(ClusterIndex(snapshot, Policy(per_user=True)), NOW)
    index, allocations, evictions = state.inputs.index, state.allocations, state.evictions
    assert user_usage(index, allocations, evictions) == {"q": {"ann": 2000}}
    (replica,) = allocations.replicas.surplus_of(job)
    allocations.release(replica)
    evictions.evict_replica(
        ReplicaEviction(replica=replica, reason=EvictReason.RECLAIMED, by=None, sentence=lambda _: "")
    )
    assert user_usage(index, allocations, evictions) == {"q": {"ann": 1000}}
