"""The uses of names in syntax trees, in the order in which Python evaluates them. For Python only.

Rules
-----
- Scopes are those of Python: methods do not see the names of their class, and a comprehension keeps its own.
- Paths: a name is bound if some path through the code leaves it bound, and needed if some path reads it before it binds
  it; see `name_flow`. A `with` may swallow an error, so a deletion in it is not certain, unless its block begins with
  the deletion. What it binds is, unless the name of its context manager says that it swallows errors.
- Functions: nobody knows when a function runs, so its `global` names may be bound at any time, and it deletes nothing.
- Scripts: what the script of `%run` makes is made. Names that a script reads or deletes are those of the notebook with
  `-i`, or for `.ipy` files and notebooks.
- Magics: the code in `%%time`, `%timeit` and their like counts, and what IPython puts into other lines.

See docs/decisions/0194-read-magics-in-one-place-and-let-names-lack.md and
docs/decisions/0473-follow-names-on-all-paths.md.
"""

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from .bindings import Comprehension, Function, find_bindings, list_arguments, list_bound_names
from .lookups import find_names_in_text
from .magics import read_magic
from .name_flow import BINDS, BOUND, DELETES, IMPORTS, LEAVES, Name, Part, find_effect, join
from .scripts import Script
from .swallowing import catches_missing, swallows

#: Names that Python itself binds in each script.
_OF_SCRIPTS = frozenset({"__name__", "__file__", "__builtins__"})
#: Names that Python itself binds in each function of a class, and in each body of a class.
_OF_FUNCTIONS, _OF_CLASSES = frozenset({"__class__"}), frozenset({"__module__", "__qualname__"})
#: The number of the module's scope.
_MODULE = 0


@dataclass(kw_only=True, slots=True)
class _Scope:
    """A scope around the part of the code that is read."""

    kind: Literal["module", "class", "function", "comprehension"]
    number: int = _MODULE
    #: Names that are bound here from the beginning: for a function or comprehension all that it binds.
    bound: set[str] = field(default_factory=set)
    #: Names declared `global` here.
    of_module: set[str] = field(default_factory=set)
    #: Name of a class of the module, which its methods know: they run later.
    own: str = ""


