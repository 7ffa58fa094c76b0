"""Reservations: who has waited long starts in the end, others go around it, and no guarantee is broken by it."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Reserve
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, admitted, apply, evicted, running, stopped, why, without
from tests.explanations import explained

LONG = 1800.0


def decide(snapshot, now=NOW, **settings):
    return run_cycle(snapshot, Policy(**settings), Instant(now))


def waiting_long(name="big", queue="q", gpus=2, **fields):
    """It has waited for forty minutes."""
    return a_job(name, queue, gpus, submitted=1000 - 2400, owner="bob", **fields)


def half_free(**fields):
    """One node with two GPUs, one of them in use, and one who has waited long for both."""
    return (
        Cluster()
        .node("n", 2)
        .queue("q", 2, **fields)
        .add(running(a_job("here", "q", preemptible=False), "n-0"), waiting_long())
    )


def reserved(snapshot, **settings):
    """The cluster after the cycle that made the reservation, which is all that it did."""
    decision = decide(snapshot, **settings)
    assert [type(i) for i in decision.instructions] == [Reserve]
    after = apply(snapshot, decision)
    assert decide(after, **settings).instructions == ()
    return after


def plus(snapshot, *workloads):
    return replace(snapshot, workloads=(*snapshot.workloads, *workloads))


def test_of_those_who_share_the_reserved_device_only_as_many_are_named_as_must_stop():
    cluster = Cluster().node("n", 1).queue("q", 2).add(waiting_long("half", gpus="0.5"))
    cluster.add(*(running(a_job(name, "q", "0.5"), "n-0", since=start) for name, start in (("old", 0), ("new", 900))))
    assert why(decide(reserved(cluster.snapshot())), "half").why.blockers == ("new",)


def test_who_has_waited_long_gets_a_place_that_is_written_down():
    decision = decide(half_free().snapshot())
    assert decision.instructions == (
        Reserve(workload="big", placement=(TaskPlacement(node="n", devices=("n-0", "n-1")),)),
    )
    entry = why(decision, "big").why
    assert entry.reason is PendingReason.NO_FREE_DEVICE
    assert reveal(entry.sentence) == (
        "Waiting: after 40 min, GPUs are reserved for it as they become free: 1 of 2 GPUs is free so far; "
        "ann's here (1 GPU) still uses the rest."
    )
    assert entry.blockers == ("here",)
    assert entry.numbers["held"] == 1000


def test_others_of_its_queue_wait_and_are_told_for_whom():
    after = plus(reserved(half_free().snapshot()), a_job("small", "q"))
    decision = decide(after)
    assert decision.instructions == ()
    entry = why(decision, "small").why
    assert entry.reason is PendingReason.RESERVED
    assert (
        reveal(entry.sentence)
        == "Waiting: 1 GPU is free, but reserved for bob's big (2 GPUs), which has waited 40 min."
    )
    assert entry.blockers == ("big",)
    assert admitted(decide(without(after, "big"))) == ["small"]


def test_only_the_owner_of_the_reservation_that_moved_away_is_named_by_who_had_to_leave_it_alone():
    """`big` could start at `m` in ten seconds, so its reservation moves there. That of `other` was never in the way."""
    cluster = Cluster().node("n", 2).node("m", 2).node("o", 1).queue("q", 8)
    cluster.add(
        running(a_job("endless", "q", preemptible=False), "n-0"),
        running(a_job("short", "q", 2, preemptible=False, estimate=110), "m-0", "m-1", since=900),
        running(a_job("longer", "q", preemptible=False, estimate=400), "o-0", since=900),
        replace(waiting_long(), reserved=(TaskPlacement(node="n", devices=("n-0", "n-1")),)),
        replace(waiting_long("other", gpus=1), reserved=(TaskPlacement(node="o", devices=("o-0",)),)),
        a_job("small", "q"),
    )
    decision = decide(cluster.snapshot(), reserve_after=Seconds(495), reservations=2)
    places = {each.workload: each.placement for each in decision.instructions if isinstance(each, Reserve)}
    assert [task.node for task in places["big"]] == ["m"]
    entry = why(decision, "small").why
    assert (entry.reason, entry.blockers) == (PendingReason.RESERVED, ("big",))


def test_it_starts_as_soon_as_all_of_it_is_free_and_the_place_is_forgotten():
    after = plus(without(reserved(half_free().snapshot()), "here"), a_job("small", "q", submitted=-9000))
    decision = decide(after)
    assert admitted(decision) == ["big"]
    assert [w.reserved for w in apply(after, decision).workloads if w.id == "big"] == [()]


@pytest.mark.parametrize(
    "other",
    [
        a_job("other", "q", priority=1),
        a_job("other", "q", estimate=Seconds(100)),
    ],
    ids=["higher priority in its queue", "expected to end before the others there do"],
)
def test_who_may_start_on_what_is_held(other):
    snapshot = half_free().snapshot()
    estimated = tuple(replace(w, estimate=Seconds(2000)) if w.id == "here" else w for w in snapshot.workloads)
    after = plus(reserved(replace(snapshot, workloads=estimated)), other)
    assert admitted(decide(after)) == ["other"]


def test_who_may_last_longer_than_the_others_there_does_not_start():
    """`here` began 1000 s ago and is expected to run for 2000 s: in 1000 s both devices may be free."""
    snapshot = half_free().snapshot()
    estimated = tuple(replace(w, estimate=Seconds(2000)) if w.id == "here" else w for w in snapshot.workloads)
    after = reserved(replace(snapshot, workloads=estimated))
    assert admitted(decide(plus(after, a_job("fits", "q", estimate=Seconds(1000))))) == ["fits"]
    assert admitted(decide(plus(after, a_job("too-long", "q", estimate=Seconds(1001))))) == []


@pytest.mark.parametrize("per_user", [False, True])
def test_who_is_short_enough_starts_also_behind_like_work_that_is_a_little_too_long(per_user):
    snapshot = half_free().snapshot()
    estimated = tuple(replace(w, estimate=Seconds(2000)) if w.id == "here" else w for w in snapshot.workloads)
    after = reserved(replace(snapshot, workloads=estimated), per_user=per_user)
    older = [
        a_job(f"older-{owner}", "q", owner=owner, submitted=900, estimate=Seconds(1023)) for owner in ("ann", "eve")
    ]
    longer = a_job("longer", "q", owner="ann", submitted=910, estimate=Seconds(1010))
    short = a_job("short", "q", owner="ann", submitted=920, estimate=Seconds(990))
    assert admitted(decide(plus(after, *older, longer, short), per_user=per_user)) == ["short"]


def test_where_nobody_knows_when_it_ends_nothing_short_goes_before():
    after = plus(reserved(half_free().snapshot()), a_job("short", "q", estimate=Seconds(1)))
    assert admitted(decide(after)) == []


def test_a_guarantee_of_another_queue_is_not_broken_by_it():
    cluster = half_free().queue("z", 1).add(a_job("entitled", "z"))
    snapshot = cluster.snapshot()
    after = apply(snapshot, decide(without(snapshot, "entitled")))
    assert admitted(decide(plus(without(after, "entitled"), a_job("entitled", "z")))) == ["entitled"]


def test_a_notebook_starts_on_what_is_held():
    cluster = half_free().fixed("train", ann="0.5")
    after = plus(reserved(cluster.snapshot()), a_notebook("ann", "0.5"))
    assert admitted(decide(after)) == ["nb-ann"]


def test_entitled_work_goes_where_nothing_is_held_if_possible():
    cluster = half_free().node("m", 1).queue("z", 1)
    cluster.add(running(a_job("there", "q", preemptible=False), "m-0"))
    cluster.queues[0] = replace(cluster.queues[0], quota=3000)
    after = plus(without(reserved(cluster.snapshot()), "there"), a_job("entitled", "z"))
    decision = decide(after)
    assert [i.placement[0].node for i in decision.instructions if i.workload == "entitled"] == ["m"]


def test_a_borrower_may_use_what_is_held_if_it_can_be_taken_back_at_once():
    """`big` is within the quota of its queue, so whoever borrows its devices gives way when the last one is free."""
    cluster = half_free().queue("z")
    cluster.queues[0] = replace(cluster.queues[0], quota=3000)
    after = plus(reserved(cluster.snapshot()), a_job("borrower", "z"))
    decision = decide(after)
    assert admitted(decision) == ["borrower"]
    free = without(apply(after, decision), "here")
    assert evicted(decide(free)) == ["borrower"]
    assert admitted(decide(stopped(apply(free, decide(free))))) == ["big"]


def test_a_borrower_may_not_if_its_queue_lets_it_run_for_a_while_first():
    cluster = half_free().queue("z", reclaim_min_runtime=Seconds(600))
    cluster.queues[0] = replace(cluster.queues[0], quota=3000)
    assert admitted(decide(plus(reserved(cluster.snapshot()), a_job("borrower", "z")))) == []


def test_a_borrower_may_if_the_one_who_waits_would_borrow_too():
    """The queue of `big` has no quota left for it: it has no claim against another queue."""
    cluster = half_free().queue("z")
    assert admitted(decide(plus(reserved(cluster.snapshot()), a_job("borrower", "z")))) == ["borrower"]


def test_the_place_is_where_everything_ends_first():
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 4)
    cluster.add(
        running(a_job("m0", "q", preemptible=False, estimate=Seconds(9000)), "m-0"),
        running(a_job("n0", "q", preemptible=False, estimate=Seconds(5000)), "n-0"),
        running(a_job("n1", "q", preemptible=False, estimate=Seconds(6000)), "n-1"),
        waiting_long(),
    )
    (place,) = [i.placement[0].node for i in decide(cluster.snapshot()).instructions]
    assert place == "n"


def test_what_has_run_long_is_expected_to_run_long():
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 4)
    cluster.add(
        running(a_job("old", "q", preemptible=False), "m-0", since=-900_000),
        running(a_job("n0", "q", preemptible=False), "n-0", since=0),
        running(a_job("n1", "q", preemptible=False), "n-1", since=0),
        waiting_long(),
    )
    (place,) = [i.placement[0].node for i in decide(cluster.snapshot()).instructions]
    assert place == "n"


def test_the_place_stays_unless_another_is_far_sooner():
    """`m0` turns out to run for ever; when that is seen, the place moves to the other node, once."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 4)
    cluster.add(
        running(a_job("m0", "q", preemptible=False), "m-0", since=900),
        running(a_job("n0", "q", preemptible=False, estimate=Seconds(90_000)), "n-0", since=0),
        waiting_long(),
    )
    after = reserved(cluster.snapshot())
    assert decide(after, NOW + 5000).instructions == ()
    short = replace(
        after,
        workloads=tuple(replace(w, estimate=Seconds(21_000)) if w.id == "n0" else w for w in after.workloads),
    )
    moved = decide(short, NOW + 19_000)
    assert [i.placement[0].node for i in moved.instructions] == ["n"]
    assert decide(apply(short, moved), NOW + 19_000).instructions == ()


