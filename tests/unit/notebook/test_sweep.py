"""A sweep is a job for each point of a grid; its table has the best first, and its jobs end early on request."""

import importlib
import sys

import pytest

import jupyter_gq
from jupyter_gq.notebook import handle, submit
from tests.unit.notebook.socket_server import SocketServer


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = SocketServer(tmp_path)
    monkeypatch.setenv("JUPYTER_GQ_SOCKET", server.path)
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    monkeypatch.setattr(handle, "INTERVAL", 0.01)
    for module in (submit, importlib.import_module("jupyter_gq.notebook.sweep")):
        monkeypatch.setattr(module, "find_kernel_id", lambda: "kernel-1")
    yield server
    server.close()


def a_view(number, phase="waiting"):
    return {"id": f"job-{number}", "name": f"train lr={number}", "phase": phase, "returns": ["returned"]}


def lists(server, *phases):
    """Let the sweep have jobs in these phases, in the order of the grid."""
    server.answers["GET", "/jobs"] = (200, {"jobs": [a_view(n, phase) for n, phase in enumerate(phases)][::-1]})


def returned(server, **values):
    for name, value in values.items():
        server.answers["GET", f"/jobs/{name.replace('_', '-')}/value"] = (200, {"value": value})


def send(server, count, **options):
    server.answers["POST", "/jobs"] = [(200, {"job": a_view(n), "notes": []}) for n in range(count)]
    return jupyter_gq.sweep(dict, [{"lr": n} for n in range(count)], queue="vision", **options)


def test_each_point_is_a_job_of_one_group_with_its_limit(server) -> None:
    sweep = send(server, 2, gpus=0.5, parallel=1)
    assert [body["name"] for body in server.bodies] == ["dict lr=0", "dict lr=1"]
    assert {(body["group"], body["group_parallel"], body["gpus"]) for body in server.bodies} == {(sweep.id, 1, 0.5)}
    assert {(body["group_metric"], body["group_mode"]) for body in server.bodies} == {("", "max")}
    assert len({body["key"] for body in server.bodies}) == 2


def test_arguments_that_do_not_fit_send_nothing(server) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'lr'"):
        jupyter_gq.sweep(lambda lr: lr, {"lrr": [1]})
    with pytest.raises(ValueError, match='mode is "max" or "min"'):
        jupyter_gq.sweep(lambda lr: lr, {"lr": [1]}, mode="best")
    assert server.asked == []


class LoadsNowhere:
    def __call__(self, lr):
        return lr

    def __reduce__(self):
        return int, ("no number",)


def test_the_first_point_is_loaded_before_anything_is_sent_unless_the_user_says_otherwise(server) -> None:
    server.answers["POST", "/jobs"] = (200, {"job": a_view(0), "notes": []})
    with pytest.raises(jupyter_gq.JobError, match="A job could not load the function"):
        jupyter_gq.sweep(LoadsNowhere(), {"lr": [1]}, queue="vision")
    assert server.asked == []
    assert len(jupyter_gq.sweep(LoadsNowhere(), {"lr": [1]}, queue="vision", check=False).jobs) == 1


def test_a_refusal_in_the_middle_cancels_what_was_sent(server) -> None:
    lists(server, "waiting")
    refused = (429, {"code": "limit_reached", "message": "You have 100 jobs that wait."})
    server.answers["POST", "/jobs"] = [(200, {"job": a_view(0), "notes": []}), refused]
    server.answers["POST", "/cancel"] = (202, {"jobs": [a_view(0)], "refused": []})
    with pytest.raises(jupyter_gq.JobError, match="You have 100 jobs that wait"):
        jupyter_gq.sweep(dict, {"lr": [1, 2]}, queue="vision")
    assert server.bodies[-1] == {"jobs": ["job-0"]}


