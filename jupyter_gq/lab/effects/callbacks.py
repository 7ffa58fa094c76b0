"""The callbacks that objects are given now and call later: functions, and objects with methods. For Python only.

Rules
-----
- Registered: what methods such as `add_callback`, `register_forward_hook` and `subscribe` are given is kept by the
  object. The call itself changes the object, and nothing that the object holds.
- Named: an argument such as `callbacks`, `hooks` or `on_epoch_end` gives callbacks to a call, which runs them at once.
  A class, or a function that makes something, keeps them in the object that it returns.
- Called: `fit`, `optimize`, `minimize` and the like call the functions that they are given, whatever the argument.

See docs/decisions/0496-propose-what-callbacks-change.md.
"""

import ast
import re
from collections.abc import Collection, Iterator
from typing import Final

from jupyter_gq.lab.reading.call_parts import get_last_name, get_receiver

from .changes import find_root, list_running
from .given_functions import runs_elsewhere
from .values import Values

#: Methods that keep what they are given, to call it later.
_REGISTERING: Final = re.compile(
    r"(?:add|register|append|attach|set|insert)_(?:\w+_)?(?:callback|hook|handler|listener|observer|subscriber)s?|subscribe|observe"
)
_GIVING: Final = re.compile(r"(?:\w+_)?(?:callback|hook|listener)s?|on_\w+")
#: First words of functions that return an object with the callbacks that they are given.
_MAKING: Final = re.compile(r"[A-Z]|(?:make|create|build|get|new|init|compile|partial|from|load)(?:_|$)")
#: First words of what calls the functions that it is given.
_CALLING: Final = re.compile(
    r"(?:fit|train|finetune|learn|optimize|optimise|minimize|minimise|maximize|run|step|call|retry|repeat|solve|tune|"
    r"search|timeit|integrate|invoke|foreach)(?:_|$)"
)
#: First words of methods that call the callbacks of their object although their results are kept.
_RUNNING: Final = re.compile(
    r"(?:emit|fire|notify|dispatch|publish|trigger|run|call|forward|predict|evaluate|test|validate|fit|train|step|"
    r"optimize|start|send)(?:_|$)"
)


def is_registering(call: ast.Call) -> bool:
    """Return whether a call has an object keep a callback."""
    return get_receiver(call) is not None and _REGISTERING.fullmatch(get_last_name(call)) is not None


def makes_object(name: str) -> bool:
    """Return whether a function or class of this name returns an object that keeps the callbacks it is given."""
    return _MAKING.match(name) is not None


def runs_callbacks(name: str) -> bool:
    """Return whether a method of this name calls the callbacks of its object."""
    return _RUNNING.match(name) is not None


def list_called_now(call: ast.Call, maker: str, values: Values, functions: Collection[str]) -> Iterator[ast.expr]:
    """Yield the callbacks that a call of a function outside the cells runs at once, in the kernel.

    `maker` is as in `list_given_calls`, and `functions` are the names of the functions of the cells.
    """
    last = get_last_name(call)
    if makes_object(last) or is_registering(call) or runs_elsewhere(maker):
        return
    yield from list_named(call, values)
    if _CALLING.match(last):
        given = [*call.args, *(each.value for each in call.keywords)]
        yield from (each for each in given if isinstance(each, ast.Name) and each.id in functions)


def list_named(call: ast.Call, values: Values) -> Iterator[ast.expr]:
    """Yield the callbacks that a call is given by arguments such as `callbacks` and `on_epoch_end`."""
    for keyword in call.keywords:
        if keyword.arg and _GIVING.fullmatch(keyword.arg):
            yield from _list_written(keyword.value, values)


def _list_written(node: ast.expr, values: Values) -> Iterator[ast.expr]:
    """Yield the elements of what is written out as a list, also by name, or else the expression itself."""
    found = values.find_last(node)
    if isinstance(found, ast.List | ast.Tuple):
        yield from found.elts
    elif not isinstance(found, ast.Constant):
        yield node


class Holders:
    """The callbacks that objects have been given so far, by the names of the objects."""

    def __init__(self) -> None:
        self._held: dict[str, list[ast.expr]] = {}

    def learn(self, tree: ast.Module, values: Values) -> None:
        """Take in what the calls of a cell register, with the values of names up to here."""
        for node in list_running(tree.body):
            if isinstance(node, ast.Call) and is_registering(node):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                self._add(find_root(node.func), [each for part in given for each in _list_written(part, values)])
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                held = [*list_named(node.value, values)] if makes_object(get_last_name(node.value)) else []
                for target in node.targets:
                    self._add(find_root(target), held)

    def _add(self, name: str, held: list[ast.expr]) -> None:
        if held:
            self._held.setdefault(name, []).extend(held)

    def get(self, name: str) -> list[ast.expr]:
        """Return what an object of this name calls later."""
        return self._held.get(name, [])
