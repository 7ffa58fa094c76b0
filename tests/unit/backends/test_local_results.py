"""The result of a run follows from the results of its tasks."""

import pytest

from jupyter_gq.backends.local.ledger import Run
from jupyter_gq.backends.local.results import Result, combine_results, explain_missing_result
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.exit_status import DISK_FULL, NO_ROOM, RESULT_NOT_WRITTEN


def a_run(**fields):
    return Run(job="job-1", number=1, owner="ann", launched_at=0.0, boot="", **{"tasks": (None,), **fields})


def results(*outcomes):
    return {task: Result(outcome=outcome, sentence=f"{outcome}.") for task, outcome in enumerate(outcomes)}


S, F, P, K, L = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED, Outcome.KILLED, Outcome.LOST


@pytest.mark.parametrize(
    ("tasks", "outcome"),
    [
        ((S, S), S),
        ((S, P), P),
        ((P, K), K),
        ((K, L), L),
        ((L, F, S), F),
    ],
)
def test_gravest_result_of_a_gang_counts(tasks, outcome):
    assert combine_results(a_run(tasks=(None,) * len(tasks)), results(*tasks)).outcome is outcome


def test_task_because_of_which_the_others_were_stopped_counts():
    result = combine_results(a_run(culprit=1, tasks=(None,) * 3), results(F, L, K))
    assert result == Result(outcome=L, sentence="Task 1 of 3: LOST.")


def test_result_of_a_single_task_is_that_of_the_run():
    assert combine_results(a_run(), results(F)) == Result(outcome=F, sentence="FAILED.")


def test_a_process_that_was_killed_for_its_memory_is_told_with_its_limit(tmp_path):
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    (tmp_path / "memory.events").write_text("oom 3\noom_kill 1\n")
    for exit_code in (-9, None):
        assert explain_missing_result(a_run(group=str(tmp_path)), exit_code) == Result(
            outcome=F,
            sentence="The process was killed because the job used more than its memory of 1 GiB. "
            "Use less memory, or ask for more.",
        )
    assert "memory" not in explain_missing_result(a_run(group=str(tmp_path)), -11).sentence
    (tmp_path / "memory.events").write_text("oom 0\noom_kill 1\n")
    assert explain_missing_result(a_run(group=str(tmp_path)), -9).outcome is L, "the machine was short, not the job"


def test_missing_result_means_killed_after_a_stop_and_otherwise_lost():
    assert explain_missing_result(a_run(stop_asked=True), -15).outcome is K
    assert explain_missing_result(a_run(), -9).sentence == (
        "The process ended without a result (killed, most often because the machine ran out of memory)."
    )
    assert explain_missing_result(a_run(group="/no/such/group"), -9).sentence.endswith(
        "the machine ran out of memory)."
    )
    assert "signal 11" in explain_missing_result(a_run(), -11).sentence
    assert "exit code 0" in explain_missing_result(a_run(), 0).sentence
    unwritten = explain_missing_result(
        a_run(), RESULT_NOT_WRITTEN, log=lambda: b"printed\nresult.json: Is a directory.\n"
    )
    assert unwritten.outcome is F
    assert unwritten.sentence == "The result of this run could not be written. result.json: Is a directory."
    assert explain_missing_result(a_run(), DISK_FULL) == Result(outcome=L, sentence=NO_ROOM)
    assert explain_missing_result(a_run(), None).sentence == "The process ended without a result."