@pytest.mark.parametrize(("mode", "order"), [("max", [2, 0, 1, 3]), ("min", [0, 2, 1, 3])])
def test_the_table_has_the_best_first_and_what_has_no_number_last(server, monkeypatch, mode, order) -> None:
    sweep = send(server, 4, metric="score", mode=mode)
    lists(server, "done", "failed", "done", "done")
    returned(server, job_0={"size": 9, "score": 1}, job_2={"size": 1, "score": 2.5}, job_3="no number")
    table = sweep.table()
    assert table["lr"].tolist() == order
    assert table["state"].tolist() == [{1: "failed"}.get(lr, "done") for lr in order]
    assert sweep.best().id == f"job-{order[0]}"
    monkeypatch.setitem(sys.modules, "pandas", None)
    lines = repr(sweep.table()).splitlines()
    assert lines[0].split() == ["id", "lr", "state", "size", "score"]
    assert [line.split()[0] for line in lines[1:]] == [f"job-{lr}" for lr in order]


@pytest.mark.parametrize(("mode", "order"), [("max", [3, 0, 2, 1]), ("min", [2, 0, 3, 1])])
def test_infinite_numbers_are_shown_as_they_are_and_nan_comes_last(server, monkeypatch, mode, order) -> None:
    sweep = send(server, 4, mode=mode)
    lists(server, "done", "done", "done", "done")
    returned(server, job_0=0.5, job_1="nan", job_2="-inf", job_3="inf")
    table = sweep.table()
    assert table["lr"].tolist() == order
    assert "-inf" in table.to_html()
    monkeypatch.setitem(sys.modules, "pandas", None)
    plain = sweep.table()
    shown = {0: "0.5", 1: "nan", 2: "-inf", 3: "inf"}
    assert [line.split()[-1] for line in repr(plain).splitlines()[1:]] == [shown[lr] for lr in order]
    assert "<td>-inf</td>" in plain._repr_html_()
    assert sweep.best().id == f"job-{order[0]}"


def test_nan_is_no_number_yet(server) -> None:
    sweep = send(server, 1)
    lists(server, "done")
    returned(server, job_0="nan")
    with pytest.raises(jupyter_gq.JobError, match="No job of the sweep has returned a number, and all have ended"):
        sweep.best()
    assert sweep.cancel(keep_best=1) == 0


def test_a_number_alone_is_its_own_metric(server) -> None:
    sweep = send(server, 2)
    lists(server, "done", "done")
    returned(server, job_0=0.1, job_1=0.2)
    assert sweep.table()["value"].tolist() == [0.2, 0.1]


def test_the_rest_is_cancelled_once_enough_have_a_number(server) -> None:
    sweep = send(server, 3)
    server.answers["POST", "/cancel"] = (202, {"jobs": [a_view(1), a_view(2)], "refused": []})
    lists(server, "running", "running", "waiting")
    assert sweep.cancel(keep_best=1) == 0
    assert ("POST", "/cancel") not in server.asked
    lists(server, "done", "running", "waiting")
    returned(server, job_0=0.5)
    assert sweep.cancel(keep_best=1) == 2
    assert sorted(server.bodies[-1]["jobs"]) == ["job-1", "job-2"]


def test_it_waits_for_all_jobs(server) -> None:
    sweep = send(server, 2)
    lists(server, "done", "running")
    assert not sweep.wait(0.02)
    lists(server, "done", "failed")
    assert sweep.wait()
    assert repr(sweep) == f"<Sweep {sweep.id}: 2 jobs (1 failed, 1 done)>"


def test_it_is_found_again_after_a_restart_of_the_kernel(server) -> None:
    lists(server, "done", "waiting")
    found = jupyter_gq.find_sweep("sweep-1")
    assert [job.id for job in found.jobs] == ["job-0", "job-1"]
    assert ("GET", "/jobs?group=sweep-1") in server.asked
    lists(server)
    with pytest.raises(jupyter_gq.JobError, match="no sweep 'sweep-1' of yours"):
        jupyter_gq.find_sweep("sweep-1")


def test_what_is_found_again_is_ordered_as_it_was_sent_unless_that_is_said(server) -> None:
    views = [{**a_view(n, "done"), "group_metric": "loss", "group_mode": "min"} for n in range(2)]
    server.answers["GET", "/jobs"] = (200, {"jobs": views[::-1]})
    returned(server, job_0={"size": 1, "loss": 0.5}, job_1={"size": 2, "loss": 0.25})
    assert jupyter_gq.find_sweep("sweep-1").best().id == "job-1"
    assert jupyter_gq.find_sweep("sweep-1", mode="max").best().id == "job-0"
    assert jupyter_gq.find_sweep("sweep-1", metric="size").best().id == "job-0"
    with pytest.raises(ValueError, match='mode is "max" or "min"'):
        jupyter_gq.find_sweep("sweep-1", mode="best")


