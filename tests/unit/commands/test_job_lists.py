"""The table of jobs says how many tasks a job has, and how many it could have."""

import pytest

from jupyter_gq.client.models import JobSummary
from jupyter_gq.commands.job_lists import format_jobs


def a_summary(**fields) -> JobSummary:
    usual = {"id": "job-1", "name": "digits", "owner": "ann", "queue": "vision", "gpus": "0.5", "tasks": 1}
    told = {"priority": 0, "phase": "running", "sentence": "Runs.", "submitted_at": 0.0}
    return JobSummary.model_validate({**usual, **told, **fields})


def test_the_reason_does_not_repeat_the_state():
    waits = a_summary(phase="waiting", position=2, sentence="Waiting: it needs 2 GPUs.")
    held = a_summary(phase="waiting", held_since=1.0, sentence="Held by you since noon.")
    runs = a_summary(progress={"fraction": 0.5, "text": ""}, sentence="Running on 1 GPU of A100.")
    ended = a_summary(phase="cancelled", sentence="Cancelled.")
    header, *lines = format_jobs([waits, held, runs, ended], 60.0, width=None)
    state, reason = header.index("STATE"), header.index("REASON")
    assert [(line[state : header.index("NAME")].strip(), line[reason:]) for line in lines] == [
        ("waiting, place 2", "It needs 2 GPUs."),
        ("held", "By you since noon."),
        ("running, 50 %", "On 1 GPU of A100."),
        ("cancelled", ""),
    ]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "0.5"),
        ({"tasks": 4}, "4 x 0.5"),
        ({"tasks": 4, "min_tasks": 2, "tasks_now": 3}, "3 of 4 x 0.5"),
        ({"tasks": 4, "min_tasks": 2, "tasks_now": 4}, "4 x 0.5"),
        ({"tasks": 4, "min_tasks": 2, "phase": "waiting"}, "2 to 4 x 0.5"),
    ],
)
def test_the_table_shows_the_gpus_of_each_task_and_the_tasks(fields, shown):
    _, line = format_jobs([a_summary(**fields)], 60.0, width=None)
    assert f"  {shown}  " in line
