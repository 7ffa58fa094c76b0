"""The calls that run when a cell runs, with the full names of what they call, read in a syntax tree."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from .bindings import Function, find_functions
from .parsing import list_children, list_nodes

#: Usual short names of modules, which another cell may have imported.
_USUAL_ALIASES = {
    **{"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib", "sns": "seaborn"},
    **{"tf": "tensorflow", "sp": "subprocess"},
}
_IN_MEMORY = frozenset({"io.StringIO", "io.BytesIO", "StringIO", "BytesIO"})
_SCREENS = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "os.devnull"})
#: Kinds of nodes that give names: a quick look, since cells have many other nodes.
_NAMING = frozenset(
    {ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.withitem}
)
#: The calls of modules that were asked for.
_CALLS: WeakKeyDictionary[ast.Module, list[ast.Call]] = WeakKeyDictionary()


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


def list_calls(tree: ast.Module) -> list[ast.Call]:
    """Return the calls that run when the cell runs, in an order that does not matter; kept as the nodes are."""
    found = _CALLS.get(tree)
    if found is None:
        found = _CALLS[tree] = list(_find_calls(tree))
    return found


def _find_calls(tree: ast.Module) -> Iterator[ast.Call]:
    functions = find_functions(tree.body)
    ahead: list[ast.AST] = list(reversed(tree.body))
    while ahead:
        node = ahead.pop()
        if isinstance(node, Function | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
            called = functions.pop(node.func.id, None) if isinstance(node.func, ast.Name) else None
            if called is not None:
                functions |= find_functions(called.body)
                ahead.extend(reversed(called.body))
        ahead.extend(reversed(list_children(node)))


def read_text(node: ast.expr | None) -> str:
    """Return a literal text, also one inside `text(...)` or the known beginning of an f-string; otherwise ""."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        return read_text(node.values[0])
    if isinstance(node, ast.Call) and node.args:
        return read_text(node.args[0])
    return ""
