"""A call is pickled with what it needs, checked in a new process, and loaded by the same Python only."""

import importlib
import json
import linecache
import math
import subprocess
import sys
import traceback

import cloudpickle
import pytest

from jupyter_gq.notebook import pickled_call
from jupyter_gq.notebook.pickled_call import (
    VALUE_MIME,
    check_arguments,
    check_call,
    describe_call,
    load_call,
    pickle_call,
    restore_numbers,
    simplify,
    this_python,
)
from jupyter_gq.notebook.server import JobError
from tests.patience import scaled


def double(x, *, by=2):
    return x * by


def load(text):
    return load_call(this_python(), text)


def test_a_call_comes_back_with_its_arguments() -> None:
    assert load(pickle_call(double, (4,), {"by": 3}))() == 12


def test_arguments_that_share_an_object_share_it_afterwards() -> None:
    weights = [1]

    def shares(model, optimizer):
        optimizer["weights"].append(2)
        return model["weights"]

    assert load(pickle_call(shares, ({"weights": weights}, {"weights": weights}), {}))() == [1, 2]


def test_modules_of_this_folder_go_along_and_other_pickles_stay_as_they_are(tmp_path, monkeypatch) -> None:
    (tmp_path / "own_layers.py").write_text("WIDTH = 7\ndef size(n):\n    return WIDTH * n\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_layers")
    text = pickle_call(own.size, (2,), {})
    assert cloudpickle.list_registry_pickle_by_value() == set()
    (tmp_path / "own_layers.py").unlink()
    monkeypatch.delitem(sys.modules, "own_layers")
    check_call(text)
    assert load(text)() == 14


def test_what_the_new_process_cannot_load_is_not_sent(tmp_path, monkeypatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far_layers.py").write_text("def size(n):\n    return n\n")
    monkeypatch.syspath_prepend(elsewhere)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    text = pickle_call(importlib.import_module("far_layers").size, (2,), {})
    with pytest.raises(JobError, match=r"No module named 'far_layers'\. Modules of this folder go along"):
        check_call(text)


def test_the_new_process_sees_no_gpu(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    class Sees:
        def __setstate__(self, state):
            import os

            raise RuntimeError(f"sees {os.environ['CUDA_VISIBLE_DEVICES']!r}")

    sees = Sees()
    sees.state = 1
    with pytest.raises(JobError, match=r"RuntimeError: sees ''\."):
        check_call(pickle_call(print, (sees,), {}))


def test_loading_that_hangs_is_ended_with_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(pickled_call, "CHECK_TIMEOUT", 0.01)
    with pytest.raises(JobError, match="check=False"):
        check_call(pickle_call(double, (1,), {}))


def test_the_argument_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(JobError, match="The generator that is argument 2 cannot be pickled: cannot pickle 'generator'"):
        pickle_call(print, (1, (i for i in range(3))), {})
    with pytest.raises(JobError, match="The lock that is the argument lock cannot"):
        pickle_call(print, (), {"lock": __import__("threading").Lock()})


def test_a_function_that_uses_what_cannot_be_pickled_is_named() -> None:
    steps = (i for i in range(3))

    def train():
        return next(steps)

    with pytest.raises(JobError, match=r"The function train cannot be pickled: .*generator"):
        pickle_call(train, (), {})


CACHED = """
import functools, sys
from jupyter_gq.notebook.pickled_call import check_call, load_call, pickle_call, this_python

@functools.lru_cache(maxsize=3)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

text = pickle_call(fib, (10,), {})
check_call(text)
print(load_call(this_python(), text)())
"""


def test_a_function_of_the_notebook_with_a_cache_is_sent_with_its_code() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=CACHED, capture_output=True, text=True, timeout=scaled(60), check=False
    )
    assert done.stdout.splitlines()[-1:] == ["55"], done.stderr


def nest(depth):
    function, values = double, []
    for _ in range(depth):
        function, values = (lambda inner: lambda: inner())(function), [values]
    return function, values


def test_what_is_nested_too_deeply_is_told_so() -> None:
    function, values = nest(5000 if sys.version_info < (3, 14) else 200_000)  # newer ones pickle deeper values
    with pytest.raises(JobError, match="The list that is argument 1 cannot be pickled: it is nested too deeply"):
        pickle_call(print, (values,), {})
    with pytest.raises(
        JobError, match=r"cannot be pickled: it is nested too deeply.* with fewer functions or containers"
    ):
        pickle_call(function, (), {})


def test_a_call_that_is_too_large_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr(pickled_call, "MAX_CALL", 1000)
    with pytest.raises(JobError, match="Write large arguments to a file"):
        pickle_call(print, (__import__("os").urandom(1000),), {})


def test_without_cloudpickle_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(JobError, match="%pip install cloudpickle"):
        pickle_call(double, (1,), {})


def test_another_python_does_not_load_the_call() -> None:
    with pytest.raises(JobError, match=r"pickled by Python 3\.9, and this job has Python"):
        load_call("3.9", "not even text of a pickle")


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [((1, 2), {}, "too many positional"), ((1,), {"gpu": 1}, "unexpected keyword argument 'gpu'"), ((), {}, "'x'")],
)
def test_arguments_that_do_not_fit_are_refused_at_once(args, kwargs, words) -> None:
    with pytest.raises(TypeError, match=words):
        check_arguments(double, args, kwargs)