def test_a_lost_device_means_another_place():
    cluster = half_free().node("p", 2).add(running(a_job("p0", "q", 2, preemptible=False), "p-0", "p-1", since=-90_000))
    cluster.queues[0] = replace(cluster.queues[0], quota=5000)
    after = reserved(cluster.snapshot())
    broken = replace(after, nodes=after.nodes[1:], workloads=tuple(w for w in after.workloads if w.id != "here"))
    assert [(i.workload, i.placement[0].node) for i in decide(broken).instructions] == [("big", "p")]


@pytest.mark.parametrize("settings", [{"reserve_after": None}, {"reserve_after": Seconds(3000)}, {"reservations": 0}])
def test_nobody_gets_one_where_the_policy_says_so(settings):
    assert decide(half_free().snapshot(), **settings).instructions == ()


def test_a_run_that_ended_begins_the_wait_anew():
    snapshot = half_free().snapshot()
    paused = tuple(replace(w, requeued_at=NOW) if w.id == "big" else w for w in snapshot.workloads)
    assert decide(replace(snapshot, workloads=paused)).instructions == ()


def test_who_is_at_a_limit_gets_none_and_the_next_one_does():
    cluster = Cluster().node("n", 2).queue("q", 1, limit=1).queue("z", 2)
    cluster.add(
        running(a_job("here", "q", preemptible=False), "n-0"),
        waiting_long("at-limit"),
        a_job("next", "z", 2, submitted=1000 - 2000),
        running(a_job("there", "z", preemptible=False), "n-1"),
    )
    assert [i.workload for i in decide(cluster.snapshot()).instructions] == ["next"]


