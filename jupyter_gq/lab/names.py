"""The variables that cells make and need, by the syntax trees of their sources. For Python only.

Rules
-----
- Made: what a cell assigns or defines at its top level, or as `global` in a function. Modules are not brought back, nor
  are names that begin with an underscore.
- Needed: what a later cell reads before that cell, or a cell between, has certainly assigned the name. An assignment in
  a branch or a loop is not certain. What the body of a function reads counts where the function is defined.
- Scopes are those of Python: methods do not see the names of their class, and a comprehension keeps its own.
- Optional: names in annotations, which newer versions of Python may never read, and names after `$` in commands; names
  in the texts of `eval("x + 1")` and `df.query("a > @x")`.
- Scripts: what the script of `%run` makes is made. Names that a script reads are needed with `-i`, or for `.ipy` files
  and notebooks.
- Magics: the code in `%%time`, `%timeit` and their like counts, and what IPython puts into other lines.
- A source that is no Python, such as one with a cell magic of another language, makes and needs nothing.

See docs/decisions/0194-read-magics-in-one-place-and-let-names-lack.md.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from .bindings import Comprehension, Function, find_bindings, list_bound_names
from .cells import parse_cell
from .lookups import find_names_in_text
from .magics import read_magic
from .scripts import Script

#: Names that Python itself binds in each script.
_OF_SCRIPTS = frozenset({"__name__", "__file__", "__builtins__"})
#: Names that Python itself binds in each function of a class, and in each body of a class.
_OF_FUNCTIONS, _OF_CLASSES = frozenset({"__class__"}), frozenset({"__module__", "__qualname__"})


def find_made_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells make, in the order in which they are first assigned.

    Imported names are left out, and those that begin with an underscore.
    """
    uses = _read(sources)
    return [name for name in uses.list_made() if name not in uses.imported and not name.startswith("_")]


def find_imported_names(sources: Iterable[str]) -> set[str]:
    """Return the names that these cells import."""
    return _read(sources).imported


