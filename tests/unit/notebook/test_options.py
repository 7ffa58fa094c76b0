"""What cannot be sent is refused in the words of the user, before anything is pickled or sent."""

import functools
import pathlib

import numpy
import pytest

import jupyter_gq
from jupyter_gq.notebook.options import list_names, make_plain


def double(x=1):
    return 2 * x


async def waits(x=1):
    return x


def yields(x=1):
    yield x


async def yields_later(x=1):
    yield x


class Model:
    async def __call__(self, x=1):
        return x

    def fit(self, x=1):
        yield x


def send_job(function, **options):
    jupyter_gq.submit(function, **options)


def send_sweep(function, **options):
    jupyter_gq.sweep(function, {"x": [1]}, **options)


@pytest.fixture(params=[send_job, send_sweep], ids=["submit", "sweep"])
def send(request, monkeypatch):
    monkeypatch.delenv("JUPYTER_GQ_SOCKET", raising=False)
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    return request.param


def test_what_is_no_function_is_refused_with_the_word_that_was_written() -> None:
    with pytest.raises(TypeError, match="submit takes a function and its arguments, not 'int'"):
        jupyter_gq.submit(2)
    with pytest.raises(TypeError, match="sweep takes a function and a grid of its arguments, not 'str'"):
        jupyter_gq.sweep("double", {"x": [1]})


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (waits, "waits is an async function.*%%train that says await waits"),
        (functools.partial(functools.partial(waits), 1), "is an async function"),
        (Model(), "Model is an async function"),
        (yields, r"yields is a generator.*goes through yields\(\.\.\.\) to the end"),
        (yields_later, "yields_later is a generator"),
        (Model().fit, "fit is a generator"),
    ],
)
def test_a_function_that_no_job_would_run_is_refused(send, function, words) -> None:
    with pytest.raises(TypeError, match=words):
        send(function)


@pytest.mark.parametrize("job", [17, None, ["job-1"], "  ", "job\n1"])
def test_what_names_no_job_to_continue_from_is_refused(send, job) -> None:
    with pytest.raises(jupyter_gq.JobError, match='is not a job, the id of a job, such as "job-4f1c"'):
        send(double, continue_from=job)


@pytest.mark.parametrize("function", [double, Model, functools.partial(double, 1), dict, lambda x=1: x])
def test_other_functions_are_not_refused(send, function) -> None:
    with pytest.raises(jupyter_gq.JobError, match="not started by a Jupyter server"):
        send(function) if send is send_job else jupyter_gq.sweep(function, [{}])


@pytest.mark.parametrize(
    ("option", "value", "error", "words"),
    [
        ("gpus", True, TypeError, "gpus is a number or text, not True"),
        ("max_seconds", False, TypeError, "max_seconds is a number or text, not False"),
        ("gpus", float("nan"), ValueError, "gpus is a finite number, not nan"),
        ("expected_seconds", float("inf"), ValueError, "expected_seconds is a finite number, not inf"),
        ("max_seconds", numpy.float32("nan"), ValueError, "max_seconds is a finite number"),
        ("cpus", object, TypeError, "cpus is a number or text"),
        ("name", 5, TypeError, "name is text, not 5"),
        ("queue", ["vision"], TypeError, "queue is text"),
        ("software", 2.9, TypeError, "software is text, not 2.9"),
        ("secrets", 5, TypeError, "secrets is a name or a list of names, not 5"),
        ("also", pathlib.Path("conf"), TypeError, "also is a pattern or a list of patterns, not PosixPath"),
        ("preferred_gpu_models", ["H200", 5], TypeError, "preferred_gpu_models is a name or a list of names"),
    ],
)
def test_options_that_no_service_understands_are_refused(send, option, value, error, words) -> None:
    with pytest.raises(error, match=words):
        send(double, **{option: value})


def test_numbers_of_libraries_become_plain() -> None:
    plain = make_plain({"name": "", "queue": "q", "gpus": numpy.float32(0.5), "tasks": numpy.int64(2), "within": None})
    assert plain == {"name": "", "queue": "q", "gpus": 0.5, "tasks": 2, "within": None}
    assert [type(plain[option]) for option in ("gpus", "tasks")] == [float, int]


def test_one_name_may_be_given_alone() -> None:
    assert list_names("secrets", "HF_TOKEN") == ["HF_TOKEN"]
    assert list_names("secrets", ("A", "B")) == ["A", "B"]