@pytest.mark.parametrize("group", [None, "", "  ", 7, "\ud800", "x" * 70000], ids=lambda group: repr(group)[:20])
def test_what_is_no_id_of_a_sweep_is_said_in_a_sentence(server, group) -> None:
    with pytest.raises(jupyter_gq.JobError, match='is not the id of a sweep, such as "sweep-4f1c"'):
        jupyter_gq.find_sweep(group)
    assert server.asked == []


def test_all_points_continue_from_one_job_and_none_begins_without_its_checkpoints(server) -> None:
    earlier = jupyter_gq.notebook.handle.Job(server, a_view(9))
    views = [{**a_view(n), "continue_from": "job-9"} for n in range(2)]
    server.answers["POST", "/jobs"] = [(200, {"job": view, "notes": []}) for view in views]
    sweep = jupyter_gq.sweep(dict, {"lr": [0.1, 0.2]}, queue="vision", continue_from=earlier)
    assert [body["continue_from"] for body in server.bodies] == ["job-9", "job-9"]
    assert [job.id for job in sweep.jobs] == ["job-0", "job-1"]
    server.answers["POST", "/jobs"] = [(200, {"job": a_view(3), "notes": []})]
    server.answers["DELETE", "/jobs/job-3"] = (202, a_view(3, "cancelled"))
    server.answers["GET", "/jobs/job-9"] = (200, a_view(9))
    with pytest.raises(jupyter_gq.JobError, match="job-3 would have begun without the checkpoints of job-9, so it was"):
        jupyter_gq.submit(dict, queue="vision", continue_from="job-9")
    assert ("DELETE", "/jobs/job-3") in [tuple(asked[:2]) for asked in server.asked]


def test_the_job_that_was_the_last_one_before_a_sweep_is_the_one_from_which_all_points_continue(server) -> None:
    server.answers["GET", "/jobs/last"] = [(200, a_view(9)), (200, a_view(0))]
    views = [{**a_view(n), "continue_from": "job-9"} for n in range(2)]
    server.answers["POST", "/jobs"] = [(200, {"job": view, "notes": []}) for view in views]
    jupyter_gq.sweep(dict, {"lr": [0.1, 0.2]}, queue="vision", continue_from="last")
    assert [body["continue_from"] for body in server.bodies] == ["job-9", "job-9"]


def test_a_job_to_continue_from_that_is_not_there_sends_nothing(server) -> None:
    server.answers["GET", "/jobs/4f"] = (404, {"code": "not_found", "message": "2 jobs have an id that begins so."})
    with pytest.raises(jupyter_gq.JobError, match="2 jobs have an id"):
        jupyter_gq.submit(dict, queue="vision", continue_from="4f")
    assert [tuple(asked[:2]) for asked in server.asked] == [("GET", "/jobs/4f")]


def test_each_option_of_a_job_goes_to_every_point(server) -> None:
    options = {
        "gpu_memory": "12 GB",
        "tasks": 2,
        "min_tasks": 1,
        "within": "rack",
        "max_seconds": 60,
        "preferred_gpu_models": ["H200", "H100"],
        "secrets": ["HF_TOKEN"],
    }
    send(server, 2, **options)
    for body in server.bodies:
        assert {name: body[name] for name in options} == options