class Tensor:
    """A number of a library, or several."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = numbers

    def item(self) -> float:
        (number,) = self.numbers
        return number


@pytest.mark.parametrize(
    ("value", "simple"),
    [
        (0.5, 0.5),
        (
            {"loss": Tensor(0.25), "all": Tensor(1, 2), "name": "a", 3: True},
            {"loss": 0.25, "all": None, "name": "a", "3": True},
        ),
        (float("nan"), "nan"),
        ({"loss": float("inf"), "best": -math.inf}, {"loss": "inf", "best": "-inf"}),
        ([1, 2], None),
        (2**80, None),
        ({"a\udcff": "\ud800"}, {"a\\udcff": "\\ud800"}),
    ],
)
def test_numbers_and_texts_are_shown_to_programs_and_nothing_else(value, simple) -> None:
    assert simplify(value) == simple
    assert json.loads(json.dumps(simplify(value), ensure_ascii=False).encode()) == simple


def test_numbers_that_json_does_not_know_are_restored() -> None:
    value = {"loss": math.inf, "best": -math.inf, "steps": 3, "name": "information"}
    assert restore_numbers(json.loads(json.dumps(simplify(value), allow_nan=False))) == value
    assert math.isnan(restore_numbers(simplify(math.nan)))


def test_the_value_of_a_call_is_shown_with_its_numbers(monkeypatch) -> None:
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    assert load(pickle_call(double, (4,), {}))() == 8
    assert shown == [{"text/plain": "8", VALUE_MIME: {"value": 8}}]


class HasNoText:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_key_without_text_is_shown_by_its_type() -> None:
    assert simplify({HasNoText(): 1}) == {"HasNoText": 1}


def test_a_call_is_described_on_one_line() -> None:
    described = describe_call(double, ("a\nb" * 50, HasNoText()), {"by": [1, 2]})
    assert "\n" not in described
    assert described.startswith("double('a\\nb")
    assert described.endswith("…, <HasNoText>, by=[1, 2])")


_SHOWS = """
import sys
from jupyter_gq.notebook.pickled_call import show_value
sys.setrecursionlimit(10**6)
value = []
for _ in range(200_000):
    value = [value]
show_value(value)
print(sys.getrecursionlimit(), flush=True)
"""


def test_a_deep_value_is_shown_by_its_type_and_ends_no_kernel() -> None:
    """The text of such a value overflows the stack of C before Python 3.12 if the function has raised the limit."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOWS], capture_output=True, text=True, timeout=scaled(60), check=False
    )
    assert (done.returncode, done.stdout[-8:]) == (0, "1000000\n"), done.stderr


def test_a_traceback_shows_the_lines_of_a_function_of_a_cell(monkeypatch) -> None:
    source = "def fails(x):\n    return [each / 0 for each in (lambda: [x])()]\n"
    file, cell = "/nowhere/cell.py", {"__name__": "__main__"}
    monkeypatch.setitem(linecache.cache, file, (len(source), None, source.splitlines(True), file))
    exec(compile(source, file, "exec"), cell)
    text = pickle_call(cell["fails"], (1,), {})
    monkeypatch.delitem(linecache.cache, file)
    with pytest.raises(ZeroDivisionError) as raised:
        load(text)()
    shown = "".join(traceback.format_tb(raised.tb))
    assert f'File "{file}", line 2, in fails' in shown
    assert "return [each / 0" in shown


def test_a_module_that_has_a_second_name_goes_along(tmp_path, monkeypatch) -> None:
    (tmp_path / "renamed_layers.py").write_text("WIDTH = 7\ndef size(n):\n    return WIDTH * n\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("renamed_layers")
    monkeypatch.setitem(sys.modules, "layers_of_old_checkpoints", own)
    assert load(pickle_call(own.size, (2,), {}))() == 14
    assert cloudpickle.list_registry_pickle_by_value() == set()
