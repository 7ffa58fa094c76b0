"""The names that a part of a syntax tree binds in its own scope."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .parsing import list_children

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_BRANCHING = ast.stmt | ast.ExceptHandler | ast.match_case


@dataclass(kw_only=True, slots=True)
class Bindings:
    """The names that code binds, without those of the functions, classes and comprehensions in it."""

    names: set[str] = field(default_factory=set)
    #: Names declared `global`.
    of_module: set[str] = field(default_factory=set)


def find_bindings(nodes: Iterable[ast.AST]) -> Bindings:
    """Return the names that these parts of one scope bind."""
    found = Bindings()
    outside: set[str] = set()
    ahead = list(nodes)
    while ahead:
        node = ahead.pop()
        found.names |= list_bound_names(node)
        if isinstance(node, ast.Global):
            found.of_module |= set(node.names)
        elif isinstance(node, ast.Nonlocal):
            outside |= set(node.names)
        ahead += _list_same_scope(node)
    found.names -= found.of_module | outside
    return found


def list_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield these statements and those of their branches and loops, in order; not those of functions and classes.

    The expressions and `with` items directly below a statement are yielded too.
    """
    ahead = list(body)[::-1]
    while ahead:
        node = ahead.pop()
        yield node
        if isinstance(node, _BRANCHING) and not isinstance(node, Function | ast.ClassDef):
            ahead += reversed(list_children(node))


def find_functions(body: Iterable[ast.AST]) -> dict[str, Function]:
    """Return the last function of each name that these statements define in their own scope: no method, for example."""
    return {node.name: node for node in list_statements(body) if isinstance(node, Function)}


def list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Return the arguments of a function, of all kinds."""
    several = [*filter(None, [arguments.vararg, arguments.kwarg])]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]


def list_bound_names(node: ast.AST) -> set[str]:
    """Return the names that a node binds itself, without those that the nodes below it bind."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


def _list_same_scope(node: ast.AST) -> list[ast.AST]:
    """Return the nodes below a node that may bind names in the same scope."""
    if isinstance(node, Function):
        return [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.Lambda):
        return [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, Comprehension):
        return _list_walruses(node)
    return list_children(node)


def _list_walruses(node: Comprehension) -> list[ast.AST]:
    """Return the targets of `:=` in a comprehension, which bind outside of it."""
    found: list[ast.AST] = []
    ahead: list[ast.AST] = [node]
    while ahead:
        each = ahead.pop()
        if isinstance(each, ast.NamedExpr):
            found.append(each.target)
        if not isinstance(each, ast.Lambda):
            ahead += list_children(each)
    return found