class Uses(ast.NodeVisitor):
    """A visitor that follows the order of evaluation and keeps which names were made, and which were needed."""

    def __init__(self) -> None:
        #: Names that were read before they were certainly bound; the code may run without the optional ones.
        self.needed: set[str] = set()
        self.optional: set[str] = set()
        #: Names of the module that functions bind, whenever they are called.
        self._by_functions: set[str] = set()
        #: Names of the module that were bound or imported anywhere, in the order in which that was seen first.
        self._bound: dict[str, None] = {}
        self._imported: set[str] = set()
        self._scopes = [_Scope(kind="module")]
        self._numbers = count(_MODULE + 1)
        #: The parts of the code that are being read, each in the one before.
        self._parts = [Part()]

    @property
    def part(self) -> Part:
        """The innermost part of the code that is being read."""
        return self._parts[-1]

    def list_made(self) -> list[str]:
        """Return the names that are bound on some path, in the order in which they were first bound."""
        return [name for name in self._bound if name in self._by_functions or self._find_effect(name) & BOUND]

    def find_imported(self) -> set[str]:
        """Return the names of the module that were imported and not certainly assigned anew."""
        return {name for name in self._imported if self._find_effect(name) != BINDS}

    def find_certain(self) -> set[str]:
        """Return the names of the module that are certainly bound so far."""
        return {name for name in self._bound if not self._find_effect(name) & ~BOUND}

    def find_deleted(self) -> set[str]:
        """Return the names of the module that are certainly deleted so far, and not bound again."""
        return {name for scope, name in self.part.passed if scope == _MODULE and self._find_effect(name) == DELETES}

    def _find_effect(self, name: str, scope: int = _MODULE) -> int:
        """Return what the code up to here does to a name of the module or of a class."""
        return find_effect(reversed(self._parts), (scope, name))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._note_read(node.id, self.needed)
        if not isinstance(node.ctx, ast.Load):
            self._note(node.id, DELETES if isinstance(node.ctx, ast.Del) else BINDS)

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
        for name in magic.outputs:
            self._note(name)

    def _visit_script(self, script: Script) -> None:
        """Note what a script does to names; what it reads or deletes counts only if it sees those of the notebook."""
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
        for (scope, name), effect in inner.part.effects.items():
            if scope == _MODULE and name not in _OF_SCRIPTS:
                is_kept = effect & DELETES and not script.shares_names
                self._note(name, effect & ~DELETES | LEAVES if is_kept else effect, self._scopes[0])
        for name in inner.list_made():
            self._bound.setdefault(name)
        self._by_functions |= inner._by_functions
        self._imported |= inner.find_imported()

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
        self._note(node.target.id, scope=self._find_host())

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_loop([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_loop([*node.body, node.test], node.orelse)

    def _visit_loop(self, body: Sequence[ast.AST], orelse: Sequence[ast.AST]) -> None:
        """Visit what runs any number of times, and then what runs unless a `break` has ended that."""
        with self._in_part() as loop:
            self._visit_all(*body)
        if loop.jumps:
            loop.doubt()
        self.part.add(join([replace(loop, ends=loop.ends or loop.jumps, jumps=False), Part()]))
        if loop.jumps:
            self._visit_branches(orelse, [])
        else:
            self._visit_all(*orelse)

    def visit_Raise(self, node: ast.Raise | ast.Return) -> None:
        self.generic_visit(node)
        self.part.ends = False

    visit_Return = visit_Raise

    def visit_Break(self, node: ast.Break | ast.Continue) -> None:
        self.part.ends, self.part.jumps = False, True

    visit_Continue = visit_Break

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            failing = replace(self._read_part(node.msg), ends=False)
            self.part.add(join([Part(), failing]))

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_branches(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._visit_branches([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._visit_branches(node.values[1:], [])

    def visit_Compare(self, node: ast.Compare) -> None:
        self._visit_all(node.left, node.comparators[0])
        self._visit_branches(node.comparators[1:], [])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        usual = self._read_tried(node)
        failing = usual.interrupt()
        with self._in_part(usual):
            self._visit_all(*node.orelse)
        with self._in_part(failing):
            handled = []
            for handler in node.handlers:
                handled.append(self._read_part(handler))
                if isinstance(node, ast.TryStar):  # the next handler may run as well
                    failing.add(handled[-1].interrupt())
        failing.add(join(handled) if handled else Part(ends=False))
        self.part.add(join([usual, failing]))
        self._visit_all(*node.finalbody)

    visit_TryStar = visit_Try

    def _read_tried(self, node: ast.Try | ast.TryStar) -> Part:
        """Visit the statements whose errors the handlers of a `try` catch; return the part behind a deletion."""
        return self._read_part(*self._visit_deletion(node.body))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._visit_all(*filter(None, [node.type]))
        if node.name is None:
            self._visit_all(*node.body)
            return
        self._note(node.name)
        self._visit_all(*node.body)
        self._note(node.name, DELETES)
        name = self._find_name(node.name, self._scopes[-1])
        if name is not None:
            self.part.passed[name] = DELETES  # Python deletes it wherever the handler ends

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        swallowing = [place for place, item in enumerate(node.items, 1) if swallows(item.context_expr)]
        outer = swallowing[0] if swallowing else len(node.items)
        self._visit_all(*node.items[:outer])
        body = self._visit_deletion(node.body) if outer == len(node.items) else node.body
        with self._in_part() as inner:
            self._visit_all(*node.items[outer:], *body)
        inner.doubt(BOUND | DELETES if swallowing else DELETES)
        self.part.add(replace(inner, ends=True))  # also after an error

    visit_AsyncWith = visit_With

    def _visit_deletion(self, body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
        """Visit the deletion of one name with which statements begin; return the other statements.

        The deletion is certain although an error may be caught: if it fails, there is no such name either.
        """
        match body[0]:
            case ast.Delete(targets=[ast.Name()]):
                self.visit(body[0])
                return body[1:]
        return body

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        cases = []
        with self._in_part() as guards:
            for case in node.cases:
                cases.append(self._read_part(*filter(None, [case.pattern, case.guard]), *case.body))
                if case.guard is not None:  # the next case may run with what the pattern has bound
                    guards.add(join([self._read_part(case.pattern, case.guard), Part()]))
        last = node.cases[-1]
        is_complete = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        guards.add(join([*cases, *([] if is_complete else [Part()])]))
        self.part.add(guards)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        for name in list_bound_names(node):
            self._note(name)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in list_bound_names(node):
            self._note(name, IMPORTS)

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: Function) -> None:
        arguments = list_arguments(node.args)
        self._visit_all(*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))
        with self._inside_parameters(node):
            self._visit_annotations(node.returns, *(each.annotation for each in arguments))
        self._note(node.name)
        own = self._scopes[-1].own
        with self._inside_parameters(node):
            self._visit_function(node.body, arguments, own)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._visit_function([node.body], list_arguments(node.args))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.decorator_list)
        of_module = find_bindings(node.body).of_module
        own = node.name if self._scopes[-1].kind == "module" else ""
        scope = _Scope(kind="class", number=next(self._numbers), bound=set(_OF_CLASSES), of_module=of_module, own=own)
        with self._inside_parameters(node):
            self._visit_all(*node.bases, *node.keywords)
            with self._inside(scope):
                self._visit_all(*node.body)
        self._note(node.name)

    def visit_TypeAlias(self, node: ast.stmt) -> None:
        name, *_, value = ast.iter_child_nodes(node)
        with self._inside_parameters(node):
            self._visit_annotations(value)
        self.visit(name)

    def visit_ListComp(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        bound = find_bindings(generator.target for generator in node.generators).names
        inner = [first.target, *first.ifs]
        inner += [part for each in others for part in (each.iter, each.target, *each.ifs)]
        inner += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        with self._inside(_Scope(kind="comprehension", bound=bound)):
            self._visit_branches(inner, [])

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def _note_read(self, name: str, found: set[str]) -> None:
        """Add a name that is read to `found` unless a scope around the place has certainly bound it."""
        inner = self._scopes[-1]
        for scope in reversed(self._scopes):
            if name in scope.of_module:
                break
            is_bound = name in scope.bound or (scope.kind == "class" and not self._lacks(name, scope.number))
            if is_bound and (scope.kind != "class" or scope is inner):
                return
        if self._lacks(name):
            found.add(name)

    def _lacks(self, name: str, scope: int = _MODULE) -> bool:
        """Return whether a name of the module or of a class counts as missing where it is read."""
        return bool(self._find_effect(name, scope) & ~BOUND)

    def _note(self, name: str, effect: int = BINDS, scope: _Scope | None = None) -> None:
        """Note an effect on a name of a scope, the innermost one unless it is given."""
        found = self._find_name(name, scope or self._scopes[-1])
        if found is None:
            return
        self.part.note(found, effect)
        if found[0] != _MODULE or not effect & BOUND:
            return
        self._bound.setdefault(name)
        if effect & IMPORTS:
            self._imported.add(name)
        if any(each.kind == "function" for each in self._scopes):
            self._by_functions.add(name)

    def _find_name(self, name: str, scope: _Scope) -> Name | None:
        """Return the name that a scope binds, with the number of its scope; None for a local name of a function."""
        if scope.kind == "module" or name in scope.of_module:
            return _MODULE, name
        return (scope.number, name) if scope.kind == "class" else None

    def _find_host(self) -> _Scope:
        """Return the innermost scope that is no comprehension: what `:=` binds belongs there."""
        return next(scope for scope in reversed(self._scopes) if scope.kind != "comprehension")

    def _visit_all(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_branches(self, *branches: Sequence[ast.AST]) -> None:
        """Visit parts of which one runs."""
        parts = []
        for branch in branches:
            with self._in_part() as part:
                self._visit_all(*branch)
            parts.append(part)
        self.part.add(join(parts))

    def _read_part(self, *nodes: ast.AST) -> Part:
        """Visit a part of the code, which does not count before it is added to another one, and return it."""
        with self._in_part() as part:
            self._visit_all(*nodes)
        return part

    @contextmanager
    def _in_part(self, part: Part | None = None) -> Iterator[Part]:
        """Read in the block a part of the code, a new one unless one is given."""
        self._parts.append(part or Part())
        yield self._parts[-1]
        self._parts.pop()

    def _visit_annotations(self, *annotations: ast.AST | None) -> None:
        """Visit annotations; what they read is optional."""
        needed, self.needed = self.needed, self.optional
        self._visit_all(*filter(None, annotations))
        self.needed = needed

    def _visit_function(self, body: Sequence[ast.AST], arguments: Sequence[ast.arg] = (), known: str = "") -> None:
        """Visit the inside of a function, in which also the name `known` is bound."""
        found = find_bindings(body)
        bound = found.names | {each.arg for each in arguments} | _OF_FUNCTIONS | {known}
        scope = _Scope(kind="function", bound=bound, of_module=found.of_module)
        with self._inside(scope), self._in_part():  # nobody knows when it runs
            self._visit_all(*body)

    @contextmanager
    def _inside_parameters(self, node: ast.stmt) -> Iterator[None]:
        """Read in the block what sees the type parameters of a definition, which Python has from 3.12 on."""
        parameters = getattr(node, "type_params", [])
        if not parameters:
            yield
            return
        with self._inside(_Scope(kind="comprehension", bound={each.name for each in parameters})):
            self._visit_annotations(*parameters)
            yield

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        """Read what is inside of a scope in the block."""
        self._scopes.append(scope)
        yield
        self._scopes.pop()


class UsesAtOnce(Uses):
    """A visitor of what certainly is read when the code runs; it does not enter the bodies of functions.

    What is read where a `NameError` is caught is no need.
    """

    #: Names that the statements of a `try` around the place have read before, so that its `else` has them.
    _present: frozenset[str] = frozenset()

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        before = self._present
        super().visit_Try(node)
        self._present = before

    visit_TryStar = visit_Try

    def _read_tried(self, node: ast.Try | ast.TryStar) -> Part:
        with self._catching(any(each.type is None or catches_missing(each.type) for each in node.handlers)):
            tried = super()._read_tried(node)
            self._present |= self.needed
        return tried

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        managers = [item.context_expr for item in node.items]
        with self._catching(any(swallows(each) and catches_missing(each) for each in managers)):
            super().visit_With(node)

    visit_AsyncWith = visit_With

    @contextmanager
    def _catching(self, is_caught: bool) -> Iterator[None]:
        """Read in the block code whose reads are no need if `is_caught`: a missing name is caught there."""
        before, self.needed = self.needed, set()
        yield
        if not is_caught:
            before |= self.needed
        self.needed = before

    def _visit_function(self, body: Sequence[ast.AST], arguments: Sequence[ast.arg] = (), known: str = "") -> None:
        self._by_functions |= find_bindings(body).of_module

    def _lacks(self, name: str, scope: int = _MODULE) -> bool:
        """Return whether a name is certainly missing: reading one that a branch or function binds is no need."""
        known = name in self._by_functions or name in self._present
        return not known and not self._find_effect(name, scope) & BOUND
