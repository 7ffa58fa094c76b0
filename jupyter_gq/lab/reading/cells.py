"""Checks of a cell's source before it runs. For Python kernels only: other languages are not checked."""

import ast
import re
import sys

from .parsing import LONGEST_SHOWN, ParsedCells, SyntaxFault

_PARSED = ParsedCells()


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

    Magics, `!` commands, `?` and top-level `await` are allowed. Source that is too deep or too large for this process
    has no error: another one may have a larger stack.
    """
    return _PARSED.get(source).fault


def parse_cell(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell, with magics and commands as calls; None if IPython could not run the source.

    The tree is not too deep for visitors. Callers share it, so it must not be changed.
    """
    return _PARSED.get(source).tree


def is_unread(source: str) -> bool:
    """Return whether a cell is so large, or needs so much work, that nothing is known of its code."""
    return _PARSED.get(source).unread


def import_parser() -> None:
    """Import the slow modules of `find_syntax_error`, so that the first request does not wait for them."""
    find_syntax_error("%pass")


def is_newer_python(version: str) -> bool:
    """Return whether this version of Python is newer than the server's; an unknown version counts as the same.

    A newer Python may have syntax that the server cannot check.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) > sys.version_info[:2]
