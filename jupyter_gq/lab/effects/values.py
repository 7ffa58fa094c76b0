"""The expressions that cells assign to names, and what these tell of the values. For Python only.

Rules
-----
- A name may hold whatever was assigned to it; the last assignment tells whether it holds a list, set or dict.
- A name in an assigned value means what it held at that assignment, such as the inner `h` of `h = partial(h, a)`.
- `groups[k]` is a list if all that is written out in `groups` are lists, as in `defaultdict(list)` and `{k: []}`.
- A call of what `functools.partial` has made, also by a name or by the elements of a list of them that a loop goes
  through, is read as the call of its function with all arguments.

See docs/decisions/0482-propose-what-a-call-is-made-for.md.
"""

import ast
from collections.abc import Iterator, Sequence

from jupyter_gq.lab.reading.call_parts import get_last_name, get_receiver

from .changes import list_running
from .changing_calls import makes_container

#: Bounds of the work: the last values of a name count, and expressions are followed this deep.
_MOST_VALUES = 50
_DEEPEST = 10
_CONSTANT = ast.Constant | ast.JoinedStr | ast.Lambda
_CONTAINERS = ast.List | ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp


class Values:
    """The expressions that cells have assigned to names so far, and those that loops go through."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[ast.expr]] = {}
        #: What the loops go through whose variable has the name.
        self._looped: dict[str, list[ast.expr]] = {}
        #: What names in assigned values held then.
        self._earlier: dict[ast.AST, ast.expr] = {}

    def learn(self, node: ast.AST) -> None:
        """Take in what a statement or an item of `with` assigns."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._learn_value(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._learn_value(node.target, node.value)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._learn_value(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            _keep(self._looped, node.target.id, node.iter)

    def _learn_value(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._learn_earlier(value)
            _keep(self.by_name, target.id, value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for each, part in zip(target.elts, value.elts, strict=True):
                self._learn_value(each, part)
        elif isinstance(target, ast.Tuple):
            for each in target.elts:
                self._learn_value(each, ast.Call(func=ast.Constant(value=None), args=[], keywords=[]))

    def _learn_earlier(self, value: ast.expr) -> None:
        """Take in what the names in a value hold that is about to be assigned."""
        for node in list_running([value]):
            held = self.by_name.get(node.id) if isinstance(node, ast.Name) else None
            if held and held[-1] is not value:  # a cell that ran twice assigns the same value
                self._earlier[node] = held[-1]

    def list_constant(self) -> set[str]:
        """Return the names that hold numbers, texts and lambdas only."""
        return {name for name, values in self.by_name.items() if all(isinstance(each, _CONSTANT) for each in values)}

    def is_container(self, node: ast.expr) -> bool:
        """Return whether an expression is a name, or an item of what it holds, and a list, set or dict."""
        return isinstance(node, ast.Name | ast.Subscript) and self._makes_container(node)

    def _makes_container(self, node: ast.expr) -> bool:
        found = self.find_last(node)
        if isinstance(found, ast.Subscript) and not isinstance(found.slice, ast.Slice):
            elements = self.list_elements(found.value)
            return bool(elements) and all(
                isinstance(each, _CONTAINERS) or (isinstance(each, ast.Call) and self._makes_container(each))
                for each in elements
            )
        if isinstance(found, ast.Call):
            return makes_container(get_last_name(found)) and not isinstance(get_receiver(found), ast.Call)
        return isinstance(found, _CONTAINERS)

    def find_last(self, node: ast.expr) -> ast.expr:
        """Return the expression that a name was assigned last, also by way of other names; any other as it is."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name) or node.id not in self.by_name:
                break
            node = self._earlier.get(node, self.by_name[node.id][-1])
        return node

    def list_elements(self, node: ast.expr) -> Sequence[ast.expr]:
        """Return what is written out of the elements of a list, tuple or set, or of the values of a dict."""
        found = self.find_last(node)
        match found:
            case ast.List() | ast.Tuple() | ast.Set():
                return found.elts
            case ast.Dict(values=values):
                return values
            case ast.ListComp(elt=element) | ast.DictComp(value=element):
                return [element]
            case ast.Call(args=[ast.Name() as maker, *_]) if get_last_name(found) == "defaultdict":
                return [ast.Call(func=maker, args=[], keywords=[])]
        return []

    def list_calls(self, call: ast.Call) -> Iterator[ast.Call]:
        """Yield the calls that a call is if it calls what `functools.partial` has made; the call itself otherwise."""
        partials = [each for each in self._list_called(call.func) if is_partial(each)]
        if not partials:
            yield call
        for each in partials:
            whole, depth = call, 0
            inner: ast.expr = each
            while isinstance(inner, ast.Call) and is_partial(inner) and depth < _DEEPEST:
                whole = join_partial(inner, whole)
                inner, depth = self.find_last(whole.func), depth + 1
            if isinstance(inner, ast.Name | ast.Attribute | ast.Lambda):  # the name may hold another function by now
                whole = ast.copy_location(ast.Call(func=inner, args=whole.args, keywords=whole.keywords), whole)
            yield whole

    def _list_called(self, func: ast.expr) -> Iterator[ast.Call]:
        """Yield the calls whose results an expression may be when it is called."""
        looped = self._looped.get(func.id, ()) if isinstance(func, ast.Name) else ()
        for each in [func, *(element for iterated in looped for element in self.list_elements(iterated))]:
            found = self.find_last(each)
            if isinstance(found, ast.Call):
                yield found


def is_partial(call: ast.Call) -> bool:
    """Return whether a call makes a function of another one by `functools.partial`."""
    return get_last_name(call) == "partial" and bool(call.args) and not isinstance(call.args[0], ast.Starred)


def join_partial(partial: ast.Call, call: ast.Call) -> ast.Call:
    """Return the call that a call of the result of `functools.partial` makes."""
    named = {each.arg for each in call.keywords}
    kept = [each for each in partial.keywords if each.arg not in named]
    joined = ast.Call(func=partial.args[0], args=[*partial.args[1:], *call.args], keywords=[*kept, *call.keywords])
    return ast.copy_location(joined, call)


def _keep(values: dict[str, list[ast.expr]], name: str, value: ast.expr) -> None:
    kept = values.setdefault(name, [])
    kept.append(value)
    del kept[:-_MOST_VALUES]
