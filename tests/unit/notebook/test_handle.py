"""The handle of a job says how it is, waits through restarts, and brings back the value or the error."""

import pytest

import jupyter_gq
from jupyter_gq.notebook import handle
from jupyter_gq.notebook.handle import JOB_MIME
from tests.unit.notebook.socket_server import SocketServer

JOB = "/jobs/job-1"
DOWN = (503, {"code": "service_unavailable", "message": "It may be restarting."})


def a_job(phase="waiting", **fields):
    return 200, {
        "id": "job-1",
        "name": "train",
        "phase": phase,
        "sentence": "2nd in line.",
        "queue": "vision",
        "gpus": "0.5",
        "tasks": 2,
        "returns": ["returned"],
        "submitted_at": 1.0,
        "started_at": None,
        "finished_at": None,
        **fields,
    }


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = SocketServer(tmp_path)
    monkeypatch.setenv("JUPYTER_GQ_SOCKET", server.path)
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    monkeypatch.setattr(handle, "INTERVAL", 0.01)
    yield server
    server.close()


def says(server, *answers):
    server.answers["GET", JOB] = list(answers)


def test_it_waits_until_the_job_has_ended_also_while_the_service_restarts(server) -> None:
    says(server, a_job(), a_job(), DOWN, a_job("running"), a_job("done"))
    assert jupyter_gq.job("job-1").wait() == "done"
    assert len(server.asked) == 5


def test_a_wait_ends_at_its_timeout_with_the_state_of_then(server) -> None:
    says(server, a_job("running"))
    job = jupyter_gq.job("job-1")
    assert job.wait(0.02) == "running"
    assert job.wait(0) == "running"
    with pytest.raises(TimeoutError, match="'train' has not ended within 0 s: it is running"):
        job.result(0)


def test_a_refusal_ends_the_wait(server) -> None:
    says(server, a_job(), (404, {"code": "not_found", "message": "There is no job 'job-1'."}))
    with pytest.raises(jupyter_gq.JobError, match="There is no job 'job-1'"):
        jupyter_gq.job("job-1").wait()


@pytest.mark.parametrize(("status", "clause"), [("failed", "has failed"), ("cancelled", "was cancelled")])
def test_a_job_without_result_raises_its_sentence_and_its_traceback(server, status, clause) -> None:
    says(server, a_job(status, sentence="ValueError in cell 1."))
    server.answers["GET", JOB + "/text"] = (200, {"text": "lr is 1", "error": "line 3\nValueError: no"})
    with pytest.raises(jupyter_gq.JobFailed) as raised:
        jupyter_gq.job("job-1").result()
    assert str(raised.value) == (f"The job 'train' (job-1) {clause}. ValueError in cell 1.\n\nline 3\nValueError: no")


def test_a_job_without_names_of_variables_brings_back_the_value_that_it_has_shown(server) -> None:
    says(server, a_job("done", returns=[]))
    server.answers["GET", JOB + "/value"] = (200, {"value": {"loss": 0.5}})
    assert jupyter_gq.job("job-1").result() == {"loss": 0.5}
    server.answers["GET", JOB + "/value"] = (200, {"value": None})
    with pytest.raises(jupyter_gq.JobError, match="Name the variables when you send it"):
        jupyter_gq.job("job-1").result()


def test_a_job_that_has_ended_needs_no_cancelling(server) -> None:
    says(server, a_job("done"))
    job = jupyter_gq.job("job-1")
    server.answers["DELETE", JOB] = (409, {"code": "conflict", "message": "It is done already."})
    job.cancel()
    server.answers["DELETE", JOB] = (404, {"code": "not_found", "message": "There is no job."})
    with pytest.raises(jupyter_gq.JobError, match="There is no job"):
        job.cancel()


def test_a_job_is_changed_by_what_is_named(server) -> None:
    says(server, a_job())
    job = jupyter_gq.job("job-1")
    server.answers["PATCH", JOB] = a_job(tasks=4)
    job.change(tasks=4, min_tasks=2, held=False)
    assert ("PATCH", JOB) in server.asked
    named = {name: value for name, value in server.bodies[-1].items() if value is not None}
    assert named == {"tasks": 4, "min_tasks": 2, "held": False}
    with pytest.raises(ValueError, match="gpus is a finite number"):
        job.change(gpus=float("nan"))
    server.answers["PATCH", JOB] = (409, {"code": "conflict", "message": "The job 'train' does not wait."})
    with pytest.raises(jupyter_gq.JobError, match="does not wait") as refused:
        job.change(tasks=2)
    assert refused.value.code == "conflict"


def test_the_cost_counts_the_gpus_of_all_tasks(server) -> None:
    says(server, a_job("done", started_at=100.0, finished_at=160.0, ran_seconds=45.0, running_since=None))
    assert jupyter_gq.job("job-1").cost == 45.0
    says(server, a_job())
    assert jupyter_gq.job("job-1").cost == 0.0


