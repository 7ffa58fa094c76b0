"""The calls that run when a cell runs, also those in the functions that it calls, read in a syntax tree.

Rules
-----
- Functions and classes of the cell and of the cells before it are followed into their bodies, each once for a cell:
  `save(x)`, `Trainer(x)`, `trainer.fit()` if `trainer` was assigned from `Trainer(...)`, and `self.save()`.
- A function that is given to `map`, `submit`, `Thread(target=...)` and the like is called by them.
- What a function does only if it is given an optional argument, as under `if path:` with `path=None` among its
  parameters, counts only for a call that gives it.
- Of all cells together, `_MOST_FOLLOWED` calls in bodies are read, so that many cells that each call a long function
  keep nobody waiting.
"""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from .bindings import Function
from .bodies import Runs, list_given, read_body

_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
#: Calls in the bodies of functions, and classes in which a method is looked for, that are read for all cells together.
_MOST_FOLLOWED = 10_000
#: The calls of modules that were asked for.
_CALLS: WeakKeyDictionary[ast.Module, list[ast.Call]] = WeakKeyDictionary()


@dataclass(slots=True)
class _Allowance:
    """The number of calls and classes that may still be followed, for all cells together."""

    left: int = _MOST_FOLLOWED

    def take(self, count: int) -> bool:
        """Take this many from what is left; return False, and take none, if there are fewer."""
        is_enough = count <= self.left
        self.left -= count if is_enough else 0
        return is_enough


@dataclass(frozen=True, slots=True)
class Definitions:
    """The functions, classes and instances of these classes that cells have made so far."""

    functions: dict[str, Function | ast.Lambda] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    #: Names of classes by the names of variables.
    instances: dict[str, str] = field(default_factory=dict)
    allowance: _Allowance = field(default_factory=_Allowance)

    def copy(self) -> "Definitions":
        """Return definitions to which others can be added, with the same allowance."""
        return replace(self, functions=dict(self.functions), classes=dict(self.classes), instances=dict(self.instances))

    def add(self, scope: Runs) -> None:
        """Add what the statements of one scope define."""
        for node in read_body(scope).defining:
            if isinstance(node, Function):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._assign(node.optional_vars, node.context_expr)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.Lambda):
            self.functions[target.id] = value
        self.instances.pop(target.id, None)
        if made := self._find_made_class(value):
            self.instances[target.id] = made

    def _find_made_class(self, value: ast.expr) -> str:
        """Return the name of the class of which an expression makes an instance; "" if it makes none."""
        named = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        return named if named in self.classes else ""

    def find_called(self, func: ast.expr, own: str) -> list[tuple[Function | ast.Lambda, str]]:
        """Return the functions whose bodies run if `func` is called, each with the name of its class, "" if none.

        `own` is the class of the method in which the call stands; "" outside of classes.
        """
        if isinstance(func, ast.Lambda):
            return [(func, "")]
        if isinstance(func, ast.Name):
            if func.id in self.functions:
                return [(self.functions[func.id], "")]
            made = [(func.id, name) for name in _CONSTRUCTORS] if func.id in self.classes else []
            asked = made or [(self.instances.get(func.id, ""), "__call__")]
        elif isinstance(func, ast.Attribute):
            asked = [(self._find_class(func.value, own), func.attr)]
        else:
            return []
        methods = [(self._find_method(of, name), of) for of, name in asked]
        return [(method, of) for method, of in methods if method is not None]

    def list_methods(self, value: ast.expr) -> list[str]:
        """Return the names of the methods of an object whose class the cells define, without those of its bases."""
        made = self._find_class(value, "")
        return [*read_body(self.classes[made]).functions] if made in self.classes else []

    def _find_class(self, value: ast.expr, own: str) -> str:
        """Return the name of the class of an object, or of a class itself; "" if it is not known."""
        if isinstance(value, ast.Name):
            return own if value.id in {"self", "cls"} else self.instances.get(value.id, value.id)
        return self._find_made_class(value)

    def _find_method(self, of: str, name: str) -> Function | None:
        """Return the method of a class or of the first of its bases that has it."""
        ahead, seen = [of], set[str]()
        while ahead:
            each = ahead.pop(0)
            if each not in self.classes or each in seen:
                continue
            if not self.allowance.take(1):
                return None
            seen.add(each)
            found = read_body(self.classes[each]).functions.get(name)
            if found is not None:
                return found
            ahead += [base.id for base in self.classes[each].bases if isinstance(base, ast.Name)]
        return None


def list_calls(tree: ast.Module) -> list[ast.Call]:
    """Return the calls that run when the cell runs, in an order that does not matter; kept as the nodes are."""
    found = _CALLS.get(tree)
    if found is None:
        found = _CALLS[tree] = list(find_calls(tree, Definitions()))
    return found


def find_calls(tree: ast.Module, known: Definitions) -> Iterator[ast.Call]:
    """Yield the calls that run when the cell runs, also those in the functions that it calls.

    `known` holds what earlier cells have defined. What this cell defines is added.
    """
    known.add(tree)
    # What is defined within functions is known while these are followed, and by no later cell.
    inner = known.copy()
    followed: set[tuple[int, str]] = set()
    ahead: list[tuple[Runs, str, Collection[str]]] = [(tree, "", [""])]
    while ahead:
        scope, own, switches = ahead.pop()
        for call in [call for switch, call in read_body(scope).calls if switch in switches]:
            yield call
            for called, of in inner.find_called(call.func, own):
                fresh = {(id(called), switch) for switch in ["", *list_given(call, called, of)]} - followed
                if fresh and known.allowance.take(1 + len(read_body(called).calls)):
                    followed |= fresh
                    inner.add(called)
                    ahead.append((called, of, [switch for _, switch in fresh]))
