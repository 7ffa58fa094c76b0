"""A job has saved its state when it did so by the clock of the service, whatever time its files have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.controller.requests.saved_times import SavedTimes

LONG_AGO = 5.0


@pytest.fixture
def times() -> SavedTimes:
    return SavedTimes()


def test_a_file_that_was_copied_with_its_old_time_was_saved_between_two_heartbeats(times):
    assert times.note("job", 1, None, None, 1000.0) is None
    assert times.note("job", 1, LONG_AGO, None, 1002.0) == 1000.0
    assert times.note("job", 1, LONG_AGO, 1000.0, 1004.0) == 1000.0
    assert times.note("job", 1, LONG_AGO + 1, 1000.0, 1006.0) == 1004.0


@pytest.mark.parametrize("skew", [-600.0, 0.0, 600.0])
def test_the_clock_of_the_machine_may_be_another_one(times, skew):
    times.note("job", 1, None, None, 1000.0)
    assert 1000.0 <= times.note("job", 1, 1001.0 + skew, None, 1002.0) <= 1002.0


def test_what_an_earlier_job_saved_is_as_old_as_its_files(times):
    assert times.note("job", 1, LONG_AGO, None, 1000.0) == LONG_AGO
    assert times.note("job", 1, LONG_AGO, LONG_AGO, 1002.0) == LONG_AGO


def test_a_state_that_is_the_newest_again_has_its_own_time(times):
    times.note("job", 1, None, None, 1000.0)
    first = times.note("job", 1, 1001.0, None, 1002.0)
    second = times.note("job", 1, 1003.0, first, 1004.0)
    assert (first, second) == (1001.0, 1003.0)
    assert times.note("job", 1, 1001.0, second, 1006.0) == first


def test_a_new_run_and_a_new_service_know_the_last_state(times):
    times.note("job", 1, None, None, 1000.0)
    saved = times.note("job", 1, LONG_AGO, None, 1002.0)
    assert times.note("job", 2, LONG_AGO, saved, 2000.0) == saved
    assert SavedTimes().note("job", 2, LONG_AGO, saved, 2002.0) == saved


def test_nothing_is_saved_in_the_future_and_a_set_clock_is_followed(times):
    assert times.note("job", 1, 5000.0, None, 1000.0) == 1000.0
    times.move(600.0)
    assert times.note("job", 1, 5000.0, 1600.0, 1602.0) == 1600.0, "what is stored was moved with the clock"
    assert times.note("job", 1, 5000.0, 1600.0, 1604.0) == 1600.0


def test_a_jump_that_did_not_move_what_is_stored_does_not_change_it(times):
    """What an earlier job saved, before the run started, only tells when it happened."""
    assert times.note("job", 1, LONG_AGO, None, 1000.0) == LONG_AGO
    times.move(600.0)
    assert times.note("job", 1, LONG_AGO, LONG_AGO, 1602.0) == LONG_AGO
    assert times.note("job", 1, LONG_AGO, None, 1604.0) == LONG_AGO


def test_a_heartbeat_between_a_jump_and_the_step_that_sees_it_changes_nothing(times):
    times.note("job", 1, None, None, 5000.0)
    assert times.note("job", 1, 5001.0, None, 5002.0) == 5001.0
    assert times.note("job", 1, 5001.0, 5001.0, 1403.0) == 5001.0, "the step will move it"
    times.move(-3600.0)
    assert times.note("job", 1, 5001.0, 1401.0, 1406.0) == 1401.0


def test_a_clock_that_was_set_back_leaves_no_known_time_in_the_future(times):
    times.note("job", 1, None, None, 5000.0)
    first = times.note("job", 1, 5001.0, None, 5002.0)
    times.note("job", 1, 5003.0, first, 5004.0)
    assert times.note("job", 1, 5001.0, 5003.0, 1405.0) <= 1405.0, "before the step that sees the jump"
    times.move(-3600.0)
    assert times.note("job", 1, 5003.0, 1401.0, 1406.0) <= 1406.0


@pytest.mark.parametrize("lost", [None, 1001.0])
def test_a_time_that_was_stored_only_in_memory_is_known_after_an_outage(times, lost):
    times.note("job", 1, None, None, 1000.0)
    first = times.note("job", 1, 1001.0, None, 1002.0)
    times.note("job", 1, 1003.0, first, 1004.0)
    assert times.note("job", 1, 1003.0, lost, 1006.0) == 1003.0
    assert times.note("job", 1, 1003.0, 1003.0, 1008.0) == 1003.0


@given(
    st.lists(st.sampled_from([LONG_AGO, 1001.0, 1003.0, 1005.0, 9000.0]), min_size=1, max_size=20),
    st.data(),
)
def test_outages_change_no_time(told, data):
    """An outage leaves what was stored at any time before, or nothing."""
    calm, troubled = SavedTimes(), SavedTimes()
    calm.note("job", 1, None, None, 1000.0)
    troubled.note("job", 1, None, None, 1000.0)
    known = [None]
    for number, each in enumerate(told):
        now = 1002.0 + 2 * number
        lost = data.draw(st.sampled_from(known))
        known.append(calm.note("job", 1, each, known[-1], now))
        assert troubled.note("job", 1, each, lost, now) == known[-1] <= now


def test_no_job_is_remembered_for_ever(times, monkeypatch):
    monkeypatch.setattr("jupyter_gq.controller.requests.saved_times._MOST_JOBS", 2)
    for job in ("a", "b", "c"):
        times.note(job, 1, None, None, 1000.0)
    assert times.note("c", 1, LONG_AGO, None, 1002.0) == 1000.0
    assert times.note("a", 1, LONG_AGO, None, 1002.0) == LONG_AGO
