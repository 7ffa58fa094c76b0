"""Back-off: a workload whose place was refused pauses, keeps its place in its queue, and is passed meanwhile."""

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import Grant, PendingReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, admitted, backing_off, evicted, running, why


def cluster(*workloads: Workload, devices: int = 1) -> Cluster:
    return Cluster().node("n", devices).queue("vision", 1).queue("nlp", 1).add(*workloads)


def decide(*workloads: Workload, devices: int = 1, policy: Policy | None = None) -> Decision:
    return run_cycle(cluster(*workloads, devices=devices).snapshot(), policy or Policy(), NOW)


def positions(decision: Decision) -> dict[str, int]:
    return {entry.workload: entry.position for entry in decision.pending}


def test_each_workload_that_backs_off_has_its_own_place_in_its_queue():
    decision = decide(
        a_job("first", "vision", 2, submitted=1),
        backing_off(a_job("second", "vision", submitted=2)),
        a_job("third", "vision", 2, submitted=3),
        backing_off(a_job("fourth", "vision", submitted=4)),
        backing_off(a_job("elsewhere", "nlp")),
    )
    assert positions(decision) == {"first": 1, "second": 2, "third": 3, "fourth": 4, "elsewhere": 1}


def test_priority_and_fair_shares_of_users_order_them_as_all_others():
    jobs = [
        backing_off(a_job("old", "vision", 2, owner="ann", submitted=1)),
        a_job("new", "vision", 2, owner="bob", submitted=2),
        backing_off(a_job("urgent", "vision", 2, owner="ann", submitted=3, priority=9)),
        running(a_job("runs", "vision", owner="ann"), "n-0"),
    ]
    assert positions(decide(*jobs)) == {"urgent": 1, "old": 2, "new": 3}
    assert positions(decide(*jobs, policy=Policy(per_user=True))) == {"urgent": 1, "new": 2, "old": 3}


def test_workloads_behind_it_pass_while_it_backs_off_and_not_before():
    first, second = a_job("first", "vision", submitted=1), a_job("second", "vision", submitted=2)
    assert admitted(decide(first, second)) == ["first"]
    passed = decide(backing_off(first), second)
    assert (admitted(passed), positions(passed)) == (["second"], {"first": 1})


def test_nothing_gives_way_to_it_while_it_backs_off():
    holds, borrows = running(a_job("holds", "vision"), "n-0"), running(a_job("borrows", "vision", submitted=1), "n-1")
    entitled = a_job("entitled", "nlp", submitted=2)
    assert len(evicted(decide(holds, borrows, entitled, devices=2))) == 1
    assert evicted(decide(holds, borrows, backing_off(entitled), devices=2)) == []


def test_it_reads_what_the_backend_said_and_for_how_long_it_pauses():
    entry = why(decide(backing_off(a_job("a", "vision"), times=3, pause=80, sentence="No room on n1.")), "a")
    assert entry.why.reason is PendingReason.PLACE_REFUSED
    assert entry.why.sentence == "No room on n1. The scheduler tries again after a pause of 80 s."
    assert entry.why.numbers == {"times": 3, "seconds": 80}
    assert entry.why.remedy is not None
    assert (entry.why.remedy.grant, entry.why.remedy.amount) == (Grant.TIME, 80)


@pytest.mark.parametrize(("now", "starts"), [(-0.001, False), (0, True), (50, True)])
def test_it_takes_part_again_from_the_end_of_the_pause_on(now, starts):
    snapshot = cluster(backing_off(a_job("a", "vision"), until=NOW)).snapshot()
    assert (admitted(run_cycle(snapshot, Policy(), Instant(NOW + now))) == ["a"]) is starts


def test_a_run_that_followed_a_refusal_is_like_any_other():
    decision = decide(backing_off(running(a_job("a", "vision"), "n-0")), a_job("b", "vision"))
    assert "a" not in positions(decision)
    assert why(decision, "b").why.blockers == ("a",)


def test_a_scheduler_that_remembers_follows_the_time_forth_and_back():
    job = backing_off(a_job("a", "vision"), until=NOW)
    snapshot = cluster(job, a_job("b", "vision", submitted=1)).snapshot()
    kept = Scheduler(snapshot, Policy())
    before = Instant(NOW - 1)
    for now, expected in ((before, ["b"]), (NOW, ["a"]), (before, ["b"]), (NOW, ["a"])):
        decision = kept.decide(now)
        assert admitted(decision) == expected
        assert decision == run_cycle(snapshot, Policy(), now)


def test_a_scheduler_that_remembers_hears_of_back_offs_and_of_their_removal():
    job = a_job("a", "vision")
    kept = Scheduler(cluster(job).snapshot(), Policy())
    assert admitted(kept.decide(NOW)) == ["a"]
    kept.put(backing_off(job))
    assert (admitted(kept.decide(NOW)), positions(kept.decide(NOW))) == ([], {"a": 1})
    kept.follow(cluster(job).snapshot(), Policy())
    assert admitted(kept.decide(NOW)) == ["a"]
    kept.put(backing_off(job))
    kept.remove("a")
    assert kept.decide(NOW).pending == ()
    assert kept.decide(Instant(NOW + 1000)).instructions == ()
