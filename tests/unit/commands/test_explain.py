"""The commands `explain`, `logs -f` and `submit` say the state of a job once, and its start as JupyterLab does."""

import pytest

from jupyter_gq.client.models import ExpectedStart, JobView
from jupyter_gq.commands.explain import describe_start, explain
from jupyter_gq.commands.printing.printer import StatePrinter


def a_job(phase: str, sentence: str, **fields) -> JobView:
    usual = {"id": "job-1", "name": "digits", "owner": "ann", "queue": "vision", "gpus": "0.5", "tasks": 1}
    told = {"priority": 0, "phase": phase, "sentence": sentence, "submitted_at": 0.0}
    return JobView.model_validate({**usual, **told, "prefix": [], "targets": [], **fields})


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        (
            a_job("waiting", "Waiting: it is considered next."),
            ["digits (job-1) was sent 60 s ago.", "Waiting: it is considered next."],
        ),
        (
            a_job("waiting", "Held by you since noon.", held_since=1.0),
            ["digits (job-1) was sent 60 s ago.", "Held by you since noon."],
        ),
        (
            a_job("waiting", "It starts soon."),
            ["digits (job-1) is waiting, 60 s after it was sent.", "It starts soon."],
        ),
        (a_job("cancelled", "Cancelled."), ["digits (job-1) was cancelled, 60 s after it was sent."]),
        (
            a_job("cancelled", "Cancelled by bob."),
            ["digits (job-1) ended 60 s after it was sent.", "Cancelled by bob."],
        ),
        (
            a_job("done", "", eviction={"reason": "RECLAIMED", "sentence": "Paused: nlp needed it.", "at": 1.0}),
            ["digits (job-1) is done, 60 s after it was sent.", "Its last pause: nlp needed it."],
        ),
        (
            a_job("done", "", continue_from="job-0"),
            ["digits (job-1) is done, 60 s after it was sent.", "Continues from the checkpoints of job-0."],
        ),
    ],
    ids=lambda given: given.sentence if isinstance(given, JobView) else "",
)
def test_the_state_is_said_once(job, lines):
    assert list(explain(job, [], 60.0)) == lines


@pytest.mark.parametrize(
    ("p50", "p90", "said"),
    [
        (157.0, 277.0, "Probably starts within 1 min, almost surely within 3 min (a guess)."),
        (160.2, 219.0, "Probably starts within 2 min (a guess)."),
        (99.0, 100.0, "Probably starts within 1 min (a guess)."),
        (2000.0, 9000.0, "Probably starts within 35 min, almost surely within 2 h 30 min (a guess)."),
    ],
)
def test_a_start_is_told_as_in_the_lab_and_no_number_twice(p50, p90, said):
    start = ExpectedStart(p50=p50, p90=p90, outcomes=0, at=100.0)
    assert describe_start(start, 100.0) == said


def test_news_of_a_waiting_job_that_is_followed_names_its_place_and_comes_once(capsys):
    printer = StatePrinter()
    for position in (2, 2, 1):
        printer.show_job(a_job("waiting", "Waiting: it needs 1 GPU.", position=position))
    printer.show_job(a_job("running", "Running on 1 GPU."))
    printer.show_job(a_job("running", "Running on 1 GPU of A100."))
    assert capsys.readouterr().err.splitlines() == [
        "Waiting: it needs 1 GPU. Place in the queue: 2.",
        "Waiting: it needs 1 GPU. Place in the queue: 1.",
        "Running on 1 GPU.",
    ]
