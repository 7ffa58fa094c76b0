"""The grid of a sweep: points, each of which is the arguments of one job.

A grid may be endless, such as `itertools.count()`, so no more is read of it than a sweep may have.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence

#: Most jobs of one sweep.
MAX_JOBS = 1000
_SHAPE = 'The grid is a dict of lists, such as {"lr": [0.1, 0.01]}, or a list of dicts'


def list_points(grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the points of a grid, each as a dict of arguments.

    Raises `ValueError` if there are none or too many, if a list of values has one twice, or if the grid has another
    shape. In a list of points, the same one may be there several times.
    """
    if isinstance(grid, Mapping):
        _check_names(grid)
        values = [_list_values(name, each) for name, each in grid.items()]
        _check_count(math.prod(map(len, values)) if grid else 0, exact=all(len(each) <= MAX_JOBS for each in values))
        for name, each in zip(grid, values):  # noqa: B905 - Python 3.8 too
            _check_differ(name, each)
        return [dict(zip(grid, chosen)) for chosen in itertools.product(*values)]  # noqa: B905 - Python 3.8 too
    read = _read(grid)
    if read is None:
        raise ValueError(f"{_SHAPE}, not {type(grid).__name__!r}.")
    points = [point for point in read if isinstance(point, Mapping)]
    if len(points) < len(read):
        raise ValueError(f"{_SHAPE}.")
    _check_count(len(points), exact=len(points) <= MAX_JOBS)
    for point in points:
        _check_names(point)
    return [dict(point) for point in points]


def _list_values(name: str, values: object) -> list[object]:
    """Return the values of an argument, at most one more than a sweep has jobs."""
    is_text = isinstance(values, (str, bytes, bytearray, memoryview))
    read = None if is_text else _read(values)
    if read is None:
        raise ValueError(f"The grid needs a list of values for {name}, such as {{{name!r}: [1, 2]}}.")
    return read


def _check_differ(name: str, values: Sequence[object]) -> None:
    """Raise `ValueError` if a number, a text, True, False or None is there twice; other values are not compared.

    See docs/decisions/0271-refuse-a-value-that-a-grid-has-twice.md.
    """
    seen = set()
    for value in values:
        if not isinstance(value, (str, bytes, numbers.Number, type(None))):
            continue
        key = (type(value), value, repr(value))  # 0.0 and -0.0 are equal, but make two jobs that differ
        if key in seen:
            raise ValueError(
                f"The grid has {value!r:.100} twice for {name}, and the jobs would be the same. Name each value once. "
                "To call the function several times with the same arguments, give a list of dicts, one for each job."
            )
        seen.add(key)


def _read(values: object) -> list[object] | None:
    """Return the first values of anything that can be iterated, one more than a sweep has jobs; None for the rest."""
    try:
        found = iter(values) if isinstance(values, Iterable) else None
    except TypeError:  # arrays without dimensions say that they can be iterated
        found = None
    return None if found is None else list(itertools.islice(found, MAX_JOBS + 1))


def _check_names(point: Mapping[str, object]) -> None:
    wrong = [name for name in point if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"Arguments have names, such as 'lr', and the grid has {wrong[0]!r:.100}.")


def _check_count(count: int, *, exact: bool) -> None:
    if not 0 < count <= MAX_JOBS:
        said = str(count) if exact else f"more than {MAX_JOBS}"
        raise ValueError(f"The grid has {said} points, and a sweep has 1 to {MAX_JOBS}.")
