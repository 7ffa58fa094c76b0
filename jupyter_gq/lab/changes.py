"""The names whose values a cell may change in place when it runs, by its syntax tree. For Python only.

Rules
-----
- Stored: what is assigned to an attribute or an item of a name, `x += ...`, `del x`, methods such as `append`, and any
  method with `inplace=True`.
- Handed on: a call of it or of its methods, an argument of a call, what a loop goes through, and a decorator. What only
  shows a value, such as `print`, changes nothing, nor does `with`.
- What the body of a function does counts where the function is called, which is not seen here.
"""

import ast
from collections.abc import Iterator, Sequence

from .bindings import Function
from .magics import read_magic
from .parsing import list_children

_CHANGING = frozenset(
    {
        *("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "pop", "popleft", "popitem"),
        *("remove", "discard", "clear", "sort", "reverse", "fit", "partial_fit", "drop_duplicates"),
    }
)
_SHOWING = frozenset({"print", "display", "type", "isinstance", "issubclass", "len", "repr", "str", "id", "hasattr"})


def find_stored_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names whose values these statements change."""
    return {name for node in _list_running(body) for name in _find_stored(node) if name}


def find_deleted_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that these statements delete, also those that they delete on some paths only."""
    return {node.id for node in _list_running(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}


def find_handed_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names whose values these statements change, or hand to what may change them."""
    nodes = list(_list_running(body))
    handed = {name for node in nodes for name in _find_handed(node) if name}
    return handed | find_stored_names(body)


def _list_running(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of these statements that run with them: not what is inside of functions."""
    ahead: list[ast.AST] = list(body)
    while ahead:
        node = ahead.pop()
        yield node
        if isinstance(node, Function):
            ahead += node.decorator_list
        elif not isinstance(node, ast.Lambda):
            ahead += list_children(node)
        magic = read_magic(node) if isinstance(node, ast.Call) else None
        if magic is not None:
            ahead += magic.trees


def _find_stored(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        yield _find_root(node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
        yield node.id
    elif isinstance(node, ast.AugAssign):
        yield _find_root(node.target)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _changes_receiver(node, node.func):
        yield _find_root(node.func)


def _changes_receiver(call: ast.Call, method: ast.Attribute) -> bool:
    """Return whether the call of a method changes what it is called on."""
    return method.attr in _CHANGING or any(
        each.arg == "inplace" and isinstance(each.value, ast.Constant) and bool(each.value.value)
        for each in call.keywords
    )


def _find_handed(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _SHOWING:
            return
        yield from map(_find_root, [node.func, *node.args, *(keyword.value for keyword in node.keywords)])
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield _find_root(node.iter)
    elif isinstance(node, Function | ast.ClassDef):
        for decorator in node.decorator_list:
            yield _find_root(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _find_root(node: ast.expr) -> str:
    """Return the name in front of all attributes, items and stars of an expression; "" if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