def find_made_by(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that these statements make or import."""
    uses = _Uses()
    for statement in body:
        uses.visit(statement)
    return set(uses.made)


def find_needed_names(made: Sequence[str], later: Iterable[str]) -> list[str]:
    """Return those of the `made` names that the later cells need, in the same order."""
    uses = _read(later)
    return [name for name in made if name in uses.needed or name in uses.optional]


def find_free_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells may read before they assign them, sorted; names of builtins are among them."""
    uses = _read(sources)
    return sorted(uses.needed | uses.optional)


def find_names_read_at_once(tree: ast.Module) -> set[str]:
    """Return the names without which a cell fails when it runs: not those that only the bodies of functions read."""
    uses = _UsesAtOnce()
    uses.visit(tree)
    return uses.needed


def find_names_of_body(function: Function) -> set[str]:
    """Return the names that a function reads from around it, when it is defined or called."""
    uses = _Uses()
    uses.visit(function)
    return uses.needed


def find_names_read_before(source: str, later: set[str]) -> set[str]:
    """Return the free names of a cell and the cells after it; `later` are those of the cells after it."""
    uses = _read([source])
    return uses.needed | uses.optional | (later - uses.certain)


def find_optional_names(sources: Iterable[str]) -> list[str]:
    """Return those of the free names without which these cells may run as well, sorted."""
    uses = _read(sources)
    return sorted(uses.optional - uses.needed)


def find_makers(sources: Sequence[str]) -> dict[str, list[int]]:
    """Return for each name which of these cells assign or import it, by their places; "*" for `from x import *`."""
    makers: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        for name in _read([source]).made:
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


@dataclass(kw_only=True, slots=True)
class _Scope:
    """A scope around the part of the code that is read."""

    kind: Literal["module", "class", "function", "comprehension"]
    #: Names bound here: for a function or comprehension all of them; for others, those that are certainly bound so far.
    bound: set[str] = field(default_factory=set)
    #: Names declared `global` here.
    of_module: set[str] = field(default_factory=set)
    #: Name of a class of the module, which its methods know: they run later.
    own: str = ""


class _Uses(ast.NodeVisitor):
    """A visitor that follows the order of evaluation and keeps which names were made, and which were needed."""

    def __init__(self) -> None:
        #: Names of the module that were bound anywhere, numbered in the order in which that was seen first.
        self.made: dict[str, int] = {}
        self.imported: set[str] = set()
        #: Names that were read before they were certainly bound; the code may run without the optional ones.
        self.needed: set[str] = set()
        self.optional: set[str] = set()
        self._scopes = [_Scope(kind="module")]
        self._numbers = count()
        #: Names that were made and then deleted in the part that is read, with their numbers.
        self._deleted: dict[str, int] = {}

    def list_made(self) -> list[str]:
        """Return the names that were made, in the order in which they were first assigned."""
        return sorted(self.made, key=self.made.__getitem__)

    @property
    def certain(self) -> set[str]:
        """The names of the module that are certainly bound so far."""
        return self._scopes[0].bound

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._note_read(node.id, self.needed)
        if isinstance(node.ctx, ast.Del):
            self._unbind(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._bind(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        for name in find_names_in_text(node):
            self._note_read(name, self.optional)
        magic = read_magic(node)
        if magic is None:
            return
        expansions = magic.expansions
        self._visit_all(*expansions.expressions)
        for name in expansions.names:
            self._note_read(name, self.optional)
        if magic.script is not None:
            self._visit_script(magic.script)
        elif magic.name == "timeit":  # runs the code in a function
            self._visit_function(magic.trees)
        else:
            self._visit_all(*magic.trees)
        if magic.output:
            self._bind(magic.output)

    def _visit_script(self, script: Script) -> None:
        """Bind the names that a script makes; what it reads counts only if it sees the names of the notebook."""
        inner = type(self)()
        inner._scopes[0].bound |= _OF_SCRIPTS
        for tree in script.trees:
            inner.visit(tree)
        for name in inner.needed if script.shares_names else ():
            self._note_read(name, self.needed)
        for name in inner.optional if script.shares_names else ():
            self._note_read(name, self.optional)
        if not script.gives_names:
            return
        for name in inner.list_made():
            self._make(name)
        self.imported |= inner.imported
        for name in inner.certain - _OF_SCRIPTS:
            self._bind(name)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all(node.value, *node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)
        if self._scopes[-1].kind != "function":
            self._visit_annotations(node.annotation)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._note_read(node.target.id, self.needed)
        self._visit_all(node.value, node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target.id, self._find_host())

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_branches([node.target, *node.body], [])
        self._visit_branches(node.orelse, [])

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_branches(node.body, [])
        self._visit_branches(node.orelse, [])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_branches(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._visit_branches([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._visit_branches(node.values[1:], [])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        # A handler runs only if something failed: what the body deletes is deleted.
        self._visit_branches([*node.body, *node.orelse], *([handler] for handler in node.handlers), usual=1)
        self._visit_all(*node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._visit_all(*filter(None, [node.type]))
        if node.name is None:
            self._visit_all(*node.body)
            return
        made = node.name in self.made
        self._bind(node.name)
        self._visit_all(*node.body)
        self._unbind(node.name, stays_made=made)  # Python deletes it

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        cases = [[*filter(None, [case.pattern, case.guard]), *case.body] for case in node.cases]
        last = node.cases[-1]
        is_complete = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        self._visit_branches(*cases, *([] if is_complete else [[]]))

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        for name in list_bound_names(node):
            self._bind(name)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        scope = self._scopes[-1]
        for name in list_bound_names(node):
            self._bind(name)
            if scope.kind == "module" or name in scope.of_module:
                self.imported.add(name)

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: Function) -> None:
        arguments = _list_arguments(node.args)
        self._visit_all(*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))
        self._visit_annotations(node.returns, *(each.annotation for each in arguments))
        self._bind(node.name)
        self._visit_function(node.body, arguments, self._scopes[-1].own)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._visit_function([node.body], _list_arguments(node.args))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.decorator_list, *node.bases, *node.keywords)
        of_module = find_bindings(node.body).of_module
        own = node.name if self._scopes[-1].kind == "module" else ""
        with self._inside(_Scope(kind="class", bound=set(_OF_CLASSES), of_module=of_module, own=own)):
            self._visit_all(*node.body)
        self._bind(node.name)

    def visit_ListComp(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        bound = find_bindings(generator.target for generator in node.generators).names
        with self._inside(_Scope(kind="comprehension", bound=bound)):
            self._visit_all(first.target, *first.ifs)
            for generator in others:
                self._visit_all(generator.iter, generator.target, *generator.ifs)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self._visit_branches(parts, [])

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def _note_read(self, name: str, found: set[str]) -> None:
        """Add a name that is read to `found` unless a scope around the place has certainly bound it."""
        inner = self._scopes[-1]
        for scope in reversed(self._scopes):
            if name in scope.of_module:
                break
            if name in scope.bound and (scope.kind != "class" or scope is inner):
                return
        if name not in self._scopes[0].bound:
            found.add(name)

    def _bind(self, name: str, scope: _Scope | None = None) -> None:
        """Note that a name is bound in a scope, the innermost one unless it is given."""
        scope = scope or self._scopes[-1]
        if scope.kind == "module" or name in scope.of_module:
            self._make(name)
        if scope.kind in ("module", "class") and name not in scope.of_module:
            scope.bound.add(name)

    def _unbind(self, name: str, stays_made: bool = False) -> None:
        """Note that a name is deleted in the innermost scope; it is not made any more unless it `stays_made`."""
        scope = self._scopes[-1]
        if scope.kind in ("module", "class"):
            scope.bound.discard(name)
        if scope.kind == "module" and not stays_made and name in self.made:
            self._note_deleted(name, self.made.pop(name))

    def _note_deleted(self, name: str, number: int) -> None:
        """Note that a name was deleted; of several times that it was made, the first one counts."""
        self._deleted[name] = min(number, self._deleted.get(name, number))

    def _make(self, name: str) -> None:
        """Note that a name of the module is made; its number is that of the first time."""
        if name not in self.made:
            number = self._deleted.pop(name, None)
            self.made[name] = next(self._numbers) if number is None else number

    def _find_host(self) -> _Scope:
        """Return the innermost scope that is no comprehension: what `:=` binds belongs there."""
        return next(scope for scope in reversed(self._scopes) if scope.kind != "comprehension")

    def _visit_all(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_branches(self, *branches: Sequence[ast.AST], usual: int | None = None) -> None:
        """Visit parts of which one runs.

        Certainly bound afterwards is what each of them binds, unless it raises. Deleted is what each of the first
        `usual` ones deletes; None = each of all.
        """
        scope = self._find_host()
        before, after = scope.bound, []
        outer, deleted = self._deleted, list[dict[str, int]]()
        for branch in branches:
            begin = next(self._numbers)
            scope.bound, self._deleted = set(before), {}
            self._visit_all(*branch)
            # The other parts do not know of what this one deletes.
            deleted.append({name: number for name, number in self._deleted.items() if number < begin})
            self.made |= deleted[-1]
            if not _ends_with_error(branch):
                after.append(scope.bound)
        scope.bound = set.intersection(*after) if after else scope.bound
        self._deleted = outer
        for name in set.intersection(*map(set, deleted[:usual])):
            self.made.pop(name, None)
            self._note_deleted(name, deleted[0][name])

    def _visit_annotations(self, *annotations: ast.expr | None) -> None:
        """Visit annotations; what they read is optional."""
        needed, self.needed = self.needed, self.optional
        self._visit_all(*filter(None, annotations))
        self.needed = needed

    def _visit_function(self, body: Sequence[ast.AST], arguments: Sequence[ast.arg] = (), known: str = "") -> None:
        """Visit the inside of a function, in which also the name `known` is bound."""
        found = find_bindings(body)
        bound = found.names | {each.arg for each in arguments} | _OF_FUNCTIONS | {known}
        with self._inside(_Scope(kind="function", bound=bound, of_module=found.of_module)):
            self._visit_all(*body)

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        """Read what is inside of a scope in the block."""
        self._scopes.append(scope)
        yield
        self._scopes.pop()


class _UsesAtOnce(_Uses):
    """A visitor of what certainly is read when the code runs; it does not enter the bodies of functions."""

    def _visit_function(self, body: Sequence[ast.AST], arguments: Sequence[ast.arg] = (), known: str = "") -> None:
        pass

    def _visit_branches(self, *branches: Sequence[ast.AST], usual: int | None = None) -> None:
        """Visit parts of which one runs: what one of them binds may be there afterwards, so reading it is no need."""
        scope = self._find_host()
        before, after = scope.bound, set(scope.bound)
        for branch in branches:
            scope.bound = set(before)
            self._visit_all(*branch)
            after |= scope.bound
        scope.bound = after


def _list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Return the arguments of a function, of all kinds."""
    several = [*filter(None, [arguments.vararg, arguments.kwarg])]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]


def _ends_with_error(branch: Sequence[ast.AST]) -> bool:
    """Return whether a part of the code ends with `raise`."""
    last = branch[-1] if branch else None
    if isinstance(last, ast.ExceptHandler):
        last = last.body[-1]
    return isinstance(last, ast.Raise)
