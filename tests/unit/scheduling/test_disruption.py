"""The order of victims: who loses least goes first, and nobody is protected by never saving."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.workloads.disruption import disruption
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
