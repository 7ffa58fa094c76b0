"""Time lines and the clock of the guarantee, by hand."""

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.simulation.baselines import Fifo
from jupyter_gq.simulation.history import GuaranteeClock, Steps, Timeline
from jupyter_gq.simulation.replay import replay

from .jobs import a_job, quotas

STEPS = Steps(times=(10, 20, 50), values=(1000, 3000, 0))


@pytest.mark.parametrize(
    ("start", "end", "bins", "expected"),
    [
        (0, 60, 1, [100_000 / 60]),
        (0, 60, 6, [0, 1000, 3000, 3000, 3000, 0]),
        (15, 35, 2, [2000, 3000]),
        (50, 60, 1, [0]),
        (0, 10, 2, [0, 0]),
        (45, 65, 1, [750]),
    ],
)
def test_the_mean_of_steps_in_equal_parts(start, end, bins, expected):
    assert STEPS.means(start, end, bins) == pytest.approx(expected)


def test_what_never_happened_is_nothing():
    assert Steps(times=(), values=()).means(0, 10, 2) == [0, 0]
    assert Steps(times=(), values=()).integral(0, 10) == 0


def test_what_goes_on_after_the_last_step_counts():
    assert Steps(times=(5,), values=(1000,)).means(0, 10, 2) == [0, 1000]


def test_a_time_line_holds_what_is_allocated_and_what_waits():
    timeline = Timeline(["a"])
    replay([a_job("x", 0, 10), a_job("y", 4, 10, gpus="0.5")], Fifo(quotas(a=1)), listeners=[timeline])
    assert timeline.allocated() == {"a": Steps(times=(0, 10, 14 + 6), values=(1000, 500, 0))}
    assert timeline.waiting() == {"a": Steps(times=(4, 10), values=(500, 0))}


def test_the_clock_of_a_guarantee_runs_while_there_is_room_below_it():
    clock = GuaranteeClock(quotas(a=2))
    big, small = a_job("big", 0, 10, gpus=2), a_job("small", 0, 10)
    clock.queued(small, Instant(0))
    clock.started(small, Instant(0))
    clock.settled(Instant(0))
    clock.queued(big, Instant(3))  # no room for it: 1 of 2 is in use
    clock.settled(Instant(3))
    clock.stopped(small, Instant(10))
    clock.settled(Instant(10))  # from here on it is kept waiting
    clock.started(big, Instant(25))
    clock.settled(Instant(25))
    assert clock.delays == {"a": [0, 15]}


def test_the_clock_starts_again_when_another_of_the_queue_took_the_room():
    clock = GuaranteeClock(quotas(a=1))
    first, second = a_job("first", 0, 10), a_job("second", 0, 10)
    clock.queued(first, Instant(0))
    clock.queued(second, Instant(0))
    clock.settled(Instant(0))
    clock.started(first, Instant(5))
    clock.settled(Instant(5))
    clock.stopped(first, Instant(9))
    clock.started(second, Instant(9))
    assert clock.delays == {"a": [5, 0]}


def test_a_start_above_the_guarantee_is_not_counted():
    clock = GuaranteeClock(quotas(a=1))
    job = a_job("j", 0, 10, gpus=2)
    clock.queued(job, Instant(0))
    clock.settled(Instant(0))
    clock.started(job, Instant(50))
    assert clock.delays == {"a": []}


def test_a_paused_job_is_kept_waiting_from_its_pause_on():
    clock = GuaranteeClock(quotas(a=1))
    job = a_job("j", 0, 10)
    clock.queued(job, Instant(0))
    clock.started(job, Instant(0))
    clock.settled(Instant(0))
    clock.stopped(job, Instant(5))
    clock.queued(job, Instant(5))
    clock.settled(Instant(5))
    clock.started(job, Instant(8))
    assert clock.delays == {"a": [0, 3]}
