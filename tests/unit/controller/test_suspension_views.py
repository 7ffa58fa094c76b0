"""What the owner of a suspended notebook and the owner of a job on its devices read."""

from dataclasses import replace

import pytest

from jupyter_gq.controller.views.suspension_views import (
    Comeback,
    describe_lent,
    notebook_phase,
    suspension_sentence,
    suspension_view,
)
from jupyter_gq.domain.amount import MiB, Seconds
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Stop
from jupyter_gq.domain.workload_detail import Suspension, WorkloadDetail
from jupyter_gq.scheduling.decision import KeptOut, Returning
from jupyter_gq.scheduling.wording import UNOBSERVED
from jupyter_gq.store.protocol import Record
from tests.builders import NOW, a_notebook, idle, running

WITHIN = Comeback(within=Seconds(60), left=Seconds(45))
UNKNOWN = Comeback(within=None, left=None)
LENT_TO_BOB = Suspension(
    sentence="Lent to bob.", by="job", decided_at=NOW, since=NOW, memory=MiB(9), seconds=Seconds(8)
)


def a_record(state: State, suspension: Suspension | None = LENT_TO_BOB, **fields) -> Record:
    notebook = replace(idle(running(a_notebook("ann"), "box-0"), 100), state=state, **fields)
    return Record(workload=notebook, detail=WorkloadDetail(suspension=suspension))


def used(record: Record) -> Record:
    activity = replace(record.workload.activity, busy=True)
    return replace(record, workload=replace(record.workload, activity=activity))


def test_a_suspended_share_says_since_when_for_whom_and_how_long_its_return_takes():
    view = suspension_view(a_record(State.SUSPENDED), WITHIN)
    assert (view.since, view.sentence, view.memory_mib, view.expected_seconds) == (NOW, "Lent to bob.", 9, 8)


def test_a_share_is_back_within_the_stated_time_once_a_cell_waits():
    suspended = a_record(State.SUSPENDED)
    assert suspension_view(suspended, WITHIN).back_within is None
    assert suspension_view(used(suspended), WITHIN).back_within == 45
    assert suspension_view(a_record(State.RESUMING), WITHIN).back_within == 8
    assert suspension_view(a_record(State.RESUMING, replace(LENT_TO_BOB, seconds=None)), WITHIN).back_within is None


@pytest.mark.parametrize("state", [State.RUNNING, State.STOPPING])
def test_a_share_in_use_has_no_suspension_even_while_one_is_decided(state):
    assert suspension_view(a_record(state), WITHIN) is None
    assert suspension_view(a_record(State.SUSPENDED, replace(LENT_TO_BOB, since=None)), WITHIN) is None


def test_nothing_is_promised_while_something_stands_in_the_way():
    suspended, resuming = used(a_record(State.SUSPENDED)), a_record(State.RESUMING)
    assert suspension_sentence(suspended, UNKNOWN) == "A cell waits for the share."
    assert suspension_sentence(resuming, UNKNOWN) == "The share is to come back."
    assert suspension_view(suspended, UNKNOWN).back_within is suspension_view(resuming, UNKNOWN).back_within is None


def test_the_sentence_follows_the_share_on_its_way_back():
    suspended = a_record(State.SUSPENDED)
    assert suspension_sentence(suspended, WITHIN) == "Lent to bob."
    assert "before all other work, within about 60 s" in suspension_sentence(used(suspended), WITHIN)
    assert "about 8 s" in suspension_sentence(a_record(State.RESUMING), WITHIN)
    assert "about" not in suspension_sentence(a_record(State.RESUMING, replace(LENT_TO_BOB, seconds=None)), WITHIN)


def test_a_suspended_notebook_that_is_told_to_end_is_stopping():
    stop = Stop(reason=EvictReason.STOPPED_BY_USER, sentence="", by=None, at=NOW, requeue=False)
    assert notebook_phase(a_record(State.SUSPENDED).workload) == "suspended"
    assert notebook_phase(a_record(State.SUSPENDED, stop=stop).workload) == "stopping"
    assert notebook_phase(a_record(State.RESUMING).workload) == "resuming"


