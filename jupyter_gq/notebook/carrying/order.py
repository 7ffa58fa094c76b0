"""The order in which pickles are loaded, so that code which runs meanwhile finds its globals. Standard library only.

The loading of a value may call functions of its class, such as `__setstate__`, and these look up modules, functions and
other variables of the notebook.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import FunctionType, ModuleType

from ..cached_functions import CachedFunction  # noqa: TID252 - in a kernel this package has another name

_MODULE, _CODE, _DATA = range(3)


def order_groups(
    groups: Sequence[tuple[str, ...]], used: Mapping[str, Collection[str]], namespace: Mapping[str, object]
) -> list[tuple[str, ...]]:
    """Return the groups of variables: modules first, then functions and classes, then data.

    A group comes behind those that it uses, unless they use each other. Functions do not wait for the data that they
    use, since only the loading of data calls them. `used` has the names that each variable holds, and those that its
    functions use.
    """
    ranks = {names: max(_rank(namespace[name]) for name in names) for names in groups}
    ordered: dict[tuple[str, ...], None] = {}
    for most in (_MODULE, _CODE, _DATA):
        ordered |= dict.fromkeys(_sort([names for names in groups if ranks[names] <= most], used))
    return list(ordered)


def _sort(groups: Sequence[tuple[str, ...]], used: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return these groups, each behind those of them that it uses, unless they use each other."""
    group_of = {name: names for names in groups for name in names}
    ordered: list[tuple[str, ...]] = []
    begun: set[tuple[str, ...]] = set()
    waiting = [(names, False) for names in reversed(groups)]
    while waiting:
        names, is_done = waiting.pop()
        if is_done:
            ordered.append(names)
        elif names not in begun:
            begun.add(names)
            waiting.append((names, True))
            following = sorted({each for name in names for each in used[name]}, reverse=True)
            waiting += [(group_of[each], False) for each in following if each in group_of]
    return ordered


def _rank(value: object) -> int:
    if isinstance(value, ModuleType):
        return _MODULE
    return _CODE if isinstance(value, (type, FunctionType, CachedFunction)) else _DATA
