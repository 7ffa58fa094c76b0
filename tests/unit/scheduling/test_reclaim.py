"""Reclaim: who may take what from whom, and how little."""

from dataclasses import replace
from fractions import Fraction

import pytest

from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Accounts
from jupyter_gq.scheduling.quota.reclaim_rights import may_reclaim
from tests.builders import (
    NOW,
    Cluster,
    a_job,
    a_node,
    a_queue,
    acts,
    admitted,
    apply,
    evicted,
    running,
    stopped,
    stopping,
    why,
)


def cycle(cluster):
    return run_cycle(cluster.snapshot(), Policy(), NOW)


def two_queues(devices=1, a="0.5", b="0.5", **fields):
    return Cluster().node("n", devices).queue("a", a, **fields).queue("b", b, **fields)


def test_a_queue_within_its_quota_takes_it_back_from_a_borrower():
    cluster = two_queues().add(running(a_job("digits", "a"), "n-0"), a_job("bert", "b", "0.5", owner="bob"))
    decision = cycle(cluster)
    assert acts(decision) == (
        Evict(
            workload="digits",
            reason=EvictReason.RECLAIMED,
            by="bert",
            sentence="Paused: b needed its 0.5 GPU back. Continues by itself when a GPU is free.",
        ),
    )
    assert why(decision, "bert").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert why(decision, "bert").why.blockers == ("digits",)


def test_what_goes_to_a_queue_beyond_its_guarantee_is_not_called_its_own():
    """Queue a has half of a GPU guaranteed, as b has; both may borrow the third one."""
    cluster = two_queues(2).add(*[running(a_job(f"a{i}", "a", "0.5"), f"n-{i // 2}", since=i) for i in range(4)])
    sentences = [each.sentence for each in acts(cycle(cluster.add(a_job("bert", "b", "1"))))]
    assert (
        sentences
        == ["Paused: b, which used less than its fair share, gets 1 GPU. Continues by itself when a GPU is free."] * 2
    )


def test_the_guarantee_is_taken_even_from_a_borrower_within_its_fair_share():
    """Enough is idle in sum, so the borrower's fair share is large; but on no device."""
    cluster = two_queues(2).add(*[running(a_job(f"a{i}", "a", "0.6"), f"n-{i}", since=i) for i in range(2)])
    assert evicted(cycle(cluster.add(a_job("bert", "b", "0.5")))) == ["a1"]


def test_what_has_not_started_yet_goes_before_what_runs():
    starting = running(a_job("starting", "a", "0.5"), "n-0", since=0, state=State.STARTING)
    cluster = two_queues().add(starting, running(a_job("newer", "a", "0.5"), "n-0", since=9), a_job("b", "b", "0.5"))
    assert evicted(cycle(cluster)) == ["starting"]


def test_of_many_released_on_the_way_only_the_needed_ones_go():
    """The newest of each device come first: seventeen are tried before one device of six is free."""
    cluster = two_queues(6, a=1, b=1)
    for since in range(4):
        cluster.add(*[running(a_job(f"a{d}{since}", "a", "0.25"), f"n-{d}", since=10 * since + d) for d in range(6)])
    taken = evicted(cycle(cluster.add(a_job("bert", "b"))))
    assert len(taken) == 4
    assert len({name[:2] for name in taken}) == 1


def test_one_victim_that_is_enough_for_both_tasks_goes_alone():
    """The newer one is released first and used by the first placement; there is a placement without it."""
    cluster = two_queues(3, a=1, b=2).add(
        running(a_job("newer", "a"), "n-0", since=9),
        running(a_job("pair", "a", tasks=2), "n-1", "n-2", since=1),
        a_job("gang", "b", tasks=2),
    )
    assert evicted(cycle(cluster)) == ["pair"]


