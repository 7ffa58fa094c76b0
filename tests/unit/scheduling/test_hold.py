"""Held work: no cycle considers it, nobody waits behind it, and its owner reads who holds it."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.mentions import render, reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Hold, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.forecast import forecast
from tests.builders import NOW, Cluster, a_job, admitted, backing_off, evicted, running, stopping, why

#: 14:02:30 on a day.
HELD_AT = Instant(1_700_056_950.0)


def held(workload: Workload, by: str = "ann") -> Workload:
    return replace(workload, hold=Hold(by=by, at=HELD_AT))


def cluster(*workloads: Workload, devices: int = 1) -> Cluster:
    return Cluster().node("n", devices).queue("vision", 1).queue("nlp", 1).add(*workloads)


def decide(*workloads: Workload, devices: int = 1, policy: Policy | None = None) -> Decision:
    return run_cycle(cluster(*workloads, devices=devices).snapshot(), policy or Policy(), NOW)


def positions(decision: Decision) -> dict[str, int]:
    return {entry.workload: entry.position for entry in decision.pending}


def test_held_work_does_not_start_and_the_next_in_line_does():
    first, second = a_job("first", "vision", submitted=1), a_job("second", "vision", submitted=2)
    assert admitted(decide(first, second)) == ["first"]
    assert admitted(decide(held(first), second)) == ["second"]
    assert admitted(decide(held(backing_off(first)), second)) == ["second"]


def test_nobody_waits_behind_held_work():
    jobs = [a_job(name, "vision", 2, submitted=at) for at, name in enumerate(("one", "two", "three"))]
    decision = decide(held(jobs[0]), backing_off(jobs[1]), jobs[2], held(a_job("alone", "nlp")))
    assert positions(decision) == {"two": 1, "three": 2, "one": 3, "alone": 1}
    assert positions(decide(held(jobs[0]), *jobs[1:], policy=Policy(per_user=True)))["one"] == 3


def test_nothing_gives_way_to_held_work():
    holds, borrows = running(a_job("holds", "vision"), "n-0"), running(a_job("borrows", "vision", submitted=1), "n-1")
    entitled = a_job("entitled", "nlp", submitted=2)
    assert len(evicted(decide(holds, borrows, entitled, devices=2))) == 1
    assert evicted(decide(holds, borrows, held(entitled), devices=2)) == []


def test_its_owner_reads_that_they_hold_it_themselves():
    entry = why(decide(held(a_job("a", "vision", owner="ann"))), "a").why
    assert entry.reason is PendingReason.HELD
    assert entry.sentence == "Held by you since 2023-11-15 14:02 UTC. It can start again once it is released."


def test_its_owner_reads_who_else_holds_it_if_names_are_shown():
    sentence = why(decide(held(a_job("a", "vision", owner="ann"), by="root")), "a").why.sentence
    assert reveal(sentence).startswith("Held by root since")
    neutral = render(sentence, lambda _: False)
    assert neutral.startswith("Held by a manager of the queue or an administrator since")


def test_work_that_stops_in_order_to_be_held_is_not_expected_back():
    """The share of a queue without other demand goes to those who can use it."""
    waits = a_job("waits", "nlp", 2, submitted=1)
    going = running(a_job("going", "vision"), "n-0")
    entitled = [running(a_job("entitled", "nlp"), "n-1")]
    snapshot = cluster(stopping(going), waits, *entitled, devices=2).queue("other", 0).snapshot()
    released, paused = (
        replace(snapshot, workloads=(stopping(each), waits, *entitled)) for each in (going, held(going))
    )
    wanted = {
        name: Scheduler(each, Policy())._index.accounts.of("vision").demand
        for name, each in (("released", released), ("paused", paused))
    }
    assert wanted == {"released": 1000, "paused": 0}


def test_a_scheduler_that_remembers_hears_of_holds_and_of_their_release():
    job, other = a_job("a", "vision"), a_job("b", "vision", submitted=1)
    kept = Scheduler(cluster(job, other).snapshot(), Policy())
    for present, expected in ((job, "a"), (held(job), "b"), (held(backing_off(job, until=NOW)), "b"), (job, "a")):
        snapshot = cluster(present, other).snapshot()
        kept.follow(snapshot, Policy())
        assert admitted(kept.decide(NOW)) == [expected]
        assert kept.decide(NOW) == run_cycle(snapshot, Policy(), NOW)


def test_no_start_is_forecast_for_held_work_and_none_of_the_others_waits_for_it():
    snapshot = cluster(held(a_job("a", "vision")), a_job("b", "vision", submitted=1)).snapshot()
    assert forecast(snapshot, Policy(), NOW, lambda job, ran: ran) == {"a": None, "b": 0}
