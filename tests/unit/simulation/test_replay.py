"""The event loop, with policies that do one thing."""

import pytest

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.simulation.baselines import PooledFifo
from jupyter_gq.simulation.replay import Costs, DoesNotEnd, Pause, Start, replay

from .jobs import a_job


class PausesTheFirst:
    """Starts everything at once; pauses `victim` when `taker` comes, and lets it continue when that has ended."""

    def __init__(self, victim: str, taker: str) -> None:
        self.victim, self.taker = victim, taker
        self.moves: list[Start | Pause] = []

    def submitted(self, job):
        self.moves.append(Start(job=job.id))
        if job.id == self.taker:
            self.moves.insert(0, Pause(job=self.victim))

    def ended(self, job):
        if job.id == self.taker:
            self.moves.append(Start(job=self.victim))

    def decide(self, now):
        moves, self.moves = self.moves, []
        return moves

    def wake_at(self, now):
        return None


class NeverStarts(PausesTheFirst):
    def decide(self, now):
        return []


class NeverRests(PausesTheFirst):
    """Starts and pauses the same job for ever."""

    def decide(self, now):
        return [Start(job="j"), Pause(job="j")]


class StartsLater(NeverStarts):
    """Time alone lets it start, at second 7."""

    def decide(self, now):
        return [Start(job="j")] if now == 7 else []

    def wake_at(self, now):
        return Instant(7) if now < 7 else None


def test_a_job_that_nobody_disturbs_runs_from_its_submission_for_its_duration():
    (course,) = replay([a_job("j", 5, 100)], PooledFifo(1000))
    assert course.runs == [(5, 105)]
    assert (course.waited, course.lost, course.pauses, course.ended) == (0, 0, 0, 105)


def test_a_pause_costs_a_minute_of_progress_and_keeps_the_rest():
    courses = replay([a_job("v", 0, 1000), a_job("t", 400, 50)], PausesTheFirst("v", "t"))
    victim = courses[0]
    assert victim.runs == [(0, 400), (450, 450 + 600 + 60)]
    assert (victim.waited, victim.lost, victim.pauses) == (50, 60, 1)


def test_a_pause_never_costs_more_progress_than_there_is():
    courses = replay([a_job("v", 0, 1000), a_job("t", 25, 50)], PausesTheFirst("v", "t"))
    assert courses[0].lost == 25
    assert courses[0].runs == [(0, 25), (75, 1075)]


def test_the_price_of_a_pause_can_be_set():
    costs = Costs(lost_per_pause=Seconds(0))
    courses = replay([a_job("v", 0, 1000), a_job("t", 400, 50)], PausesTheFirst("v", "t"), costs)
    assert courses[0].runs == [(0, 400), (450, 1050)]
    assert courses[0].lost == 0


def test_a_job_of_no_length_starts_and_ends_at_once():
    (course,) = replay([a_job("j", 3, 0)], PooledFifo(1000))
    assert course.runs == [(3, 3)]


def test_who_submits_when_another_ends_finds_its_devices_free():
    first, second = replay([a_job("x", 0, 10), a_job("y", 10, 10)], PooledFifo(1000))
    assert (first.runs, second.runs) == ([(0, 10)], [(10, 20)])


def test_a_policy_may_ask_to_be_woken():
    (course,) = replay([a_job("j", 0, 10)], StartsLater("", ""))
    assert course.runs == [(7, 17)]


def test_a_policy_that_starts_nobody_is_told_off():
    with pytest.raises(DoesNotEnd, match=r"1 jobs never start, the first of them \['j'\]"):
        replay([a_job("j", 0, 10)], NeverStarts("", ""))


def test_a_policy_that_never_rests_is_told_off():
    with pytest.raises(DoesNotEnd, match="still moves after 1000 rounds at 0 s"):
        replay([a_job("j", 0, 10)], NeverRests("", ""))


def test_the_watch_is_told_how_many_have_ended():
    seen = []
    replay([a_job("x", 0, 10), a_job("y", 10, 10)], PooledFifo(1000), watch=lambda *done: seen.append(done))
    assert seen == [(0, 2), (1, 2), (2, 2)]