def test_what_runs_is_not_taken_because_of_what_its_queue_is_only_promised():
    """`promised` would bring its queue above its quota, but what runs there is within it."""
    cluster = Cluster().node("n", 2).queue("a", "0.9").queue("b", "0.3").queue("c", "0.8").queue("z")
    cluster.add(
        running(a_job("runs", "a", "0.9"), "n-1"),
        running(a_job("borrower", "z"), "n-0"),
        a_job("first", "b", "0.3"),
        a_job("promised", "a", "0.4"),
        a_job("large", "c", "0.8"),
    )
    assert evicted(cycle(cluster)) == ["borrower"]


def test_what_goes_beyond_the_share_takes_nothing():
    cluster = two_queues().add(running(a_job("digits", "a"), "n-0"), a_job("big", "b", "0.7"))
    assert cycle(cluster).instructions == ()


def test_a_queue_within_its_quota_loses_nothing():
    cluster = two_queues(1, a=1, b=1).add(running(a_job("digits", "a"), "n-0"), a_job("bert", "b"))
    assert cycle(cluster).instructions == ()


def test_what_cannot_be_paused_is_never_evicted():
    held = running(a_job("fixed", "a", "0.5", preemptible=False), "n-0")
    cluster = two_queues().add(held, running(a_job("more", "a", "0.5"), "n-0"), a_job("bert", "b", "0.5"))
    assert evicted(cycle(cluster)) == ["more"]


def test_the_newest_run_goes_first():
    old, new = a_job("old", "a", "0.5"), a_job("new", "a", "0.5")
    cluster = two_queues().add(running(old, "n-0", since=1), running(new, "n-0", since=2), a_job("bert", "b", "0.5"))
    assert evicted(cycle(cluster)) == ["new"]


def test_lower_priority_goes_before_newer():
    low, high = a_job("low", "a", "0.5"), a_job("high", "a", "0.5", priority=1)
    cluster = two_queues().add(running(low, "n-0", since=1), running(high, "n-0", since=2), a_job("bert", "b", "0.5"))
    assert evicted(cycle(cluster)) == ["low"]


def test_victims_that_turn_out_not_to_be_needed_stay():
    """The newest is too small to help; the next one is enough alone."""
    cluster = two_queues(2, a="0.5", b=1).add(
        running(a_job("tiny", "a", "0.25"), "n-1", since=9),
        running(a_job("rest", "a", "0.75"), "n-1", since=0),
        running(a_job("whole", "a"), "n-0", since=5),
        a_job("bert", "b"),
    )
    assert evicted(cycle(cluster)) == ["whole"]


def test_when_few_may_be_taken_those_that_lie_together_are_found():
    """Only one GPU above the quota: one after another, the newest ones would be spread over both devices."""
    cluster = two_queues(2, a=1, b=1).add(
        running(a_job("l0", "a", "0.5"), "n-0", since=1),
        running(a_job("l1", "a", "0.5"), "n-1", since=2),
        running(a_job("l2", "a", "0.5"), "n-0", since=3),
        running(a_job("l3", "a", "0.5"), "n-1", since=4),
        a_job("bert", "b"),
    )
    assert sorted(evicted(cycle(cluster))) in (["l0", "l2"], ["l1", "l3"])


def test_fair_share_beyond_the_quota_is_taken_back_too():
    cluster = two_queues(2, a=0, b=0).add(*[running(a_job(f"j{i}", "a"), f"n-{i}", since=i) for i in range(2)])
    cluster.add(a_job("bert", "b"))
    assert evicted(cycle(cluster)) == ["j1"]


def test_what_is_already_being_freed_for_it_is_not_freed_twice():
    cluster = two_queues(2, a=0, b=1).add(
        stopping(running(a_job("first", "a"), "n-0"), by="bert"), running(a_job("second", "a"), "n-1")
    )
    decision = cycle(cluster.add(a_job("bert", "b")))
    assert acts(decision) == ()
    assert why(decision, "bert").why.blockers == ("first",)


