"""A variable that is a number comes back as a number beside its pickle; nothing else does."""

import math
from fractions import Fraction

import pytest

from jupyter_gq.client.models import ResultVariable
from jupyter_gq.notebook.save_results import choose_pickler, save_one


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
        (math.nan, None),
        (math.inf, None),
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