def test_a_job_is_told_how_many_notebooks_have_lent_its_devices():
    assert describe_lent(0) == ""
    assert describe_lent(1) == "The share is lent by an idle notebook, so the job may be paused at any moment."
    assert describe_lent(3) == "Shares are lent by 3 idle notebooks, so the job may be paused at any moment."


def waiting(**plan) -> Comeback:
    return replace(WITHIN, plan=Returning(workload="nb-ann", **plan))


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({}, "A cell waits, so the share comes back before all other work, within about 60 s."),
        (
            {"leaving": ("a",)},
            "A cell waits, so the share comes back before all other work, within about 60 s: "
            "1 job that borrowed the GPU makes room.",
        ),
        (
            {"leaving": ("a", "b")},
            "A cell waits, so the share comes back before all other work, within about 60 s: "
            "2 jobs that borrowed the GPU make room.",
        ),
        (
            {"leaving": ("a", "b"), "ahead": 1},
            "A cell waits. The share has place 2 in line and comes back within about 60 s: 1 notebook on the same GPU "
            "whose server is older goes first, and 2 jobs that borrowed the GPU make room.",
        ),
        (
            {"ahead": 2},
            "A cell waits. The share has place 3 in line and comes back within about 60 s: 2 notebooks on the same GPU "
            "whose servers are older go first.",
        ),
    ],
    ids=["room", "a job", "jobs", "place 2", "place 3"],
)
def test_a_cell_that_waits_reads_its_place_in_line_and_what_it_waits_for(plan, sentence):
    """Place 1 is no line: then only what is waited for is told."""
    record = used(a_record(State.SUSPENDED))
    assert suspension_sentence(record, waiting(**plan)) == sentence
    view = suspension_view(record, waiting(**plan))
    assert (view.wanted, view.position, view.leaving) == (True, plan.get("ahead", 0) + 1, len(plan.get("leaving", ())))


def test_no_place_in_line_is_told_without_a_cell_that_waits_or_on_the_way_back():
    suspended, resuming = (
        suspension_view(a_record(State.SUSPENDED), WITHIN),
        suspension_view(a_record(State.RESUMING), WITHIN),
    )
    assert (suspended.wanted, suspended.position, suspended.leaving) == (False, None, 0)
    assert (resuming.wanted, resuming.position, resuming.leaving) == (True, None, 0)


WAITS = "A cell waits for the share. "


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"kept_out": KeptOut.WORK, "blockers": 1}, "1 program that cannot be paused uses its GPU: {room}"),
        ({"kept_out": KeptOut.WORK, "blockers": 2}, "2 programs that cannot be paused use its GPU: {room}"),
        (
            {"kept_out": KeptOut.OLDER, "ahead": 1},
            "1 notebook on the same GPU whose server is older goes first: {room}",
        ),
        ({"kept_out": KeptOut.OTHER}, "Something else is coming to its GPU: {room}"),
        ({"kept_out": KeptOut.UNOBSERVED}, UNOBSERVED),
        (
            {"kept_out": KeptOut.MISSING},
            "Its GPU is not in the cluster at present: the share comes back once that GPU is there again.",
        ),
    ],
    ids=lambda value: value["kept_out"] if isinstance(value, dict) else "",
)
def test_a_cell_that_waits_for_something_else_than_borrowers_reads_what_and_nothing_is_promised(plan, why):
    kept_out = replace(waiting(**plan), within=None, left=None)
    record = used(a_record(State.SUSPENDED))
    room = "the share comes back once there is room."
    assert suspension_sentence(record, kept_out) == WAITS + why.format(room=room)
    assert suspension_view(record, kept_out).position is None


@pytest.mark.parametrize("why", KeptOut)
def test_every_cell_that_waits_reads_a_reason(why):
    """What is unusable is told as trouble of the notebook, next to its sentence."""
    kept_out = replace(waiting(kept_out=why), within=None, left=None)
    sentence = suspension_sentence(used(a_record(State.SUSPENDED)), kept_out)
    assert len(sentence) > len(WAITS) or why is KeptOut.UNUSABLE
