"""The full names of what cells call, such as `numpy.save` for `np.save`, by the imports of these cells."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .parsing import list_nodes

#: Usual short names of modules, which another cell may have imported.
_USUAL_ALIASES = {
    **{"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib", "sns": "seaborn"},
    **{"tf": "tensorflow", "sp": "subprocess"},
}
_IN_MEMORY = frozenset({"io.StringIO", "io.BytesIO", "StringIO", "BytesIO"})
#: Functions that open a database, and texts by which it lives in memory.
_OPENS_DATABASE = frozenset({"connect", "create_engine", "create_async_engine", "Connection"})
_MEMORY_DATABASE = re.compile(r".*(?::memory:|mode=memory).*|(?:sqlite|duckdb)(?:\+\w+)?://")
#: Methods of a database and functions with one as an argument whose results lead to the same database.
_LEADS_ON = frozenset(
    {"cursor", "connect", "begin", "raw_connection", "execution_options", "Session", "sessionmaker", "scoped_session"}
)
_SCREENS = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "os.devnull"})
#: Kinds of nodes that give names: a quick look, since cells have many other nodes.
_NAMING = frozenset(
    {
        *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.withitem),
        ast.Call,
    }
)
#: Names that most often hold modules, whichever cell has imported these.
MODULES_BY_USUAL_NAMES = frozenset({*_USUAL_ALIASES, "os", "sys"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names that cells give to modules, files in memory and their own variables."""

    #: Full names by the names that cells use, of modules and of what is imported from them.
    modules: dict[str, str] = field(default_factory=lambda: dict(_USUAL_ALIASES))
    in_memory: set[str] = field(default_factory=set)
    #: Names of databases in memory, of what leads to them, and of texts by which they are opened.
    memory_databases: set[str] = field(default_factory=set)
    #: Calls that open any other database.
    other_databases: list[ast.Call] = field(default_factory=list)
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
        match node:
            case ast.Call():
                self._note_database(node)
            case ast.Assign(targets=targets, value=value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                self.own.update(names)
                self._read_value(value, names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.own.add(node.name)
            case ast.Import(names=aliases):
                self._import({a.asname: a.name for a in aliases if a.asname})
                self._import({root: root for a in aliases if not a.asname and (root := a.name.split(".")[0])})
            case ast.ImportFrom(names=aliases):
                self._import({a.asname or a.name: f"{node.module}.{a.name}" for a in aliases})
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
                self._read_value(value, [name])

    def _import(self, modules: dict[str, str]) -> None:
        """Record the full names by which names are imported."""
        self.modules.update(modules)
        self.own.difference_update(modules)

    def _read_value(self, value: ast.expr, names: Iterable[str]) -> None:
        """Record whether these names hold a file or a database in memory."""
        held = isinstance(value, ast.Call) and self.spell(value.func) in _IN_MEMORY
        for kept, is_held in ((self.in_memory, held), (self.memory_databases, self._is_in_memory(value))):
            kept.difference_update(names)
            kept.update(names if is_held else ())

    def _note_database(self, call: ast.Call) -> None:
        """Record the opening of a database, unless that one is in memory."""
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if last in _OPENS_DATABASE and not self._is_in_memory(call):
            self.other_databases.append(call)

    def _is_in_memory(self, node: ast.expr) -> bool:
        """Return whether an expression is a database in memory, leads to one, or is a text by which it is opened."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and _MEMORY_DATABASE.fullmatch(node.value) is not None
        if isinstance(node, ast.Name):
            return node.id in self.memory_databases
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in self.memory_databases:  # made by `sessionmaker`
            return True
        last = node.func.attr if isinstance(node.func, ast.Attribute) else self.spell(node.func).rpartition(".")[2]
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = [*node.args[:1], *(keyword.value for keyword in node.keywords), *([of] if of is not None else [])]
        if last in _OPENS_DATABASE | _LEADS_ON and any(map(self._is_in_memory, given)):
            return True
        return self.spell(node.func) == "duckdb.connect" and not node.args

    def spell(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression such as `np.save`; empty for any other expression."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.spell(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""

    def is_own(self, func: ast.expr) -> bool:
        """Return whether what is called is a function or variable of the cells themselves."""
        return isinstance(func, ast.Name) and func.id in self.own

    def are_in_memory(self, nodes: Iterable[ast.expr]) -> bool:
        """Return whether one of these is a database in memory.

        If none of them is known, returns whether all databases that the cells open, at least one, are in memory.
        """
        return any(map(self._is_in_memory, nodes)) or (bool(self.memory_databases) and not self.other_databases)

    def is_no_file(self, node: ast.expr | None) -> bool:
        """Return whether this destination is missing, in memory, a screen or a null device."""
        if node is None or (isinstance(node, ast.Constant) and node.value in (None, "/dev/null")):
            return True
        if isinstance(node, ast.Call):
            return self.spell(node.func) in _IN_MEMORY
        return self.spell(node) in _SCREENS or (isinstance(node, ast.Name) and node.id in self.in_memory)


def read_text(node: ast.expr | None) -> str:
    """Return a literal text, also one inside `text(...)` or the known beginning of an f-string; otherwise ""."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        return read_text(node.values[0])
    if isinstance(node, ast.Call) and node.args:
        return read_text(node.args[0])
    return ""
