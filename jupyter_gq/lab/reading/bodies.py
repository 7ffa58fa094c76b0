"""The bodies of cells, functions and classes: what runs with a body, and what its statements define.

Rules
-----
- A function that is given to `map`, `submit`, `Thread(target=...)` and the like is called by them.
- What a function does only if it is given an optional argument, as under `if path:` with `path=None` among its
  parameters, has this parameter as its switch.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from .bindings import Function, find_bindings, list_statements
from .call_parts import get_last_name
from .parsing import list_children

#: Functions and methods that call their first argument: of Python, of tables, of pools and threads, and of tqdm.
_CALLERS = frozenset(
    {
        *("map", "filter", "reduce", "starmap"),
        *("apply", "applymap", "pipe"),
        *("submit", "map_async", "apply_async", "imap", "imap_unordered", "to_thread", "delayed"),
        *("thread_map", "process_map"),
    }
)
#: Classes whose instances call their `target`.
_TARGET_CALLERS = frozenset({"Thread", "Process"})
#: The bodies that were read: of modules, functions and classes.
_BODIES: "WeakKeyDictionary[ast.AST, Body]" = WeakKeyDictionary()
#: What has a body that runs by itself.
Runs = ast.Module | Function | ast.Lambda


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a module, function or class."""

    #: Calls that run with it, without those in the functions that it defines or calls; before each the optional
    #: parameter without which it does not run, or "".
    calls: Sequence[tuple[str, ast.Call]]
    #: Statements that may define functions, classes and instances.
    defining: Sequence[ast.AST]
    #: The last function of each name among these.
    functions: Mapping[str, Function]
    #: Optional parameters that are None, False or empty if they are not given, and that the body does not assign.
    switches: Sequence[str]


def read_body(scope: ast.Module | Function | ast.Lambda | ast.ClassDef) -> Body:
    """Return the body of a module, function or class; kept as long as its syntax tree is."""
    found = _BODIES.get(scope)
    if found is None:
        body: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else [*scope.body]
        kinds = Function | ast.ClassDef | ast.Assign | ast.withitem
        defining = [node for node in list_statements(body) if isinstance(node, kinds)]
        switches = _find_switches(scope, body)
        found = _BODIES[scope] = Body(
            calls=[*_find_direct_calls(body, switches)],
            switches=switches,
            defining=defining,
            functions={node.name: node for node in defining if isinstance(node, Function)},
        )
    return found


def _find_direct_calls(body: Iterable[ast.AST], switches: Collection[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of a body, each after the first of the `switches` under which it stands, or ""."""
    ahead = [("", node) for node in body][::-1]
    while ahead:
        switch, node = ahead.pop()
        if isinstance(node, Function | ast.Lambda):
            continue
        yield from ((switch, call) for call in _list_calls_of(node))
        if isinstance(node, ast.If) and switches:
            inside = switch or next((name for name in _list_demanded(node.test) if name in switches), "")
            ahead += [(inside, each) for each in reversed(node.body)]
            ahead += [(switch, each) for each in (*reversed(node.orelse), node.test)]
        else:
            ahead += [(switch, each) for each in reversed(list_children(node))]


def _list_demanded(test: ast.expr) -> list[str]:
    """Return the names that must hold something for a condition: of `a`, `a is not None`, and of these after `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [name for value in test.values for name in _list_demanded(value)]
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and _is_nothing(test.comparators[0]):
        test = test.left
    return [test.id] if isinstance(test, ast.Name) else []


def _is_nothing(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _find_switches(scope: ast.AST, body: Sequence[ast.AST]) -> list[str]:
    """Return the parameters that are None, False or empty if they are not given, and that the body does not assign."""
    if not isinstance(scope, Function | ast.Lambda):
        return []
    given = scope.args
    last = [*given.posonlyargs, *given.args][::-1]
    pairs = [*zip(last, reversed(given.defaults), strict=False), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    switches = [parameter.arg for parameter, default in pairs if _is_nothing(default)]
    assigned = find_bindings(body).names if switches else set()
    return [name for name in switches if name not in assigned]


def list_given(call: ast.Call, called: Function | ast.Lambda, of: str) -> list[str]:
    """Return the switches of a function (see `Body`) to which a call gives more than None, False or an empty value.

    Returns all of them if the call has `*` or `**`. `of` is the class of a method, "" for a function.
    """
    switches = list(read_body(called).switches)
    if (
        not switches
        or any(isinstance(each, ast.Starred) for each in call.args)
        or not all(keyword.arg for keyword in call.keywords)
    ):
        return switches
    places = [each.arg for each in (*called.args.posonlyargs, *called.args.args)][1 if of else 0 :]
    by_name = [(keyword.arg, keyword.value) for keyword in call.keywords]
    given = {name for name, value in (*zip(places, call.args, strict=False), *by_name) if not _is_nothing(value)}
    return [name for name in switches if name in given]


def _list_calls_of(node: ast.AST) -> list[ast.Call]:
    """Return the call that a node is, and the call of the function that is given to it, if it calls that one."""
    if not isinstance(node, ast.Call):
        return []
    name = get_last_name(node)
    given: list[ast.expr] = []
    if name in _CALLERS:
        given = node.args[:]
    elif name in _TARGET_CALLERS:
        given = [keyword.value for keyword in node.keywords if keyword.arg == "target"]
    if not given or not isinstance(given[0], ast.Name | ast.Attribute):
        return [node]
    return [node, ast.copy_location(ast.Call(func=given[0], args=given[1:], keywords=[]), node)]
