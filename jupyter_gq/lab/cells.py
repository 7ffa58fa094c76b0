"""Checks of a cell's source before it runs. For Python kernels only: other languages are not checked."""

import ast
import re
import sys
import warnings
from dataclasses import dataclass

#: Longest part of a line that is shown in a message.
LONGEST_SHOWN = 60
#: Most levels of a syntax tree: visitors take up to four recursions for each, and Python allows a thousand.
_DEEPEST = 100


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


def make_title(source: str) -> str:
    """Return the first line of code, or the first comment if the cell has no code, shortened."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
    return said if len(said) <= LONGEST_SHOWN else said[: LONGEST_SHOWN - 1] + "…"


def is_empty(source: str, python: bool) -> bool:
    """Return whether a cell is empty; for Python, a cell with comments only is empty too."""
    lines = [line.strip() for line in source.splitlines()]
    return all(not line or (python and line.startswith("#")) for line in lines)


def find_syntax_error(source: str) -> SyntaxFault | None:
    """Return the syntax error for which IPython could not run this source; None if there is none.

    Magics, `!` commands, `?` and top-level `await` are allowed. Source that is too deep for this process has no error:
    another one may have a larger stack.
    """
    try:
        _parse(source)
    except (SyntaxError, ValueError) as error:
        return _make_fault(error, source)
    except (RecursionError, MemoryError):
        return None
    return None


def parse_cell(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell, with magics and commands as calls; None if IPython could not run the source.

    The tree is not too deep for visitors, see `limit_depth`.
    """
    try:
        return limit_depth(_parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def limit_depth(tree: ast.Module) -> ast.Module:
    """Replace what is too deep in a syntax tree for visitors by a tuple of the names and literals in it; return it.

    Each link of a chain, such as `a + b + ...`, `a.b().c()...` or `elif`, is one level deeper than the one before.
    """
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


def _replace(node: ast.AST, depth: int) -> ast.AST:
    """Return a node, or what stands for it if it is too deep."""
    if depth < _DEEPEST or isinstance(node, ast.Name | ast.Constant) or not isinstance(node, ast.expr | ast.stmt):
        return node
    leaves = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Constant)]
    names = ast.copy_location(ast.Tuple(elts=list[ast.expr](leaves), ctx=ast.Load()), node)
    return names if isinstance(node, ast.expr) else ast.copy_location(ast.Expr(value=names), node)


def _parse(source: str) -> ast.Module:
    """Return the syntax tree of what IPython makes of a source; raise `SyntaxError` or `ValueError` if it is faulty."""
    from IPython.core.inputtransformer2 import TransformerManager

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings such as an invalid escape do not prevent a run
        code = TransformerManager().transform_cell(source)  # type: ignore[no-untyped-call]
        tree = compile(code, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    return tree


def import_parser() -> None:
    """Import the slow modules of `find_syntax_error`, so that the first request does not wait for them."""
    find_syntax_error("")


def _make_fault(error: SyntaxError | ValueError, source: str) -> SyntaxFault:
    """Return the fault of a syntax error, with the line of the cell if it is known."""
    line = getattr(error, "lineno", None)
    lines = source.splitlines()
    if line is not None and not 1 <= line <= len(lines):
        line = None
    message = getattr(error, "msg", None) or str(error)
    return SyntaxFault(message=message, line=line, text=lines[line - 1] if line else "")


def is_newer_python(version: str) -> bool:
    """Return whether this version of Python is newer than the server's; an unknown version counts as the same.

    A newer Python may have syntax that the server cannot check.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) > sys.version_info[:2]
