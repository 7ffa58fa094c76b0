"""Backends that cannot be observed: nothing is decided about their workloads, and these read why."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Kind, TaskPlacement, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import IdleRule, Policy
from jupyter_gq.scheduling.wording import UNOBSERVED
from tests.builders import (
    NOW,
    Cluster,
    a_job,
    a_notebook,
    admitted,
    backing_off,
    cordoned,
    evicted,
    idle,
    running,
    stopping,
    why,
)

TOLD = f"Waiting: t{UNOBSERVED[1:]}"


def cluster(*workloads: Workload, devices: int = 2, **fields) -> Snapshot:
    made = Cluster().node("n", devices).queue("vision", 1).queue("nlp", 1).fixed("train", ann="0.5", bob="1")
    return replace(made.add(*workloads).snapshot(), unobserved=(Kind.TRAINING,), **fields)


def seen(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, unobserved=())


def decide(snapshot: Snapshot, policy: Policy | None = None):
    return run_cycle(snapshot, policy or Policy(), NOW)


def test_what_waits_is_not_admitted_and_reads_why_at_its_place_in_its_queue():
    jobs = [a_job(name, "vision", gpus, submitted=i) for i, (name, gpus) in enumerate((("a", 1), ("b", 9), ("c", 1)))]
    decision = decide(cluster(*jobs, a_job("cpu", "nlp", 0)))
    assert decision.instructions == ()
    assert {(entry.workload, entry.position) for entry in decision.pending} == {
        ("a", 1),
        ("b", 2),
        ("c", 3),
        ("cpu", 1),
    }
    assert {(entry.why.reason, entry.why.sentence) for entry in decision.pending} == {
        (PendingReason.BACKEND_UNOBSERVED, TOLD)
    }


def test_other_kinds_go_on():
    decision = decide(cluster(a_job("a", "vision"), a_notebook("ann", "0.5")))
    assert admitted(decision) == ["nb-ann"]


def test_no_run_gives_way_and_whoever_needs_its_devices_reads_why():
    borrows = [running(a_job("a", "vision"), "n-0"), running(a_job("b", "vision", submitted=1), "n-1")]
    snapshot = cluster(*borrows, a_notebook("bob", 1))
    assert len(evicted(decide(seen(snapshot)))) == 1
    decision = decide(snapshot)
    assert decision.instructions == ()
    assert (why(decision, "nb-bob").why.reason, why(decision, "nb-bob").why.sentence) == (
        PendingReason.BACKEND_UNOBSERVED,
        TOLD,
    )


def test_what_a_seen_workload_could_free_is_named_as_ever():
    holds = running(a_notebook("bob", 1), "n-0")
    decision = decide(cluster(holds, a_notebook("ann", "0.5"), devices=1))
    assert why(decision, "nb-ann").why.reason is PendingReason.NO_FREE_DEVICE
    assert why(decision, "nb-ann").why.blockers == ("nb-bob",)


def test_what_runs_keeps_what_it_holds():
    runs = running(a_job("a", "vision"), "n-0")
    decision = decide(cluster(runs, a_notebook("ann", "0.5"), a_notebook("bob", 1)))
    assert admitted(decision) in (["nb-ann"], ["nb-bob"]), "one device is left"


def gang_that_lost_a_task() -> Workload:
    gang = running(a_job("gang", "vision", tasks=2), "n-0", "n-1")
    return replace(gang, placement=gang.placement[:1], stale_since=NOW - 1000)


def elastic() -> Workload:
    return replace(running(a_job("more", "vision", tasks=3, min_members=1), "n-0", "n-1"), elastic=True)


LIMITED = tuple(replace(queue, limit=500) if queue.name == "vision" else queue for queue in cluster().queues)
EMPTIED = tuple(cordoned(node) for node in cluster().nodes)
DONE_BY_A_CYCLE = [
    ("a limit is lowered", cluster(running(a_job("a", "vision"), "n-0"), queues=LIMITED)),
    ("a node is emptied", cluster(running(a_job("a", "vision"), "n-0"), nodes=EMPTIED)),
    ("a gang is stale", cluster(gang_that_lost_a_task())),
    ("elastic work shrinks", cluster(elastic(), a_notebook("bob", 1))),
    ("elastic work grows", cluster(elastic(), devices=3)),
    ("a higher priority waits", cluster(running(a_job("a", "vision"), "n-0"), a_job("b", "vision", priority=5),
                                        devices=1)),
    ("another queue is entitled", cluster(*[running(a_job(n, "vision"), d) for n, d in (("a", "n-0"), ("b", "n-1"))],
                                          a_job("c", "nlp"))),
]  # fmt: skip


@pytest.mark.parametrize("snapshot", [each for _, each in DONE_BY_A_CYCLE], ids=[name for name, _ in DONE_BY_A_CYCLE])
def test_nothing_is_done_that_would_be_done_to_a_run_that_is_seen(snapshot):
    assert decide(seen(snapshot)).instructions != ()
    assert all(each.workload.startswith("nb-") for each in decide(snapshot).instructions)


def test_an_idle_notebook_is_neither_warned_nor_stopped_nor_is_its_warning_taken_back():
    rule = Policy(idle=IdleRule(always=True))
    fresh = idle(running(a_notebook("bob", 1), "n-0"), for_seconds=1500)
    due = idle(running(a_notebook("ann", "0.5"), "n-1"), for_seconds=9000, expire_at=NOW)
    used = idle(running(a_notebook("ann", "0.5"), "n-1"), for_seconds=1, expire_at=NOW)
    for notebooks in ((fresh, due), (used,)):
        snapshot = replace(cluster(*notebooks), unobserved=(Kind.NOTEBOOK,))
        assert decide(seen(snapshot), rule).instructions != ()
        assert decide(snapshot, rule).instructions == ()


def suspended(wants_back: bool) -> Workload:
    notebook = replace(running(a_notebook("bob", 1), "n-0", state=State.SUSPENDED), suspendable=True)
    return replace(notebook, activity=Activity(busy=wants_back, last_active=NOW, sampled_at=NOW))


def test_a_suspended_notebook_is_not_resumed_and_its_share_stays_lent_only():
    wants = replace(cluster(suspended(wants_back=True), devices=1), unobserved=(Kind.NOTEBOOK,))
    assert decide(seen(wants)).instructions != ()
    assert decide(wants).instructions == ()
    fixed, pausable = a_job("fixed", "vision", preemptible=False), a_job("pausable", "vision")
    for job, starts in ((fixed, []), (pausable, ["pausable"])):
        assert admitted(decide(replace(wants, workloads=(*wants.workloads, job)))) == starts


def test_a_reservation_of_a_workload_that_waits_stays_as_it_was_written_down():
    place = (TaskPlacement(node="n", devices=("n-0",)),)
    waits = a_job("a", "vision", reserved=place)
    moves = replace(stopping(running(a_job("b", "vision", submitted=1), "n-1")), reserved=place)
    assert decide(cluster(waits, moves, devices=2)).instructions == ()


def test_a_back_off_is_the_reason_that_is_told():
    decision = decide(cluster(backing_off(a_job("a", "vision"))))
    assert why(decision, "a").why.reason is PendingReason.PLACE_REFUSED


def test_a_scheduler_that_remembers_sees_when_a_backend_is_lost_and_found():
    snapshot = cluster(a_job("a", "vision"), running(a_job("b", "nlp"), "n-1"), a_notebook("bob", 1), devices=2)
    kept = Scheduler(seen(snapshot), Policy(reserve_after=Seconds(1)))
    for each in (snapshot, seen(snapshot), replace(snapshot, unobserved=(Kind.NOTEBOOK, Kind.TRAINING)), snapshot):
        kept.follow(each, Policy(reserve_after=Seconds(1)))
        assert kept.decide(NOW) == run_cycle(each, Policy(reserve_after=Seconds(1)), NOW)
    kept.set(unobserved=())
    assert kept.decide(NOW) == run_cycle(seen(snapshot), Policy(reserve_after=Seconds(1)), NOW)
