"""The transition table: what it allows, what it forbids, and that it leaves nobody stuck."""

import pytest

from jupyter_gq.domain.errors import IllegalTransition
from jupyter_gq.domain.states import FINAL, HOLDING, TRANSITIONS, Event, State, apply


def test_a_run_goes_from_pending_to_succeeded():
    state = State.PENDING
    for event in (Event.ADMITTED, Event.LAUNCHED, Event.STARTED, Event.SUCCEEDED):
        state = apply("w", state, event)
    assert state is State.SUCCEEDED


def test_an_evicted_run_comes_back_to_its_queue():
    state = apply("w", State.RUNNING, Event.STOP_REQUESTED)
    assert apply("w", state, Event.REQUEUED) is State.PENDING


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
def test_a_pair_outside_the_table_raises_with_its_story(state, event):
    if event in TRANSITIONS[state]:
        assert apply("w", state, event) in State
        return
    with pytest.raises(IllegalTransition, match="workload w is") as caught:
        apply("w", state, event)
    assert (caught.value.state, caught.value.event) == (state, event)


def test_every_state_is_in_the_table_and_can_reach_an_end():
    assert set(TRANSITIONS) == set(State)
    ends = set(FINAL)
    while more := {s for s, leaves in TRANSITIONS.items() if s not in ends and ends & set(leaves.values())}:
        ends |= more
    assert ends == set(State)


def test_every_state_but_the_first_can_be_reached():
    assert {after for leaves in TRANSITIONS.values() for after in leaves.values()} >= set(State) - {State.PENDING}


def test_devices_are_held_from_admission_to_the_end():
    assert set(State) - HOLDING == {State.PENDING, *FINAL}
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == FINAL
