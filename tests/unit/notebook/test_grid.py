"""A grid becomes the points of a sweep, and what is none is refused before it fills the memory."""

import itertools

import numpy
import pytest

from jupyter_gq.notebook.grid import list_points


def test_a_grid_is_all_combinations_or_a_list_of_points() -> None:
    assert list_points({"a": [1, 2], "b": range(2)}) == [
        {"a": 1, "b": 0},
        {"a": 1, "b": 1},
        {"a": 2, "b": 0},
        {"a": 2, "b": 1},
    ]
    assert list_points([{"a": 1}, {"b": 2}]) == [{"a": 1}, {"b": 2}]
    assert list_points({"a": (n for n in range(2))}) == [{"a": 0}, {"a": 1}]
    assert len(list_points({"a": range(1000)})) == len(list_points({"a": n} for n in range(1000))) == 1000


def test_what_differs_or_cannot_be_compared_and_points_that_are_written_out_may_be_alike() -> None:
    assert len(list_points({"a": [1, 1.0, True, "1"]})) == 4
    assert len(list_points({"a": [[1], [1], numpy.zeros(2), numpy.zeros(2)]})) == 4
    assert list_points([{"a": 1}, {"a": 1}]) == [{"a": 1}, {"a": 1}]


def test_zeros_of_both_signs_are_two_values():
    assert [str(point["a"]) for point in list_points({"a": [0.0, -0.0]})] == ["0.0", "-0.0"]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "has 0 points"),
        ([], "has 0 points"),
        ({"a": []}, "has 0 points"),
        ({"a": range(40), "b": range(40)}, "has 1600 points, and a sweep has 1 to 1000"),
        ({"a": "text"}, "needs a list of values for a"),
        ({"a": 0.1}, "needs a list of values for a"),
        ([1, 2], "a dict of lists"),
        (None, "a dict of lists, .*, not 'NoneType'"),
        (5, "a dict of lists, .*, not 'int'"),
        ("text", "a dict of lists"),
        ({"a": b"ab"}, "needs a list of values for a"),
        ({"a": bytearray(b"ab")}, "needs a list of values for a"),
        ({"a": numpy.array(1)}, "needs a list of values for a"),
        ({1: [2]}, "Arguments have names, such as 'lr', and the grid has 1"),
        ([{"a": 1}, {None: 2}], "and the grid has None"),
        ({"a": range(10**30)}, "has more than 1000 points, and a sweep has 1 to 1000"),
        ({"a": [1], "b": itertools.count()}, "has more than 1000 points"),
        (({"a": n} for n in itertools.count()), "has more than 1000 points"),
        ({name: range(10) for name in "abcdefghi"}, "has 1000000000 points"),
        ({"a": [2], "lr": [0.1, 0.2, 0.10]}, "has 0.1 twice for lr, .*, give a list of dicts"),
        ({"a": ["x", "x"]}, "has 'x' twice for a"),
        ({"a": [None, None]}, "has None twice for a"),
        ({"a": numpy.array([1, 1])}, "twice for a"),
    ],
)
def test_a_grid_that_is_none_says_what_is_wrong(grid, words) -> None:
    with pytest.raises(ValueError, match=words):
        list_points(grid)
