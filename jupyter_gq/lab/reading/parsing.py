"""The syntax trees of cells, as IPython would run them, and a bounded memory of the last ones.

Rules
-----
- Python first: a cell without magics is read by Python alone. IPython's own transformer reads the others; it goes
  through the whole cell once more for each magic that hides other lines from Python.
- Once: the questions of one request, and of the next ones, share the tree of a cell and the list of its nodes.
- Bounded: a cell that is too large, or whose magics or f-strings need too much work, is not read.

See docs/decisions/0167-read-each-cell-once-and-no-cell-for-long.md and
docs/decisions/0348-count-what-is-read-before-a-cell-is-read.md.
"""

import ast
import re
import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from .work_limit import TooMuchWork, check_fields

#: Largest source that is read, in characters. A larger one holds data, and reading it takes seconds.
MOST_CHARACTERS = 1024 * 1024
#: Most work of IPython's transformer for one cell, in words and signs: about three seconds. It reads most cells twice.
_MOST_TRANSFORMED = 750_000
#: Most characters of all sources whose trees are kept. A tree takes up to a hundred bytes for each.
_MOST_KEPT = 512 * 1024
#: Longest part of a line that is shown in a message.
LONGEST_SHOWN = 60
#: Most levels of a syntax tree: visitors take up to four recursions for each, and Python allows a thousand.
_DEEPEST = 100
#: Beginnings that Python can read, but not as IPython does: an indented first line, and a copied prompt.
_READ_OTHERWISE = re.compile(r"(?:[ \t\f]*\r?\n)*(?:[ \t\f]|(?:.*\n)?In \[\d+\]: )")
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
#: Fields of nodes without anything below them, such as names, numbers, contexts and operators.
_PLAIN = frozenset({"id", "attr", "arg", "asname", "module", "level", "kind", "ctx", "op", "ops", "type_comment"})
#: The most frequent nodes with nothing below them but contexts.
_LEAVES = frozenset({ast.Name, ast.Constant, ast.alias})
#: Fields of each kind of node that may hold nodes with something below them.
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _PLAIN) if kind not in _LEAVES else ()
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
#: The same fields in reverse order, and the kinds of nodes that have fields at all.
_LAST_FIRST = {kind: names[::-1] for kind, names in _FIELDS.items()}
_WITH_FIELDS = frozenset(kind for kind in _FIELDS if kind._fields)
#: Nodes below a module. Without the module itself, which would then keep itself.
_BELOW: WeakKeyDictionary[ast.AST, list[ast.AST]] = WeakKeyDictionary()
#: Held while the warnings of the process are silenced, which is not safe in two threads at once.
_SILENCE = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntaxFault:
    """A syntax error in the source of a cell."""

    message: str
    #: Number of the line in the cell, from 1; None if unknown.
    line: int | None
    #: Text of that line.
    text: str

    @property
    def sentence(self) -> str:
        """The error and its place, for the dialog."""
        where = f" in line {self.line}" if self.line else ""
        shown = self.text.strip()
        shown = shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 1] + "…"
        return f"{self.message}{where}" + (f": {shown}" if shown else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCell:
    """The syntax of a cell, as far as it is known. What is too deep for this process has neither tree nor fault."""

    #: Not too deep for visitors. Shared, so it must not be changed.
    tree: ast.Module | None = None
    fault: SyntaxFault | None = None
    #: Whether the cell was too large to be read, or needed too much work.
    unread: bool = False


class ParsedCells:
    """The cells that were parsed last, by their sources. Threads may share it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ParsedCell] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, source: str) -> ParsedCell:
        """Return a cell as `parse` does; parse it unless that was done a moment ago."""
        with self._lock:
            found = self._kept.get(source)
            if found is not None:
                self._kept.move_to_end(source)
                return found
        parsed = parse(source)
        with self._lock:
            if source not in self._kept:
                self._kept[source] = parsed
                self._size += len(source)
            # The last one stays, however large it is: the next question of the same request is about it as well.
            while self._size > _MOST_KEPT and len(self._kept) > 1:
                oldest, _ = self._kept.popitem(last=False)
                self._size -= len(oldest)
        return parsed


def parse(source: str) -> ParsedCell:
    """Return a cell as it was parsed; problems of the source are in the result and raise no error.

    The result has a tree, in which names and literals replace what is too deep; or the fault of a syntax error; or it
    is unread, since the cell is too large or needs too much work; or none of these, for too deep a cell.
    """
    if len(source) > MOST_CHARACTERS:
        return ParsedCell(unread=True)
    try:
        return ParsedCell(tree=limit_depth(_parse(source)))
    except (SyntaxError, ValueError) as error:
        return ParsedCell(fault=_make_fault(error, source))
    except (RecursionError, MemoryError):
        return ParsedCell()
    except TooMuchWork:
        return ParsedCell(unread=True)


def compile_quietly(source: str | bytes) -> ast.Module:
    """Return the syntax tree of Python source; raise what `compile` raises, or `TooMuchWork`. Warnings are silenced.

    A warning, such as that of an invalid escape, does not prevent a run.
    """
    check_fields(source)
    with _SILENCE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = compile(source, "<cell>", "exec", _FLAGS)
    assert isinstance(tree, ast.Module)
    return tree


def list_children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, in order.

    Nodes without fields, such as contexts, operators and `pass`, are left out: they are half of all nodes, and say
    nothing by themselves.
    """
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [each for each in value if type(each) in _WITH_FIELDS]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


def list_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all nodes below it, each before those below it; see `list_children`.

    Each question about a cell goes through its nodes, so those of a module are kept as long as the module is.
    """
    below = _BELOW.get(tree)
    if below is None:
        below = _list_below(tree)
        if isinstance(tree, ast.Module):
            _BELOW[tree] = below
    return [tree, *below]


def _list_below(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes below a node, each before those below it.

    This is `list_children` again and again, written out: the first plan goes through some hundred thousand nodes here.
    """
    below: list[ast.AST] = []
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        below.append(node)
        for name in _LAST_FIRST[type(node)]:
            value = getattr(node, name, None)
            if type(value) is list:
                ahead += [each for each in value[::-1] if type(each) in _WITH_FIELDS]
            elif isinstance(value, ast.AST) and value._fields:
                ahead.append(value)
    return below[1:]


def limit_depth(tree: ast.Module) -> ast.Module:
    """Replace what is too deep in a syntax tree for visitors by a tuple of the names and literals in it; return it.

    Each link of `a + b + ...` or `elif` is one level deeper than the one before, and each link of `a.b().c()...` two.
    """
    if not _is_too_deep(tree):
        return tree
    _BELOW.pop(tree, None)
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = [_replace(each, depth) if isinstance(each, ast.AST) else each for each in value]
                waiting += [(each, depth + 1) for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                kept = _replace(value, depth)
                setattr(node, name, kept)
                waiting.append((kept, depth + 1))
    return tree


def _is_too_deep(tree: ast.Module) -> bool:
    """Return whether a node is below more than `_DEEPEST` others; this is quicker than to look for what to replace."""
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST + 1):
        if not level:
            return False
        level = [below for node in level for below in list_children(node)]
    return bool(level)


def _replace(node: ast.AST, depth: int) -> ast.AST:
    """Return a node, or what stands for it if it is too deep."""
    if depth < _DEEPEST or isinstance(node, ast.Name | ast.Constant) or not isinstance(node, ast.expr | ast.stmt):
        return node
    leaves = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Constant)]
    names = ast.copy_location(ast.Tuple(elts=list[ast.expr](leaves), ctx=ast.Load()), node)
    return names if isinstance(node, ast.expr) else ast.copy_location(ast.Expr(value=names), node)


def _parse(source: str) -> ast.Module:
    """Return the syntax tree of what IPython makes of a source.

    Raises `SyntaxError` or `ValueError` if the source is faulty, and `TooMuchWork` if it needs too much work.
    """
    if not _READ_OTHERWISE.match(source):
        try:
            return compile_quietly(source)
        except (SyntaxError, ValueError):
            pass  # perhaps it has magics
    from .ipython_cells import read_automagic, transform

    code = transform(source, _MOST_TRANSFORMED)
    try:
        return compile_quietly(code)
    except SyntaxError:
        magic = read_automagic(code)
        if magic is None:
            raise
    return compile_quietly(magic)


def _make_fault(error: SyntaxError | ValueError, source: str) -> SyntaxFault:
    """Return the fault of a syntax error, with the line of the cell if it is known."""
    line = getattr(error, "lineno", None)
    lines = source.splitlines()
    if line is not None and not 1 <= line <= len(lines):
        line = None
    message = getattr(error, "msg", None) or str(error)
    return SyntaxFault(message=message, line=line, text=lines[line - 1] if line else "")
