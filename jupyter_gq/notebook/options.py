"""Checks of what users pass to `submit` and `sweep`, under the names that they wrote."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping

from .pickled_call import name_function

#: Longest name of a job, and longest name of a number.
MAX_NAME = 100
_MODES = ("max", "min")


def check_function(function: object, asks: str) -> None:
    """Raise `TypeError` for what a job cannot call and wait for; `asks` says who asks, such as "submit takes ..."."""
    if not callable(function):
        raise TypeError(f"{asks}, not {type(function).__name__!r}.")
    name, called = name_function(function), _find_code(function)
    if inspect.iscoroutinefunction(called):
        raise TypeError(
            f"{name} is an async function, and a job calls a function without await. Send a function without async, or "
            f"send a cell with %%train that says await {name}(...)."
        )
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError(
            f"{name} is a generator: it has yield, and a job would never run its code. Send a function that goes "
            f"through {name}(...) to the end and returns a value."
        )


def make_plain(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options with plain numbers, also for those of libraries such as numpy.

    Raises `TypeError` or `ValueError` for values that no service could understand, such as a share of nan GPUs.
    """
    for option in ("name", "queue", "software"):
        value = options.get(option)
        if value and not isinstance(value, str):
            raise TypeError(f"{option} is text, not {value!r:.100}.")
    return {option: _make_plain(option, value) for option, value in options.items()}


def _make_plain(option: str, value: object) -> object:
    if value is None or isinstance(value, (str, list)):
        return value
    if isinstance(value, bool):
        raise TypeError(f"{option} is a number or text, not {value}.")
    if isinstance(value, numbers.Integral):
        return int(value)
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{option} is a number or text, not {value!r:.100}.")
    if not math.isfinite(value):
        raise ValueError(f"{option} is a finite number, not {value}.")
    return float(value)


def list_names(option: str, names: object, *, each: str = "name") -> list[str]:
    """Return the names that an option has, as a list; one name may be given alone, as text.

    `each` is the word for one of them in the `TypeError` about anything else.
    """
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    texts = [name for name in listed if isinstance(name, str)]
    if len(texts) < len(listed):
        raise TypeError(f"{option} is a {each} or a list of {each}s, not {names!r:.100}.")
    return texts


def check_parallel(parallel: int | None) -> None:
    """Raise `TypeError` or `ValueError` for what is no number of jobs."""
    if parallel is not None:
        check_count("parallel", parallel, "jobs that may run at the same time, or None", least=1)


def check_count(option: str, count: object, what: str, *, least: int) -> None:
    """Raise `TypeError` for what is no whole number, and `ValueError` for one below `least`."""
    if not isinstance(count, numbers.Integral) or isinstance(count, bool):
        raise TypeError(f"{option} is a number of {what}, not {count!r:.100}.")
    if count < least:
        raise ValueError(f"{option} is a number of {what}, and at least {least}, not {count}.")


def check_order(metric: str, mode: str) -> None:
    """Raise `TypeError` or `ValueError` for what cannot order the jobs of a sweep."""
    if not isinstance(metric, str):
        raise TypeError(f"metric is the name of a number that the function returns, as text, not {metric!r:.100}.")
    if len(metric) > MAX_NAME or not metric.isprintable():
        raise ValueError(f"metric is a name of at most {MAX_NAME} letters on one line, not {metric!r:.100}.")
    if mode not in _MODES:
        raise ValueError(f'mode is "max" or "min", not {mode!r:.100}.')


def _find_code(function: Callable[..., object]) -> object:
    """Return the function whose code runs in a call: inside of a partial, or the method `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    is_object = not inspect.isroutine(function) and not isinstance(function, type)
    return getattr(function, "__call__", None) if is_object else function  # noqa: B004 - its code, not whether it has it
