"""Forecasts on worlds small enough to say by hand when somebody starts."""

from dataclasses import replace

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.forecast import forecast
from tests.builders import NOW, Cluster, a_job, backing_off, running, stopping


def hours(workload: Workload, elapsed: Seconds) -> Seconds:
    """Everything runs for the hours that its name ends with."""
    return Seconds(float(workload.name.rpartition("-")[2]) * 3600)


def waits(cluster: Cluster, **given) -> dict[str, float | None]:
    return forecast(cluster.snapshot(), Policy(), NOW, hours, **given)


def world(*devices: int, **quotas: int) -> Cluster:
    cluster = Cluster()
    for number, count in enumerate(devices):
        cluster.node(f"n{number}", devices=count)
    for name, quota in quotas.items():
        cluster.queue(name, quota=quota)
    return cluster


def test_what_fits_starts_now():
    assert waits(world(1, vision=1).add(a_job("a-1", "vision"))) == {"a-1": 0}


def test_one_after_the_other():
    cluster = world(1, vision=1).add(
        running(a_job("now-1", "vision"), "n0-0", since=1000),
        a_job("second-2", "vision", submitted=1),
        a_job("third-1", "vision", submitted=2),
    )
    assert waits(cluster) == {"second-2": 3600, "third-1": 3 * 3600}


def test_what_ran_already_counts():
    cluster = world(1, vision=1).add(running(a_job("now-1", "vision"), "n0-0", since=0), a_job("next-1", "vision"))
    assert waits(cluster) == {"next-1": 3600 - 1000}


def test_a_workload_that_backs_off_starts_no_sooner_than_its_pause_ends():
    cluster = world(1, vision=1).add(
        backing_off(a_job("paused-1", "vision"), until=NOW + 90), a_job("passes-2", "vision", gpus=0, submitted=1)
    )
    assert waits(cluster) == {"paused-1": 90, "passes-2": 0}


def test_every_backend_is_expected_to_be_seen_again_and_to_launch_what_is_admitted():
    cluster = world(2, vision=2).add(a_job("a-1", "vision"), a_job("b-1", "vision"))
    snapshot = replace(cluster.snapshot(), unobserved=(Kind.TRAINING,), launch_capacity={Kind.TRAINING: 0})
    assert forecast(snapshot, Policy(), NOW, hours) == {"a-1": 0, "b-1": 0}


def test_a_gang_waits_for_the_last_of_its_devices():
    cluster = world(2, vision=2).add(
        running(a_job("short-1", "vision"), "n0-0", since=1000),
        running(a_job("long-5", "vision"), "n0-1", since=1000),
        a_job("both-1", "vision", gpus=2),
    )
    assert waits(cluster) == {"both-1": 5 * 3600}


def test_an_entitled_one_does_not_wait_for_a_borrower_to_end():
    cluster = world(1, vision=1, nlp=0).add(
        running(a_job("borrowed-9", "nlp"), "n0-0", since=1000), a_job("mine-1", "vision")
    )
    found = waits(cluster.add(a_job("after-1", "nlp", submitted=5)))
    assert found["mine-1"] == 0
    assert found["after-1"] == 3600 + 9 * 3600  # the borrower is older and comes back first


def test_a_paused_job_needs_only_what_was_left():
    cluster = world(1, vision=1, nlp=0).add(
        running(a_job("borrowed-2", "nlp"), "n0-0", since=1000 - 3600), a_job("mine-1", "vision")
    )
    cluster.add(a_job("last-1", "nlp", submitted=50))
    assert waits(cluster)["last-1"] == 3600 + 3600


def test_what_is_stopping_is_gone_in_a_moment():
    cluster = world(1, vision=1).add(stopping(running(a_job("going-9", "vision"), "n0-0"), requeue=False))
    assert waits(cluster.add(a_job("next-1", "vision"))) == {"next-1": 0}


def test_an_overdue_run_is_expected_to_end_soon():
    cluster = world(1, vision=1).add(running(a_job("late-0", "vision"), "n0-0"), a_job("next-1", "vision"))
    assert waits(cluster) == {"next-1": 1}


def test_nothing_is_said_about_what_cannot_be_seen():
    cluster = world(1, vision=1).add(running(a_job("week-500", "vision"), "n0-0"), a_job("next-1", "vision"))
    assert waits(cluster) == {"next-1": None}
    assert waits(world(1, vision=1).add(a_job("never-1", "vision", gpus=4))) == {"never-1": None}


def test_only_what_is_asked_for():
    cluster = world(1, vision=1).add(a_job("a-1", "vision"), a_job("b-1", "vision", submitted=1))
    assert waits(cluster, of=["b-1", "gone"]) == {"b-1": 3600}


def test_the_input_is_left_as_it_is():
    snapshot = world(1, vision=1).add(a_job("a-1", "vision")).snapshot()
    before = replace(snapshot)
    forecast(snapshot, Policy(), NOW, hours)
    assert snapshot == before


def test_a_job_for_which_another_moves_starts_at_once():
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 4)
    cluster.add(running(a_job("x-9", "q"), "m-0"), running(a_job("y-9", "q"), "n-0"), a_job("wide-1", "q", 2))
    assert waits(cluster)["wide-1"] == 0
