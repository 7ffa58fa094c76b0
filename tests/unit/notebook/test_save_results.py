"""A variable that is a number comes back as a number beside its pickle; no value keeps the others from coming back."""

import json
import math
import subprocess
import sys
from fractions import Fraction

import pytest

from jupyter_gq.client.environment.kernel import SAVE_FILE
from jupyter_gq.client.models import ResultVariable
from jupyter_gq.notebook.save_results import choose_pickler, save_all, save_one
from tests.patience import scaled


class Scalar:
    """A number of a library, such as a loss in PyTorch."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class Several(Scalar):
    def item(self):
        raise ValueError("only one element can be converted")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.25, 0.25),
        (7, 7),
        (Scalar(0.5), 0.5),
        (Scalar(True), None),
        (Several(1), None),
        (True, None),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (Scalar(-math.inf), "-inf"),
        (2**60, None),
        ("1", None),
        (Fraction(1, 2), None),
        ({"loss": 1}, None),
    ],
)
def test_only_numbers_are_listed(tmp_path, value, number) -> None:
    entry = save_one({"x": value}, "x", str(tmp_path / "x"), 2**20, choose_pickler(str(tmp_path)))
    assert ResultVariable.model_validate(entry).number == number
    assert entry["reason"] == ""


class Unpicklable:
    """A value whose pickling raises an error."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


class SaysNothing(Exception):
    """An error whose text cannot be made."""

    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyError("lr"), "KeyError: 'lr'"),
        (SaysNothing(), "SaysNothing"),
        (ValueError("\ud800"), "ValueError: \\ud800"),
        (ValueError(), "ValueError"),
    ],
)
def test_a_value_with_an_odd_error_leaves_the_others_alone(tmp_path, error, said) -> None:
    report = tmp_path / "report.json"
    values = {"odd": Unpicklable(error), "kept": 5}
    save_all(values, ["odd", "kept"], str(tmp_path / "vars"), str(report), 2**20, str(tmp_path))
    odd, kept = json.loads(report.read_text())["variables"]
    assert odd["reason"] == f"It cannot be pickled: {said}."
    assert kept["reason"] == ""
    assert kept["number"] == 5
    assert json.dumps(odd, ensure_ascii=False).encode()


_SAVES = """
import runpy, sys
sys.setrecursionlimit(10**6)
value = []
for _ in range(200_000):
    value = [value]
save = runpy.run_path(sys.argv[1])["save_all"]
save({"deep": value, "kept": 5}, ["deep", "kept"], sys.argv[2], sys.argv[3], 2**20, sys.argv[2])
print(sys.getrecursionlimit(), flush=True)
"""


def test_a_deep_value_ends_no_kernel_with_a_raised_limit_of_recursions(tmp_path) -> None:
    """Pickling such a value overflows the stack of C before Python 3.12, and would lose all that a job returns."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-c", _SAVES, str(SAVE_FILE), str(tmp_path / "vars"), str(report)],
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000000\n"
    deep, kept = json.loads(report.read_text())["variables"]
    assert "nested too deeply" in deep["reason"]
    assert not kept["reason"]