@pytest.mark.parametrize("installed", [True, False])
def test_arguments_and_numbers_that_are_named_like_other_columns_stay_apart(server, monkeypatch, installed) -> None:
    points = [{"id": n, "state": "new", "lr": n} for n in range(2)]
    server.answers["POST", "/jobs"] = [(200, {"job": a_view(n), "notes": []}) for n in range(2)]
    sweep = jupyter_gq.sweep(dict, points, queue="vision", metric="lr")
    lists(server, "done", "done")
    returned(server, job_0={"lr": 5, "id": "job-1", "state": "lost"}, job_1={"lr": 9, "id": "job-0", "state": "lost"})
    if not installed:
        monkeypatch.setitem(sys.modules, "pandas", None)
    table = sweep.table()
    header, rows = (table.columns.tolist(), table.values.tolist()) if installed else (table.header, table.rows)
    assert header == [
        "id",
        "argument id",
        "argument state",
        "lr",
        "state",
        "returned lr",
        "returned id",
        "returned state",
    ]
    assert rows == [
        ["job-1", 1, "new", 1, "done", 9, "job-0", "lost"],
        ["job-0", 0, "new", 0, "done", 5, "job-1", "lost"],
    ]
    assert sweep.best().id == "job-1"


def test_a_name_that_is_already_a_heading_is_told_apart_too(server) -> None:
    server.answers["POST", "/jobs"] = (200, {"job": a_view(0), "notes": []})
    sweep = jupyter_gq.sweep(dict, [{"id": 1, "argument id": 2}], queue="vision")
    lists(server, "failed")
    assert sweep.table().columns.tolist() == ["id", "argument id", "argument argument id", "state"]


def test_a_metric_that_no_job_has_is_said_with_the_numbers_that_there_are(server) -> None:
    sweep = send(server, 2, metric="los")
    lists(server, "done", "done")
    returned(server, job_0={"loss": 0.5, "note": "text"}, job_1={"size": 3})
    words = r"returned a number named 'los'. The returned numbers are loss, size: .*metric='loss'"
    for ask in (sweep.best, lambda: sweep.cancel(keep_best=1)):
        with pytest.raises(jupyter_gq.JobError, match=words):
            ask()
    assert sweep.table()["loss"].tolist()[0] == 0.5


def test_text_before_the_first_number_is_said(server) -> None:
    sweep = send(server, 1)
    lists(server, "done")
    returned(server, job_0={"note": "text", "loss": 0.5})
    with pytest.raises(jupyter_gq.JobError, match=r"has returned a number first\. The returned numbers are loss:"):
        sweep.best()


def test_no_number_yet_is_said(server) -> None:
    sweep = send(server, 1)
    lists(server, "running")
    with pytest.raises(jupyter_gq.JobError, match="has returned a number yet"):
        sweep.best()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"parallel": 0}, ValueError, "parallel is a number of jobs .*at least 1, not 0"),
        ({"parallel": -1}, ValueError, "parallel is a number of jobs .*not -1"),
        ({"parallel": 1.5}, TypeError, "parallel is a number of jobs .*not 1.5"),
        ({"parallel": "two"}, TypeError, "parallel is a number of jobs .*not 'two'"),
        ({"parallel": True}, TypeError, "parallel is a number of jobs"),
        ({"metric": 3}, TypeError, "metric is the name of a number .*not 3"),
        ({"metric": ["q"]}, TypeError, "metric is the name of a number"),
        ({"metric": "x" * 101}, ValueError, "metric is a name of at most 100"),
        ({"metric": "a\ud800"}, ValueError, "metric is a name"),
        ({"mode": "zzz"}, ValueError, 'mode is "max" or "min", not \'zzz\''),
        ({"mode": ["max"]}, ValueError, 'mode is "max" or "min"'),
    ],
)
def test_options_of_a_sweep_are_refused_in_the_words_of_the_user(server, options, error, words) -> None:
    with pytest.raises(error, match=words):
        send(server, 1, **options)
    if "parallel" not in options:
        with pytest.raises(error, match=words):
            jupyter_gq.find_sweep("sweep-1", **options)
    assert server.asked == []


def test_what_is_no_number_is_refused_by_the_handle(server) -> None:
    sweep = send(server, 1)
    server.asked.clear()
    for keep, error in (("3", TypeError), (1.5, TypeError), (-1, ValueError)):
        with pytest.raises(error, match="keep_best is a number of jobs"):
            sweep.cancel(keep_best=keep)
    for timeout, error in (("x", TypeError), (float("nan"), ValueError)):
        for wait in (sweep.wait, sweep.jobs[0].wait, sweep.jobs[0].result):
            with pytest.raises(error, match="timeout is a number of seconds"):
                wait(timeout)
    assert server.asked == []
