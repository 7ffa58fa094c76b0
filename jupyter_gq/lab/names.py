"""The variables that cells make and need, by the syntax trees of their sources. For Python only.

Rules
-----
- Made: what a target assigns, or defines as a function or a class, at its top level. Modules are not brought back, nor
  are names that begin with an underscore.
- Needed: what a later cell reads before that cell, or a cell between, assigns the name itself.
- Magics: the code in `%%time`, `%timeit` and their like counts, and the names that a `!` command puts in.
- A source that is no Python, such as one with a cell magic of another language, makes and needs nothing.
"""

import ast
import re
from collections.abc import Iterable, Sequence

from .cells import parse_cell

#: Methods of IPython into which its transformer turns magics and commands.
_MAGICS = frozenset({"run_line_magic", "run_cell_magic"})
_COMMANDS = frozenset({"system", "getoutput"})
#: Magics whose text is Python.
_OF_CODE = frozenset({"capture", "prun", "time", "timeit"})
#: Options such as `-n 10` before the code of such a magic.
_OPTIONS = re.compile(r"^(\s*-[a-zA-Z]+(\s*\d+)?)+")
_PUT_IN = re.compile(r"[{$]([A-Za-z_][A-Za-z0-9_]*)")


def find_made_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells make, sorted."""
    uses = _read(sources)
    return sorted(name for name in uses.assigned - uses.imported if not name.startswith("_"))


def find_needed_names(made: Sequence[str], later: Iterable[str]) -> list[str]:
    """Return those of the `made` names that the later cells need, in the same order."""
    needed = _read(later).needed
    return [name for name in made if name in needed]


def find_free_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells read before they assign them, sorted; names of builtins are among them."""
    return sorted(_read(sources).needed)


def find_makers(sources: Sequence[str]) -> dict[str, list[int]]:
    """Return for each name which of these cells assign or import it, by their places; "*" for `from x import *`."""
    makers: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        for name in _read([source]).assigned:
            makers.setdefault(name, []).append(place)
    return makers


def _read(sources: Iterable[str]) -> "_Uses":
    """Return the uses of names in these cells, in their order."""
    uses = _Uses()
    for source in sources:
        tree = parse_cell(source)
        if tree is not None:
            uses.visit(tree)
    return uses


def parse_magic(call: ast.Call) -> list[ast.Module]:
    """Return the syntax trees of the Python code in a magic such as `%%time`, as IPython's transformer writes it.

    Any other call has none.
    """
    called, texts = _read_call(call)
    if called not in _MAGICS or not texts or texts[0] not in _OF_CODE:
        return []
    trees = (parse_cell(_OPTIONS.sub("", source)) for source in texts[1:])
    return [tree for tree in trees if tree is not None]


def _read_call(call: ast.Call) -> tuple[str, list[str]]:
    """Return the name of the called method, "" for another call, and the literal texts among the arguments."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return called, [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]


class _Uses(ast.NodeVisitor):
    """A visitor that follows the order of evaluation and keeps which names were assigned, and which were needed."""

    def __init__(self) -> None:
        self.assigned: set[str] = set()
        self.imported: set[str] = set()
        #: Names that were read before they were assigned.
        self.needed: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._need(node.id)
        elif isinstance(node.ctx, ast.Del):
            self._need(node.id)
            self.assigned.discard(node.id)
        else:
            self.assigned.add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called, texts = _read_call(node)
        if called in _COMMANDS and texts:
            for name in _PUT_IN.findall(texts[0]):
                self._need(name)
        for tree in parse_magic(node):
            if texts[0] == "timeit":  # runs the code in a function
                self._visit_scope([tree], None)
            else:
                self.visit(tree)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all(node.value, *node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit_all(node.value, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._need(node.target.id)
        self._visit_all(node.value, node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit_all(node.value, node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit_all(node.iter, node.target, *node.body, *node.orelse)

    visit_AsyncFor = visit_For

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        self.assigned |= names
        self.imported |= names

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))
        self.assigned.add(node.name)
        self._visit_scope(node.body, node.args)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._visit_scope([node.body], node.args)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.decorator_list, *node.bases, *node.keywords)
        self._visit_scope(node.body, None)
        self.assigned.add(node.name)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._visit_scope([*_in_order(node.generators), node.elt], None)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_scope([*_in_order(node.generators), node.key, node.value], None)

    def _need(self, name: str) -> None:
        if name not in self.assigned:
            self.needed.add(name)

    def _visit_all(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_scope(self, nodes: Sequence[ast.AST], arguments: ast.arguments | None) -> None:
        """Visit the inside of a scope: what it assigns is not known outside."""
        outside, imported = set(self.assigned), set(self.imported)
        if arguments is not None:
            self.assigned |= {each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)}
        self._visit_all(*nodes)
        self.assigned, self.imported = outside, imported


def _in_order(generators: Sequence[ast.comprehension]) -> Iterable[ast.AST]:
    """Yield the parts of the `for` clauses of a comprehension in the order of their evaluation."""
    for generator in generators:
        yield generator.iter
        yield generator.target
        yield from generator.ifs
