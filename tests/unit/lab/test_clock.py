"""Jumps of the wall clock are measured by the clock that nobody sets."""

import pytest

from jupyter_gq.lab.clock import JumpMeter


class Clocks:
    """The two clocks of a machine; the steady one may move on at each reading."""

    def __init__(self):
        self.set_by, self.passed, self.each = 0.0, 100.0, 0.0

    def wall(self):
        return 1_000_000.0 + self.set_by + self.steady()

    def steady(self):
        self.passed += self.each
        return self.passed


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def meter(clocks):
    return JumpMeter(clocks.wall, clocks.steady)


@pytest.mark.parametrize("seconds", [86400.0, -86400.0, 3.0])
def test_each_jump_is_told_once(clocks, meter, seconds):
    clocks.passed += 5
    clocks.set_by += seconds
    assert meter.measure() == pytest.approx(seconds)
    clocks.passed += 5
    assert meter.measure() == 0.0


def test_a_clock_that_drifts_does_not_jump_in_the_end(clocks, meter):
    for _ in range(10):
        clocks.set_by += 0.5
        assert meter.measure() == 0.0


def test_a_process_that_was_held_up_between_the_readings_measures_again(clocks, meter):
    clocks.set_by += 50
    clocks.each = 10.0
    assert meter.measure() == 0.0
    clocks.each = 0.0
    assert meter.measure() == pytest.approx(50)