def test_it_is_shown_live_in_the_lab_and_as_text_and_html_elsewhere(server) -> None:
    says(server, a_job(), a_job("running", name="<b>", sentence="Since\n 3 min."))
    job = jupyter_gq.job("job-1")
    shown = job._repr_mimebundle_()
    assert shown["text/plain"] == "<Job job-1 '<b>': running. Since 3 min.>"
    assert "&lt;b&gt;" in shown["text/html"]
    assert (shown[JOB_MIME]["job"], shown[JOB_MIME]["phase"]) == ("job-1", "running")


def test_it_says_its_state_once(server) -> None:
    says(server, a_job(sentence="Waiting: it needs 2 GPUs."))
    assert repr(jupyter_gq.job("job-1")) == "<Job job-1 'train': waiting. It needs 2 GPUs.>"


def test_it_is_shown_as_last_known_if_nobody_answers(server) -> None:
    says(server, a_job(), DOWN)
    assert repr(jupyter_gq.job("job-1")) == "<Job job-1 'train': waiting. 2nd in line.>"


def test_where_no_jobs_can_be_sent_a_sentence_says_why(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("JUPYTER_GQ_SOCKET", raising=False)
    monkeypatch.setenv("GQ_RUN_DIR", str(tmp_path))
    with pytest.raises(jupyter_gq.JobError, match="a job cannot send jobs"):
        jupyter_gq.submit(print)
    monkeypatch.delenv("GQ_RUN_DIR")
    with pytest.raises(jupyter_gq.JobError, match="not started by a Jupyter server with jupyter-gq"):
        jupyter_gq.job("job-1")


@pytest.mark.parametrize("id", [None, "", " ", 7, b"job-1", ["job-1"]])
def test_what_is_no_id_of_a_job_is_said_in_a_sentence(server, id) -> None:
    with pytest.raises(jupyter_gq.JobError, match='is not the id of a job, such as "job-4f1c"'):
        jupyter_gq.job(id)
    assert server.asked == []


def test_a_deleted_working_folder_is_said_before_anything_is_sent(server, tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for send in (lambda: jupyter_gq.submit(print), lambda: jupyter_gq.sweep(dict, {"lr": [1]})):
        with pytest.raises(jupyter_gq.JobError, match="working folder of this kernel was deleted"):
            send()
    assert server.asked == []


def test_a_script_is_told_about_the_command(server) -> None:
    with pytest.raises(jupyter_gq.JobError, match="use `jupyter-gq submit` in a terminal"):
        jupyter_gq.submit(print, "x")
    assert server.asked == []


def test_files_of_a_job_are_listed(server) -> None:
    says(server, a_job("done"))
    listed = [{"path": "model.pt", "bytes": 7, "reason": ""}]
    server.answers["GET", JOB + "/results"] = (200, {"variables": [], "files": listed})
    assert jupyter_gq.job("job-1").files() == listed


def test_files_of_a_job_are_copied_by_the_server_into_a_folder(server, tmp_path, monkeypatch) -> None:
    says(server, a_job("done"))
    target = str(tmp_path / "model.pt")
    server.answers["POST", JOB + "/copies"] = (200, {"copied": [{"path": "model.pt", "target": target}]})
    job = jupyter_gq.job("job-1")
    assert job.download("model.pt", to=tmp_path, replace=True) == [tmp_path / "model.pt"]
    monkeypatch.chdir(tmp_path)
    job.download()
    assert server.bodies == [
        {"paths": ["model.pt"], "existing": "replace", "folder": str(tmp_path)},
        {"paths": [], "existing": "ask", "folder": str(tmp_path)},
    ]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((409, {"code": "files_exist", "message": "'a' differs.", "files": []}), "'a' differs"),
        ((200, {"copied": None, "problem": "The disk is full."}), "The disk is full"),
        ((200, {"copied": None, "done": 5, "problem": ""}), "ended the copies"),
    ],
)
def test_copies_that_were_not_made_raise_their_sentence(server, tmp_path, answer, sentence) -> None:
    says(server, a_job("done"))
    server.answers["POST", JOB + "/copies"] = answer
    with pytest.raises(jupyter_gq.JobError, match=sentence):
        jupyter_gq.job("job-1").download(to=tmp_path)


@pytest.mark.parametrize("name", ["", 5, ["a"], b"a"])
def test_what_names_no_file_is_refused_before_the_server_is_asked(server, name) -> None:
    says(server, a_job("done"))
    with pytest.raises(jupyter_gq.JobError, match="is not the path of a file of a job"):
        jupyter_gq.job("job-1").download(name)


@pytest.mark.parametrize("folder", ["gone", 5, None, "a\0b", b"bytes", "x" * 5000])
def test_a_folder_that_is_not_there_is_refused_before_the_server_is_asked(
    server, tmp_path, monkeypatch, folder
) -> None:
    says(server, a_job("done"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(jupyter_gq.JobError, match="There is no folder"):
        jupyter_gq.job("job-1").download(to=folder)
