"""The names whose values a cell may change in place when it runs, by its syntax tree. For Python only.

Rules
-----
- Stored: what is assigned to an attribute or an item of a name, `x += ...`, `del x`, methods such as `append`, and any
  method with `inplace=True`. Methods such as `add` count only if their result is thrown away: others of that name
  return a new value.
- Handed on: a call of it or of its methods, an argument of a call, what a loop goes through, and a decorator. What only
  shows a value, such as `print`, changes nothing, nor does `with`.
- `globals()["x"]` is the name `x`, and `globals().update(x=1)` assigns it.
- What the body of a function does counts where the function is called, which is not seen here.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

from jupyter_gq.lab.reading.bindings import Function
from jupyter_gq.lab.reading.magics import read_magic
from jupyter_gq.lab.reading.parsing import list_children

#: Methods that change an object: those that return something, and those that return nothing.
_CHANGING = frozenset({"setdefault", "pop", "popleft", "popitem", "fit", "partial_fit", "fit_transform", "fit_predict"})
_CHANGING_ONLY = frozenset(
    {
        *("append", "appendleft", "extend", "insert", "add", "update", "remove", "discard", "clear", "sort", "reverse"),
        "load_state_dict",
    }
)
#: Bound of the work: the first parts of an argument count. Calls stand in each other.
_MOST_PARTS = 2000
_SHOWING = frozenset({"print", "display", "type", "isinstance", "issubclass", "len", "repr", "str", "id", "hasattr"})


def find_stored_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names whose values these statements change."""
    nodes = list(list_running(body))
    deleted = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    return deleted.union(*map(find_stored, nodes)) - {""}


def find_handed_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names whose values these statements change, or hand to what may change them."""
    nodes = list(list_running(body))
    handed = {name for node in nodes for name in _find_handed(node) if name}
    return handed | find_stored_names(body)


def list_running(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of these statements that run with them, also those of the code of magics such as `%%time`.

    Functions are yielded with their decorators only, without their defaults and bodies.
    """
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


def list_first_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, but no more than `_MOST_PARTS`: each call in a call asks for its own."""
    ahead = [node]
    for _ in range(_MOST_PARTS):
        if not ahead:
            return
        part = ahead.pop()
        yield part
        ahead += list_children(part)[:_MOST_PARTS][::-1]


def list_linked(names: Iterable[str], *links: dict[str, set[str]]) -> set[str]:
    """Return the names, and those to which links lead from them."""
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [each for link in links for each in link.get(name, ())]
    return found


def find_stored(node: ast.AST) -> Iterator[str]:
    """Yield the names whose values a node changes itself, without those that the nodes below it change."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        yield find_root(node)
    elif isinstance(node, ast.AugAssign):
        yield find_root(node.target)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _changes_receiver(node, node.func):
        yield find_root(node.func)
    elif isinstance(node, ast.Expr):
        methods = [call.func for call in list_thrown_away(node.value) if isinstance(call.func, ast.Attribute)]
        yield from (find_root(method) for method in methods if method.attr in _CHANGING_ONLY)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_globals(node.func.value):
        yield from _find_set_globals(node, node.func.attr)


def find_rebound_globals(node: ast.AST) -> Iterator[str]:
    """Yield the global names that a node assigns or deletes through `globals()`, wherever it stands."""
    if isinstance(node, ast.Subscript) and _is_globals(node.value):
        yield from find_stored(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_globals(node.func.value):
        yield from _find_set_globals(node, node.func.attr)


def _find_set_globals(call: ast.Call, method: str) -> Iterator[str]:
    """Yield the names that a call of this method of `globals()` assigns or deletes, as far as they are written out."""
    given = call.args[:1]
    if method in {"update", "__ior__"}:
        yield from (each.arg for each in call.keywords if each.arg)
        given = [key for each in given if isinstance(each, ast.Dict) for key in each.keys if key is not None]
    elif method not in {"setdefault", "pop", "__setitem__", "__delitem__"}:
        return
    yield from (str(each.value) for each in given if isinstance(each, ast.Constant))


def _is_globals(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "globals"


def list_tested(node: ast.AST) -> list[ast.Call]:
    """Return the calls whose results a node tests, such as that of `add` in `x in seen or seen.add(x)`."""
    parts: Sequence[ast.expr] = []
    match node:
        case ast.BoolOp(values=values):
            parts = values
        case ast.UnaryOp(op=ast.Not(), operand=inner) | ast.Compare(left=inner, comparators=[ast.Constant(value=None)]):
            parts = [inner]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            parts = [test]
        case ast.comprehension(ifs=conditions):
            parts = conditions
    return [each for each in parts if isinstance(each, ast.Call)]


def list_thrown_away(value: ast.expr) -> list[ast.Call]:
    """Return the calls whose results are the value of a statement that is no more than this expression."""
    match value:
        case ast.Call():
            return [value]
        case ast.Await(value=inner):
            parts = [inner]
        case ast.BoolOp(values=values):
            parts = values[-1:]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.ListComp(elt=inner) | ast.SetComp(elt=inner):
            parts = [inner]
        case _:
            parts = value.elts if isinstance(value, ast.Tuple) else []
    return [call for part in parts for call in list_thrown_away(part)]


def _changes_receiver(call: ast.Call, method: ast.Attribute) -> bool:
    """Return whether the call of a method changes what it is called on, whatever becomes of its result."""
    return method.attr in _CHANGING or any(
        each.arg == "inplace" and isinstance(each.value, ast.Constant) and bool(each.value.value)
        for each in call.keywords
    )


def _find_handed(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _SHOWING:
            return
        yield from map(find_root, [node.func, *node.args, *(keyword.value for keyword in node.keywords)])
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield find_root(node.iter)
    elif isinstance(node, Function | ast.ClassDef):
        for decorator in node.decorator_list:
            yield find_root(decorator.func if isinstance(decorator, ast.Call) else decorator)


def find_root(node: ast.expr) -> str:
    """Return the name in front of all attributes, items and stars of an expression; "" if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        if isinstance(node, ast.Subscript) and _is_globals(node.value) and isinstance(node.slice, ast.Constant):
            return str(node.slice.value)
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
