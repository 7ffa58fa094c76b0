"""Functions of a notebook with `functools.lru_cache`, which pickle knows by their names only. Standard library only.

The job gets the function and an empty cache of the same size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

#: The type of a function with a cache.
CachedFunction = type(functools.lru_cache(lambda: None))


class _Decorator:
    """A stand-in for `functools.lru_cache(maxsize, typed)` in a pickle."""

    def __init__(self, maxsize: int | None, typed: bool) -> None:
        self._maxsize, self._typed = maxsize, typed

    def __call__(self, function: Callable[..., object]) -> object:
        """Return the function with a cache, as what is loaded from the pickle does."""
        return functools.lru_cache(self._maxsize, self._typed)(function)

    def __reduce__(self) -> tuple[object, ...]:
        return functools.lru_cache, (self._maxsize, self._typed)


def reduce_cached(value: object) -> tuple[object, ...] | None:
    """Return how a function of the notebook that has a cache is made again from its code; None for other values."""
    if not isinstance(value, CachedFunction) or getattr(value, "__module__", None) != "__main__":
        return None
    typed = hasattr(value, "cache_parameters") and value.cache_parameters()["typed"]  # Python 3.8 does not tell it
    return _Decorator(value.cache_info().maxsize, typed), (value.__wrapped__,)