def test_nobody_snatches_what_was_freed_for_another():
    """Even a workload that comes first in the order waits for the one for whom somebody was paused."""
    cluster = two_queues(1, a="0.5", b="0.5").add(stopping(running(a_job("digits", "a"), "n-0"), by="bert"))
    cluster.add(a_job("bert", "b", "0.5", submitted=9), a_job("x", "b", "0.5", submitted=0), a_job("y", "a", "0.25"))
    decision = cycle(cluster)
    assert why(decision, "bert").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert why(decision, "x").why.reason is not PendingReason.WAITS_FOR_EVICTION
    assert acts(decision) == ()


def test_a_higher_priority_in_the_same_queue_gets_what_was_freed():
    cluster = two_queues(1, a="0.5", b="0.5").add(stopping(running(a_job("digits", "a"), "n-0"), by="bert"))
    decision = cycle(cluster.add(a_job("bert", "b", "0.5"), a_job("urgent", "b", "0.5", priority=1)))
    assert why(decision, "urgent").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert acts(decision) == ()


def test_a_queue_leaves_alone_departments_within_their_quota():
    cluster = Cluster().node("n", 2).queue("d", 1).queue("d/a", "0.5", parent="d").queue("d/b", "0.5", parent="d")
    cluster.queue("e", 1).add(
        running(a_job("a1", "d/a"), "n-0"), running(a_job("e1", "e"), "n-1"), a_job("b1", "d/b", "0.5")
    )
    assert evicted(cycle(cluster)) == ["a1"]  # its sibling gives, the other department does not


def test_room_under_a_limit_above_can_be_reclaimed():
    cluster = Cluster().node("n", 3).queue("d", 1, limit=2).queue("d/a", 1, parent="d").queue("d/b", parent="d")
    cluster.add(*[running(a_job(f"b{i}", "d/b"), f"n-{i}", since=i) for i in range(2)], a_job("a", "d/a"))
    decision = cycle(cluster)
    assert evicted(decision) == ["b1"]
    assert admitted(decision) == []


def test_a_gang_takes_whole_nodes_back():
    cluster = Cluster().node("x", 2).node("y", 2).node("z", 2).queue("a", 2).queue("b", 4)
    for node in "xyz":
        for i in range(2):
            cluster.add(running(a_job(f"{node}{i}", "a"), f"{node}-{i}", since=i))
    gang = a_job("gang", "b", 2, tasks=2)
    decision = cycle(cluster.add(gang))
    assert len(evicted(decision)) == 4
    assert len({name[0] for name in evicted(decision)}) == 2


def test_what_was_taken_is_not_taken_back():
    """A higher queue priority does not help a queue beyond its share to snatch its job's place back."""
    cluster = Cluster().node("n", 1).queue("a", over_quota_weight=0, priority=9).queue("b")
    cluster.add(running(a_job("greedy", "a"), "n-0"), a_job("fair", "b"))
    snapshot = cluster.snapshot()
    for _ in range(3):
        snapshot = stopped(apply(snapshot, run_cycle(snapshot, Policy(), NOW)))
    assert [w.id for w in snapshot.workloads if w.holds] == ["fair"]


def test_an_entitled_latecomer_is_preferred_to_a_borrower_admitted_in_the_same_cycle():
    """`big` heads its queue and fits nowhere; `small` behind it is entitled: the borrower is not started at all."""
    cluster = two_queues(1, a="0.2", b="0.5").add(
        a_job("borrower", "a", "0.7", submitted=0),
        a_job("big", "b", "0.7", submitted=1),
        a_job("small", "b", "0.5", submitted=2),
    )
    decision = cycle(cluster)
    assert admitted(decision) == ["small"]
    assert evicted(decision) == []


