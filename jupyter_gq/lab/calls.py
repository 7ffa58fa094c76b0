"""The calls that run when a cell runs, with the full names of what they call, read in a syntax tree.

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from .bindings import Function, find_bindings, list_statements
from .parsing import list_children, list_nodes

#: Usual short names of modules, which another cell may have imported.
_USUAL_ALIASES = {
    **{"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib", "sns": "seaborn"},
    **{"tf": "tensorflow", "sp": "subprocess"},
}
_IN_MEMORY = frozenset({"io.StringIO", "io.BytesIO", "StringIO", "BytesIO"})
_SCREENS = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "os.devnull"})
#: Functions and methods that call their first argument, or their `target`.
_CALLERS = frozenset(
    {
        *(
            "map",
            "filter",
            "reduce",
            "apply",
            "applymap",
            "map_async",
            "apply_async",
            "imap",
            "imap_unordered",
            "starmap",
        ),
        *("submit", "to_thread", "delayed", "thread_map", "process_map", "pipe"),
    }
)
_TARGET_CALLERS = frozenset({"Thread", "Process"})
_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
#: Calls in the bodies of functions, and classes in which a method is looked for, that are read for all cells together.
_MOST_FOLLOWED = 10_000
#: Kinds of nodes that give names: a quick look, since cells have many other nodes.
_NAMING = frozenset(
    {ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.withitem}
)
#: Names that most often hold modules, whichever cell has imported these.
MODULES_BY_USUAL_NAMES = frozenset({*_USUAL_ALIASES, "os", "sys"})
#: The calls of modules that were asked for.
_CALLS: WeakKeyDictionary[ast.Module, list[ast.Call]] = WeakKeyDictionary()
#: The bodies that were read: of modules, functions and classes.
_BODIES: "WeakKeyDictionary[ast.AST, _Body]" = WeakKeyDictionary()
#: What has a body that runs by itself.
_Runs = ast.Module | Function | ast.Lambda


@dataclass(frozen=True, slots=True)
class Names:
    """The names that cells give to modules, files in memory and their own variables."""

    #: Full names by the names that cells use, of modules and of what is imported from them.
    modules: dict[str, str] = field(default_factory=lambda: dict(_USUAL_ALIASES))
    in_memory: set[str] = field(default_factory=set)
    #: Names of the cell's own functions and variables.
    own: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, tree: ast.AST) -> "Names":
        """Return the names of a cell."""
        names = cls()
        names.add(tree)
        return names

    def add(self, tree: ast.AST) -> None:
        """Add the names of a cell that runs after those that were read."""
        for node in list_nodes(tree):
            if type(node) in _NAMING:
                self._read_node(node)

    def _read_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.own.difference_update({a.asname or a.name for a in node.names})
        if isinstance(node, ast.Import):
            self.modules.update({a.asname: a.name for a in node.names if a.asname})
            self.modules.update({root: root for a in node.names if not a.asname and (root := a.name.split(".")[0])})
        elif isinstance(node, ast.ImportFrom):
            self.modules.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.own.add(node.name)
        elif isinstance(node, ast.Assign):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            self.own.update(targets)
            self.in_memory.difference_update(targets)
            self._read_value(node.value, targets)
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            self._read_value(node.context_expr, [node.optional_vars.id])

    def _read_value(self, value: ast.expr, names: Iterable[str]) -> None:
        """Record that these names hold a value, if the value is a file in memory."""
        if isinstance(value, ast.Call) and self.spell(value.func) in _IN_MEMORY:
            self.in_memory.update(names)

    def spell(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression such as `np.save`; empty for any other expression."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.spell(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""

    def is_no_file(self, node: ast.expr | None) -> bool:
        """Return whether this destination is missing, in memory, a screen or a null device."""
        if node is None or (isinstance(node, ast.Constant) and node.value in (None, "/dev/null")):
            return True
        if isinstance(node, ast.Call):
            return self.spell(node.func) in _IN_MEMORY
        return self.spell(node) in _SCREENS or (isinstance(node, ast.Name) and node.id in self.in_memory)


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

    def add(self, scope: "_Runs") -> None:
        """Add what the statements of one scope define."""
        for node in _read_body(scope).defining:
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
            found = _read_body(self.classes[each]).functions.get(name)
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
    ahead: list[tuple[_Runs, str, Collection[str]]] = [(tree, "", [""])]
    while ahead:
        scope, own, switches = ahead.pop()
        for call in [call for switch, call in _read_body(scope).calls if switch in switches]:
            yield call
            for called, of in inner.find_called(call.func, own):
                fresh = {(id(called), switch) for switch in ["", *_list_given(call, called, of)]} - followed
                if fresh and known.allowance.take(1 + len(_read_body(called).calls)):
                    followed |= fresh
                    inner.add(called)
                    ahead.append((called, of, [switch for _, switch in fresh]))


@dataclass(frozen=True, slots=True)
class _Body:
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


def _read_body(scope: ast.Module | Function | ast.Lambda | ast.ClassDef) -> _Body:
    """Return the body of a module, function or class; kept as long as its syntax tree is."""
    found = _BODIES.get(scope)
    if found is None:
        body: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else [*scope.body]
        kinds = Function | ast.ClassDef | ast.Assign | ast.withitem
        defining = [node for node in list_statements(body) if isinstance(node, kinds)]
        switches = _find_switches(scope, body)
        found = _BODIES[scope] = _Body(
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


def _list_given(call: ast.Call, called: Function | ast.Lambda, of: str) -> list[str]:
    """Return the optional parameters of a function, or of a method of the class `of`, that a call gives it."""
    switches = list(_read_body(called).switches)
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
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given: list[ast.expr] = []
    if name in _CALLERS:
        given = node.args[:]
    elif name in _TARGET_CALLERS:
        given = [keyword.value for keyword in node.keywords if keyword.arg == "target"]
    if not given or not isinstance(given[0], ast.Name | ast.Attribute):
        return [node]
    return [node, ast.copy_location(ast.Call(func=given[0], args=given[1:], keywords=[]), node)]


def read_text(node: ast.expr | None) -> str:
    """Return a literal text, also one inside `text(...)` or the known beginning of an f-string; otherwise ""."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        return read_text(node.values[0])
    if isinstance(node, ast.Call) and node.args:
        return read_text(node.args[0])
    return ""
