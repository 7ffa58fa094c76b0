"""What a change may write, and what it leaves alone."""

from dataclasses import fields, replace
from typing import get_type_hints

import pytest

from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange, apply_change
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import IllegalTransition
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import Record
from tests.builders import a_job

RECORD = Record(workload=a_job("digits", "vision"), detail=WorkloadDetail(cwd="/home/ann", sentence="Paused."))


@pytest.mark.parametrize(("change", "whole"), [(WorkloadChange, Workload), (DetailChange, WorkloadDetail)])
def test_a_change_names_only_fields_that_there_are(change, whole):
    assert set(get_type_hints(change)) <= {field.name for field in fields(whole)}


def test_no_change_names_a_state_or_who_it_is():
    assert not {"id", "kind", "owner", "name", "state", "submitted_at"} & set(get_type_hints(WorkloadChange))


def test_what_a_change_does_not_name_stays():
    change = Change(
        workload="digits",
        event=Event.CANCELLED,
        fields=WorkloadChange(finished_at=Instant(9.0)),
        detail=DetailChange(sentence="Cancelled."),
    )
    after = apply_change(RECORD, change)
    assert after.workload == replace(RECORD.workload, state=State.CANCELLED, finished_at=Instant(9.0))
    assert after.detail == WorkloadDetail(cwd="/home/ann", sentence="Cancelled.")
    assert apply_change(RECORD, Change(workload="digits")) == RECORD


def test_an_impossible_event_changes_nothing():
    with pytest.raises(IllegalTransition):
        apply_change(RECORD, Change(workload="digits", event=Event.STARTED))


def test_a_field_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="colour"):
        apply_change(RECORD, Change(workload="digits", detail={"colour": "red"}))