def departments(**fields):
    """d1 and d2 have 2 GPUs each; d1's team a wants one, its sister b holds 2, and d2's only team holds 4."""
    cluster = Cluster().node("n", 6).queue("d1", 2).queue("d2", 2)
    cluster.queue("d1/a", 1, parent="d1").queue("d1/b", 1, parent="d1", **fields).queue("d2/c", 2, parent="d2")
    cluster.add(*(running(a_job(f"b{i}", "d1/b"), f"n-{i}", since=i) for i in range(2)))
    return cluster.add(*(running(a_job(f"c{i}", "d2/c"), f"n-{2 + i}", since=10 + i) for i in range(4)))


def test_a_team_takes_from_the_department_that_is_further_above_its_share():
    """d1 would have 3 of 2 or 3; d2 then has 3 of its own."""
    cluster = departments().queue("d3", 1).queue("d3/x", 1, parent="d3")
    cluster.add(a_job("wants", "d1/a", owner="bob"), a_job("x0", "d3/x"))
    decision = cycle(cluster)
    assert sorted(evicted(decision)) == ["c2", "c3"]


def taken(lasting, fair, gives, margin=1):
    """May a leaf below `top` take 1 GPU from a leaf below `other`; (top, other) have those amounts."""
    queues = [
        a_queue("top", 1),
        a_queue("leaf", 1, parent="top"),
        a_queue("other", 1),
        a_queue("giver", 1, parent="other"),
    ]
    accounts = Accounts(queues)
    accounts.of("leaf").fair_share = 1000
    for name, amount, share in (("top", lasting[0], fair[0]), ("other", lasting[1], fair[1]), ("giver", lasting[1], 0)):
        accounts.of(name).lasting, accounts.of(name).fair_share = amount, share
    return may_reclaim(accounts.of("leaf"), accounts.of("giver"), 1000, gives=gives, margin=Fraction(margin))


@pytest.mark.parametrize(
    ("lasting", "fair", "gives", "margin", "expected"),
    [
        ((4000, 7000), (4000, 4000), 1000, 1, True),  # 5/4 beside 6/4
        ((4000, 6000), (4000, 4000), 1000, 1, False),  # 5/4 beside 5/4: they would take turns
        ((4000, 9000), (4000, 4000), 4000, 1, False),  # 5/4 beside 5/4: what goes is large
        ((4000, 7000), (4000, 4000), 1000, 1.3, False),
        ((4000, 7000), (4000, 0), 7000, 1, True),  # nothing of it is its own
        ((3000, 5000), (4000, 4000), 1000, 9, True),  # within its share nobody asks
    ],
)
def test_above_its_share_a_department_takes_only_from_one_that_stays_further_above(
    lasting, fair, gives, margin, expected
):
    assert taken(lasting, fair, gives, margin) is expected


def test_work_that_waits_for_its_guaranteed_place_counts_as_use_of_the_queues_above_it():
    """Otherwise the borrower beside it would be stopped only once that work has started."""
    cluster = Cluster().node("n", 2).queue("d", 1).queue("d/x", parent="d").queue("d/y", 1, parent="d").queue("e", 1)
    waits = replace(a_job("waits", "d/y"), reserved=(TaskPlacement(node="n", devices=("n-1",)),), nominated=True)
    ends = stopping(running(a_job("ends", "e"), "n-1"), by="waits", requeue=False)
    cluster.add(running(a_job("borrows", "d/x"), "n-0"), ends, waits, a_job("claims", "e"))
    (gone,) = (each for each in run_cycle(cluster.snapshot(), Policy(), NOW).instructions if isinstance(each, Evict))
    assert (gone.workload, gone.by) == ("borrows", "claims")


def test_running_work_of_a_queue_within_its_quota_stays_whatever_starts_beside_it():
    """Quotas of more than there is: what starts in the same cycle goes first, and it is not enough."""
    cluster = Cluster().node("n", 1).queue("small", 0.5).queue("large", 1)
    cluster.add(running(a_job("runs", "small", 0.3), "n-0"), a_job("beside", "small", 0.7, submitted=1))
    cluster.add(a_job("wants", "large", submitted=2))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert (admitted(decision), evicted(decision)) == (["beside"], [])


