"""The order of victims: who loses least goes first, and nobody is protected by never saving."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.seniority import by_seniority
from tests.builders import NOW, Cluster, a_job, evicted, running

HOUR = 3600


def run(name, hours_ago, *, saved=False, **fields):
    """It has run for so many hours; `saved`: its state was saved a minute ago."""
    job = running(a_job(name, "nlp", **fields), f"n-{name}")
    saving = Instant(NOW - 60) if saved else None
    return replace(job, started_at=Instant(NOW - HOUR * hours_ago), checkpointed_at=saving)


def order(*jobs):
    return [job.id for job in sorted(jobs, key=disruption)]


def test_the_newest_run_goes_first():
    assert order(run("a", 5), run("b", 1), run("c", 3)) == ["b", "c", "a"]


def test_what_has_not_started_yet_goes_before_what_runs():
    starting = replace(run("b", 9), state=State.STARTING)
    assert order(run("a", 0), starting) == ["b", "a"]


def test_the_lower_priority_goes_first_whatever_it_loses():
    assert order(run("a", 1, saved=True, priority=1), run("b", 9)) == ["b", "a"]


def test_what_was_saved_goes_before_what_would_begin_anew():
    assert order(run("a", 1), run("b", 1.9, saved=True)) == ["b", "a"]


def test_who_never_saves_is_not_protected_against_much_older_work():
    assert order(run("a", 1), run("b", 2.1, saved=True)) == ["a", "b"]


def test_a_further_save_does_not_change_the_order():
    old = run("a", 5, saved=True)
    assert disruption(old) == disruption(replace(old, checkpointed_at=NOW))


def test_reclaim_takes_the_one_that_was_saved():
    cluster = Cluster().node("m", 2).queue("vision", 1).queue("nlp", 0)
    cluster.add(
        replace(running(a_job("fresh", "nlp"), "m-0"), started_at=Instant(NOW - HOUR)),
        replace(running(a_job("saves", "nlp"), "m-1"), started_at=Instant(NOW - 1.5 * HOUR), checkpointed_at=NOW),
        a_job("bert", "vision"),
    )
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["saves"]


def borrowers_of_two_queues(**fields):
    """Two queues without a quota, whose work was started in turns; `fields` are those of the newer work, of nlp."""
    cluster = Cluster().node("m", 2).queue("vision", 1)
    cluster.queue("nlp", over_quota_weight=0).queue("asr", over_quota_weight=0)
    old = replace(running(a_job("old", "asr"), "m-0"), started_at=Instant(NOW - 2 * HOUR))
    new = replace(running(a_job("new", "nlp", **fields), "m-1"), started_at=Instant(NOW - HOUR))
    return cluster.add(old, new)


@pytest.mark.parametrize("priority", [-1, 0, 9])
def test_a_priority_protects_no_work_from_another_queue(priority):
    cluster = borrowers_of_two_queues(priority=priority).add(a_job("bert", "vision"))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["new"]


@pytest.mark.parametrize("priority", [-1, 0, 9])
def test_a_priority_protects_no_work_of_another_queue_from_a_lowered_limit_above_both(priority):
    cluster = Cluster().node("m", 2).queue("d", 0, limit=1).queue("d/a", parent="d").queue("d/b", parent="d")
    cluster.add(
        replace(running(a_job("old", "d/a"), "m-0"), started_at=Instant(NOW - 2 * HOUR)),
        replace(running(a_job("new", "d/b", priority=priority), "m-1"), started_at=Instant(NOW - HOUR)),
    )
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["new"]


def test_inside_each_queue_the_lower_priority_goes_first_also_among_victims_of_several_queues():
    cluster = borrowers_of_two_queues(priority=1).node("k", 2)
    cluster.queues[0] = replace(cluster.queues[0], quota=MilliGpu(2000))
    cluster.add(
        replace(running(a_job("oldest", "nlp"), "k-0"), started_at=Instant(NOW - 9 * HOUR)),
        replace(running(a_job("older", "asr", priority=1), "k-1"), started_at=Instant(NOW - 3 * HOUR)),
        a_job("bert", "vision", tasks=2),
    )
    assert set(evicted(run_cycle(cluster.snapshot(), Policy(), NOW))) == {"old", "older"}, "neither new nor oldest"


def test_between_queues_work_is_served_by_age_whatever_its_priority():
    """What would go first in each queue is compared."""
    young, old = a_job("young", "a", priority=5, submitted=2), a_job("old", "b", submitted=1)
    first = a_job("first", "b", priority=1, submitted=3)
    assert [job.id for job in by_seniority([young, old, first])] == ["young", "first", "old"]
    assert [job.id for job in by_seniority([young, replace(first, submitted_at=Instant(NOW - 999)), old])] == [
        "first",
        "old",
        "young",
    ]
