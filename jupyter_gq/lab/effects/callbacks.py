"""The callbacks that objects are given now and call later: functions, and objects with methods. For Python only.

Rules
-----
- Registered: what methods such as `add_callback`, `register_forward_hook` and `subscribe` are given is kept by the
  object. The call itself changes the object, and nothing that the object holds.
- Named: an argument such as `callbacks`, `hooks` or `on_epoch_end` gives callbacks to a call, which runs them at once.
  A class, or a function that makes something, keeps them in the object that it returns.
- Forgotten: what a name held, as soon as it is assigned another object that is not made of the former one. A branch
  may not run, so what it assigns counts in addition.
- Called: `fit`, `optimize`, `minimize` and the like call the functions that they are given, whatever the argument.

See docs/decisions/0496-propose-what-callbacks-change.md.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from jupyter_gq.lab.reading.call_parts import get_last_name, get_receiver
from jupyter_gq.lab.reading.parsing import list_nodes

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
    """Yield the callbacks, and lists of them, that a call of a function outside the cells runs at once, in the kernel.

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
    """Yield what a call is given by arguments such as `callbacks` and `on_epoch_end`: callbacks, and lists of them."""
    for keyword in call.keywords:
        if keyword.arg and _GIVING.fullmatch(keyword.arg):
            yield from _find_written(keyword.value, values)


def list_new(ahead: list[ast.expr], followed: set[ast.AST]) -> Iterator[ast.expr]:
    """Yield the callbacks of `ahead`, and those in its lists, that are not in `followed`; add them to it.

    `ahead` is empty then. The caller may add to `ahead` meanwhile. Each expression is followed once, since callbacks
    may hold each other, and lists with the same callbacks.
    """
    while ahead:
        node = ahead.pop()
        if node in followed:
            continue
        followed.add(node)
        if isinstance(node, ast.List | ast.Tuple):
            ahead += node.elts
        else:
            yield node


def _find_written(node: ast.expr, values: Values) -> Sequence[ast.expr]:
    """Return what is written out as a list, also by name, or else the expression itself; nothing for a constant."""
    found = values.find_last(node)
    if isinstance(found, ast.List | ast.Tuple):
        return [found]
    return [] if isinstance(found, ast.Constant) else [node]


class Holders:
    """The callbacks that objects have been given so far, by the names of the objects."""

    def __init__(self) -> None:
        self._held: dict[str, list[ast.expr]] = {}

    def learn(self, tree: ast.Module, values: Values) -> None:
        """Take in what the calls of a cell register, with the values of names up to here."""
        certain = set(_list_certain(tree.body))
        for node in [*list_running(tree.body)][::-1]:  # in the order in which they run
            if isinstance(node, ast.Call) and is_registering(node):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                self._add(find_root(node.func), [each for part in given for each in _find_written(part, values)])
            elif isinstance(node, ast.Assign):
                self._assign(node.targets, node.value, values, is_certain=node in certain)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assign([node.target], node.value, values, is_certain=node in certain)

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr, values: Values, *, is_certain: bool) -> None:
        """Take in an assignment: another object has none of the callbacks that the name's former object has."""
        held: Sequence[ast.expr] = []
        if isinstance(value, ast.Call):
            held = [*list_named(value, values)] if makes_object(get_last_name(value)) else []
        elif isinstance(value, ast.Name):
            held = [*self.get(value.id)]
        used = {node.id for node in list_nodes(value) if isinstance(node, ast.Name)} if is_certain else set()
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if is_certain and isinstance(each, ast.Name) and each.id not in used:
                    self._held.pop(each.id, None)
            self._add(find_root(target), held)

    def _add(self, name: str, held: Sequence[ast.expr]) -> None:
        if held:
            self._held.setdefault(name, []).extend(held)

    def get(self, name: str) -> Sequence[ast.expr]:
        """Return what an object of this name calls later: callbacks, and lists of them."""
        return self._held.get(name, [])


def _list_certain(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield these statements, and those in them that run in all likelihood: not those of branches."""
    ahead = list(body)
    while ahead:
        node = ahead.pop()
        yield node
        if isinstance(node, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.While | ast.Try):
            ahead += node.body
