"""The result of a run follows from the results of its tasks."""

import subprocess

import pytest

from jupyter_gq.backends.local import tasks
from jupyter_gq.backends.local.ledger import Run
from jupyter_gq.backends.local.results import Result, combine_results, explain_missing_result
from jupyter_gq.backends.local.tasks import ENTER, check_enter, enter_folder
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.exit_status import DISK_FULL, NO_ROOM, RESULT_NOT_WRITTEN
from jupyter_gq.domain.errors import AdminError


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
    unwritten = explain_missing_result(a_run(), RESULT_NOT_WRITTEN, log_end=b"printed\nresult.json: Is a directory.\n")
    assert unwritten.outcome is F
    assert unwritten.sentence == "The result of this run could not be written. result.json: Is a directory."
    assert explain_missing_result(a_run(), DISK_FULL) == Result(outcome=L, sentence=NO_ROOM)
    assert explain_missing_result(a_run(), None).sentence == "The process ended without a result."


def test_a_working_folder_that_cannot_be_entered_fails_the_job(tmp_path):
    entering = subprocess.run([ENTER, "-C", str(tmp_path / "gone"), "true"], capture_output=True, check=False)
    result = explain_missing_result(a_run(), entering.returncode, log_end=entering.stderr)
    assert result.outcome is Outcome.FAILED
    assert result.sentence.startswith("The task could not be started: cannot change directory to ")
    assert result.sentence.endswith("No such file or directory.")


def test_a_command_with_an_equals_sign_in_its_path_begins_in_the_same_process(tmp_path):
    program = tmp_path / "cuda=12" / "program"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$$ $(pwd) $*"\nexit 7\n')
    program.chmod(0o700)
    with subprocess.Popen(enter_folder("/", [str(program), "-P", "a=b"]), stdout=subprocess.PIPE, text=True) as process:
        told = process.communicate()[0]
    assert told == f"{process.pid} / -P a=b\n"
    assert process.returncode == 7


def test_a_missing_command_with_an_equals_sign_in_its_path_fails_the_job(tmp_path):
    command = enter_folder("/", [str(tmp_path / "a=b")])
    entering = subprocess.run(command, capture_output=True, check=False)
    result = explain_missing_result(a_run(), entering.returncode, log_end=entering.stderr)
    assert result.outcome is Outcome.FAILED
    assert result.sentence.startswith("The task could not be started: ")
    assert "a=b" in result.sentence


def test_an_old_env_is_told_before_any_job(tmp_path, monkeypatch):
    check_enter()
    old = tmp_path / "env"
    monkeypatch.setattr(tasks, "ENTER", str(old))
    with pytest.raises(AdminError, match=r"cannot enter a folder \(No such file or directory\)\. Install GNU"):
        check_enter()
    old.write_text("#!/bin/sh\necho usage >&2\nexit 1\n")
    old.chmod(0o700)
    with pytest.raises(AdminError, match=r"cannot enter a folder \(it ends with the status 1\)"):
        check_enter()


@pytest.mark.parametrize("log", [b"", b"line 3: nvidia-smi: command not found\n"])
def test_a_runner_that_ends_with_the_status_of_the_start_is_lost_as_before(log):
    assert explain_missing_result(a_run(), 127, log_end=log).outcome is Outcome.LOST
