"""Deadlines of tests follow the speed of the machine."""

import asyncio

import pytest

from tests import patience
from tests.patience import Deadline, compute_slowness, eventually, scaled, slowness, until

QUIET = (0.02, 0.02)


@pytest.mark.parametrize(
    ("load", "sample", "fastest", "factor"),
    [
        (0.1, QUIET, 0.01, 1),  # a faster machine does not make deadlines shorter
        (0.1, QUIET, 0.05, 2),  # its processors are half as fast
        (4.0, QUIET, 0.02, 4),  # four programs for each processor
        (0.1, (0.02, 0.1), 0.02, 5),  # others take the processors, which the load does not show
        (4.0, (0.02, 0.1), 0.05, 10),
        (1000.0, QUIET, 0.02, 30),
    ],
)
def test_factor_follows_load_and_speed(load, sample, fastest, factor):
    assert compute_slowness(load, sample, fastest) == pytest.approx(factor)


def test_this_machine_has_a_factor():
    assert 1 <= slowness() <= 30
    assert scaled(10) >= 10


class Machine:
    """A machine of a given slowness, with a clock that each look moves on by a second."""

    def __init__(self, slowness: float) -> None:
        self.now, self.slowness, self.measured = 0.0, slowness, 0

    def clock(self) -> float:
        self.now += 1
        return self.now

    def measure(self) -> float:
        self.measured += 1
        return self.slowness


@pytest.fixture
def machine(request, monkeypatch):
    made = Machine(request.param)
    monkeypatch.setattr(patience, "_clock", made.clock)
    monkeypatch.setattr(patience, "slowness", made.measure)
    return made


@pytest.mark.parametrize(("machine", "looks"), [(1, 11), (3, 31)], indirect=["machine"])
def test_deadline_moves_away_on_a_slow_machine(machine, looks):
    deadline, asked = Deadline(10), 1
    while not deadline.is_over():
        asked += 1
    assert asked == looks


@pytest.mark.parametrize(("machine", "looks"), [(1, 26), (3, 46)], indirect=["machine"])
def test_what_the_product_promises_does_not_follow_the_machine(machine, looks):
    deadline, asked = Deadline(10, promised=15), 1
    while not deadline.is_over():
        asked += 1
    assert asked == looks


@pytest.mark.parametrize("machine", [3], indirect=True)
def test_machine_is_measured_only_when_the_time_would_be_over(machine):
    deadline = Deadline(10)
    for _ in range(10):
        assert not deadline.is_over()
    assert machine.measured == 0


@pytest.mark.parametrize("machine", [2], indirect=True)
def test_wait_returns_what_was_found_and_fails_with_what_was_wanted(machine):
    found = iter([None, "", "there"])
    assert until(lambda: next(found), every=0) == "there"
    with pytest.raises(AssertionError, match=r"not seen within \d+ s \(on a quiet machine 3 s\): the hub"):
        until(lambda: False, lambda: "the hub", seconds=3, every=0)

    async def wanted():
        return next(answers)

    answers = iter([0, "yes"])
    assert asyncio.run(eventually(wanted, every=0)) == "yes"
    with pytest.raises(AssertionError, match="the service"):
        asyncio.run(eventually(lambda: None, "the service", seconds=3, every=0))