def test_work_without_a_gpu_gets_its_guaranteed_processors_however_many_gpus_its_queue_uses():
    def cores(job, **request):
        return replace(job, request=replace(job.request, cpu_milli=1000, **request))

    cluster = Cluster().node("n", 4).queue("own", 1, cpu_quota=2000).queue("other", 3, cpu_quota=1000)
    cluster.nodes = [replace(node, cpu_milli=3000) for node in cluster.nodes]
    cluster.add(running(replace(a_job("large", "own", 2), priority=1), "n-0", "n-1"))
    cluster.add(*(running(cores(a_job(f"other{i}", "other", submitted=i)), f"n-{2 + i}", since=i) for i in range(2)))
    cluster.add(running(cores(a_job("there", "own", priority=1), devices=0), since=5))
    cluster.workloads[-1] = replace(cluster.workloads[-1], placement=(TaskPlacement(node="n", devices=()),))
    cluster.add(cores(a_job("waits", "own", submitted=9), devices=0))
    (gone,) = (each for each in run_cycle(cluster.snapshot(), Policy(), NOW).instructions if isinstance(each, Evict))
    assert (gone.workload, gone.by) == ("other1", "waits")


def test_running_work_is_not_taken_for_the_cores_of_what_starts_beside_it():
    """`starts` lifts the cores of `a` above their quota. Then `gang` would take a replica of `runs` by that."""
    cluster = Cluster()
    cluster.nodes = [replace(a_node("m", 3), cpu_milli=4000), replace(a_node("n", 2), cpu_milli=2000)]
    cluster.queue("a", 3, cpu_quota=3000).queue("b").queue("e", 2, cpu_quota=3000)
    with_cores = {
        "runs": running(a_job("runs", "a", tasks=2, min_members=1, elastic=True), "m-1", "m-2", since=153),
        "cores": running(a_job("cores", "b", 0), since=164),
        "borrows": running(a_job("borrows", "b"), "n-0", since=288),
        "gang": a_job("gang", "e", tasks=2, submitted=500),
        "starts": a_job("starts", "a", 0, submitted=501),
    }
    for name, job in with_cores.items():
        cores = 2000 if name == "starts" else 1000
        cluster.add(replace(job, request=replace(job.request, cpu_milli=cores)))
    cluster.workloads[1] = replace(cluster.workloads[1], placement=(TaskPlacement(node="n", devices=()),))
    cluster.add(running(a_job("fixed", "a", "0.5", preemptible=False), "m-0", since=98))
    decision = cycle(cluster)
    assert [(each.workload, each.by) for each in acts(decision)] == [("cores", "gang"), ("borrows", "gang")]


def test_victims_go_in_the_order_in_which_the_rights_to_gpus_and_to_cores_both_count():
    """`many` may go only by the right to cores, and after it there would be no right to `wide` any more."""
    cluster = Cluster().queue("x", 2, cpu_quota=7000).queue("own", 3, cpu_quota=9000).queue("y")
    cluster.nodes = [replace(a_node("n", 3), cpu_milli=9000), replace(a_node("m", 2), cpu_milli=2000)]
    with_cores = {
        running(a_job("many", "x", 1), "n-0", since=200): 8000,
        running(a_job("wide", "x", 2), "n-1", "n-2", since=100): 1000,
        running(a_job("borrows", "y", 2), "m-0", "m-1", since=300): 1000,
        a_job("waits", "own", 3, submitted=500): 9000,
    }
    cluster.add(*(replace(job, request=replace(job.request, cpu_milli=milli)) for job, milli in with_cores.items()))
    assert {("many", "waits"), ("wide", "waits")} <= {(each.workload, each.by) for each in acts(cycle(cluster))}
