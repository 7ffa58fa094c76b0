"""Expected durations from history, and ranges that hold as often as they say."""

import random

import pytest

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.simulation.calibration import ENOUGH, Calibration
from jupyter_gq.simulation.durations import KEPT, NAMES, Durations
from tests.builders import a_job


def learnt(*durations: float, **fields) -> Durations:
    history = Durations()
    for duration in durations:
        history.add(a_job("digits", "vision", **fields), Seconds(duration))
    return history


def test_the_owners_estimate_comes_first_until_it_is_outlived():
    history = learnt(10, 10, 10, 10, 10)
    job = a_job("digits", "vision", estimate=Seconds(500))
    assert history.expected(job, Seconds(0)) == 500
    assert history.expected(job, Seconds(600)) == 1200


def test_the_same_name_of_the_same_owner_is_the_nearest_history():
    history = learnt(100, 100, 100, 100, 100)
    for _ in range(5):
        history.add(a_job("other", "vision"), Seconds(9000))
    assert history.expected(a_job("digits", "vision"), Seconds(0)) == 100
    assert history.expected(a_job("new", "vision"), Seconds(0)) == 9000  # the median of all ten of ann's
    assert history.expected(a_job("new", "nlp", owner="bob"), Seconds(0)) == 9000


def test_too_few_runs_say_nothing():
    assert learnt(100, 100, 100, 100).expected(a_job("digits", "vision"), Seconds(0)) == 60


def test_only_longer_runs_speak_for_what_still_runs():
    history = learnt(10, 10, 10, 100, 200, 300, 400, 500)
    assert history.expected(a_job("digits", "vision"), Seconds(50)) == 300
    assert history.expected(a_job("digits", "vision"), Seconds(450)) == 900  # one is not enough: as long again


def test_old_runs_are_forgotten():
    history = learnt(*[10.0] * KEPT, *[700.0] * KEPT)
    assert history.expected(a_job("digits", "vision"), Seconds(0)) == 700


def test_names_that_did_not_run_for_long_are_forgotten():
    """Where each run has a name of its own, what is known of names would grow for ever."""
    history = Durations()

    def ran(name: str, duration: float) -> None:
        for _ in range(5):
            history.add(a_job(name, "vision"), Seconds(duration))

    ran("nightly", 7000)
    ran("once", 7000)
    ran("again", 100)
    for number in range(NAMES - 2):
        history.add(a_job(f"train-{number}", "vision"), Seconds(100))
        if number % 1000 == 0:
            history.add(a_job("nightly", "vision"), Seconds(7000))
    assert len(history._named) == NAMES
    assert history.expected(a_job("nightly", "vision"), Seconds(0)) == 7000
    assert history.expected(a_job("once", "vision"), Seconds(0)) == 100, "as all work of its owner"


def test_without_outcomes_the_range_is_a_guess():
    found = Calibration().range(Seconds(100))
    assert (found.p50, found.p90, found.outcomes) == (100, 300, 0)


@pytest.mark.parametrize("spread", [0.1, 0.7, 1.5])
def test_the_range_holds_as_often_as_it_says(spread):
    draw = random.Random(5)
    calibration = Calibration()
    below50 = below90 = told = 0
    for number in range(3000):
        expected = draw.uniform(60, 20_000)
        actual = 1.7 * expected * draw.lognormvariate(0, spread)
        if number >= 200:
            stated = calibration.range(Seconds(expected))
            told += 1
            below50 += actual <= stated.p50
            below90 += actual <= stated.p90
        calibration.add(Seconds(expected), Seconds(actual))
    assert below50 / told == pytest.approx(0.5, abs=0.03)
    assert below90 / told == pytest.approx(0.9, abs=0.03)


def test_similar_forecasts_count_not_all():
    calibration = Calibration()
    for _ in range(200):
        calibration.add(Seconds(60), Seconds(600))
        calibration.add(Seconds(60_000), Seconds(30_000))
    assert calibration.range(Seconds(60)).p50 == pytest.approx(600)
    assert calibration.range(Seconds(60_000)).p50 == pytest.approx(30_000)


def test_a_job_that_outlasts_its_forecast_is_not_forgotten():
    calibration = Calibration()
    for _ in range(ENOUGH):
        calibration.add(Seconds(100), Seconds(100))
    late = [(Seconds(100), Seconds(5000))] * ENOUGH
    assert calibration.range(Seconds(100)).p90 == pytest.approx(100)
    assert calibration.range(Seconds(100), late).p90 == pytest.approx(5000)
    assert calibration.range(Seconds(100), [(Seconds(100), Seconds(50))] * 50).p90 == pytest.approx(100)