def test_in_each_pool_so_many_at_a_time_as_the_policy_says():
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 6)
    cluster.add(
        running(a_job("m0", "q", preemptible=False), "m-0"), running(a_job("n0", "q", preemptible=False), "n-0")
    )
    cluster.add(waiting_long("first"), waiting_long("second"), waiting_long("third"))
    snapshot = cluster.snapshot()
    assert len(decide(snapshot).instructions) == 1
    both = decide(snapshot, reservations=2)
    assert {i.placement[0].node for i in both.instructions} == {"m", "n"}


# --- no starvation


def feed(policy: Policy) -> float | None:
    """Four GPUs. A job for one GPU comes every 100 s, for ever, and runs for 450 s; `big` needs all four.

    When it starts, in seconds from its submission; None = not within six hours.
    """
    begun = (
        Cluster().node("n", 4).queue("q", 4).add(running(a_job("s", "q"), "n-0"), a_job("big", "q", 4, submitted=1000))
    )
    snapshot, ends = begun.snapshot(), {"s": NOW + 450}
    for number in range(216):
        now = NOW + 100 * number
        small = replace(a_job(f"s{number:04d}", "q"), submitted_at=Instant(now))
        gone = [name for name, end in ends.items() if end <= now]
        snapshot = plus(without(snapshot, *gone), small)
        decision = run_cycle(snapshot, policy, Instant(now))
        if "big" in admitted(decision):
            return now - NOW
        snapshot = apply(snapshot, decision, now)
        ends |= {name: now + 450 for name in admitted(decision)}
    return None


def test_small_jobs_for_ever_do_not_keep_a_large_one_from_starting():
    assert feed(Policy(reserve_after=None)) is None
    waited = feed(Policy())
    assert waited is not None
    assert waited <= LONG + 450 + 100


def four_cores(gpus):
    """A node with four cores, one of them in use, and one who has waited long for all four and as many GPUs."""
    cluster = Cluster().node("n", 2).queue("q", 2)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=4000)
    here = with_cores(running(a_job("here", "q", gpus, preemptible=False), "n-0"), 1)
    return cluster.add(here, with_cores(waiting_long(gpus=gpus), 4))


def with_cores(job, cores):
    return replace(job, request=replace(job.request, cpu_milli=1000 * cores))


def test_who_waits_only_for_processors_that_are_held_is_told_for_whom():
    after = plus(reserved(four_cores(gpus=1).snapshot()), with_cores(a_job("small", "q"), 1))
    decision = explained(after, Policy(), NOW)
    assert decision.instructions == ()
    entry = why(decision, "small").why
    assert entry.reason is PendingReason.RESERVED
    assert reveal(entry.sentence) == (
        "Waiting: CPU or memory that it needs is reserved for bob's big (1 GPU), which has waited 40 min."
    )
    assert entry.blockers == ("big",)
    assert admitted(decide(without(after, "big"))) == ["small"]


def test_who_has_all_the_gpus_that_are_held_and_lacks_processors_is_told_so():
    entry = why(explained(reserved(four_cores(gpus="0.5").snapshot()), Policy(), NOW), "big").why
    assert entry.reason is PendingReason.NO_CPU_OR_MEMORY
    assert "no node with 0.5 GPU idle has 4 CPU cores free; ann's here (0.5 GPU) is in the way" in reveal(
        entry.sentence
    )


def test_a_reservation_ends_in_the_decision_that_leaves_its_owner_above_a_limit_and_others_get_its_devices_at_once():
    cluster = Cluster().node("n", 2).node("m", 1).queue("d", 3, limit="2.5").queue("other", 1)
    cluster.queue("d/q", 2, parent="d").queue("d/r", 1, parent="d")
    cluster.add(running(a_job("here", "other", preemptible=False), "n-0"), waiting_long(queue="d/q"))
    after = reserved(cluster.snapshot())
    arrived = plus(after, a_job("one", "d/r", submitted=1), a_job("small", "d/q", submitted=2))
    decision = decide(arrived)
    assert sorted(admitted(decision)) == ["one", "small"]
    assert [each for each in decision.instructions if isinstance(each, Reserve)] == [
        Reserve(workload="big", placement=())
    ]
    assert decide(apply(arrived, decision)).instructions == ()
