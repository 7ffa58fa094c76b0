"""Cells that send jobs, made fit to run first in a job, which cannot send jobs itself. For Python only.

Rules
-----
- Left out is a statement at the top level of a cell that sends a job or asks for one, also through a function of a cell
  before, and a statement that reads a name which only such a statement has assigned.
- A `%%train` cell sends itself, and with `--wait` it assigns what `--returns` names.
- All other statements of the cell stay: its imports, functions and data.
- Below an `if` that asks `jupyter_gq.in_job`, a cell may send: its author has thought of the job.
"""

import ast
from collections.abc import Sequence
from itertools import pairwise

from jupyter_gq.domain.plain_text import split_options
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.magics import Magic, read_magic
from jupyter_gq.lab.reading.names import find_free_names, find_makers
from jupyter_gq.lab.reading.parsing import list_children, list_nodes

_PACKAGE = "jupyter_gq"
_SENDS = frozenset(f"{_PACKAGE}.{name}" for name in ("submit", "sweep", "job", "find_sweep"))
_TRAIN = "train"
#: Parts of which each cell has one that runs a script, which may send jobs.
_RUN = ("run ", "exec(", "run_path(")
#: What a cell is in the job in place of the statements that are left out.
LEFT_OUT = "# What sends jobs, or needs such a job, is left out: a job cannot send jobs."


def leave_out_senders(sources: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the sources of these cells without what sends jobs, and the names that are not defined for that reason.

    A source of which nothing is left out is returned as it is.
    """
    if not any(word in source for source in sources for word in (_PACKAGE, _TRAIN, *_RUN)):
        return list(sources), set()
    reader = _Reader()
    return [reader.read_cell(source) for source in sources], reader.lost


class _Reader:
    """The names that cells have given so far to what sends jobs, and the names that are lost."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self._full_names = {_PACKAGE: _PACKAGE}
        self._senders = set(_SENDS)

    def read_cell(self, source: str) -> str:
        """Return the source of the next cell without what sends jobs."""
        tree = parse_cell(source)
        if tree is None:
            return source
        kept = [statement for statement in tree.body if not self._is_left_out(statement)]
        if len(kept) == len(tree.body):
            return source
        return "\n".join([*map(ast.unparse, kept), LEFT_OUT])

    def _is_left_out(self, statement: ast.stmt) -> bool:
        """Return whether a statement is left out, and note what it does to names."""
        self._read_imports(statement)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(self._sends(inner) for inner in statement.body):
                self._senders.add(statement.name)
            self.lost.discard(statement.name)
            return False
        sends = self._sends(statement)
        if not sends and not self.lost:
            return False
        source = ast.unparse(statement)
        made = {*find_makers([source]), *_find_returned(statement)}
        if sends or not self.lost.isdisjoint(find_free_names([source])):
            self.lost |= made
            return True
        self.lost -= made
        return False

    def _read_imports(self, code: ast.AST) -> None:
        """Note the names under which code imports the package or its functions."""
        for node in list_nodes(code):
            if isinstance(node, ast.Import):
                self._full_names |= {a.asname: a.name for a in node.names if a.asname and a.name == _PACKAGE}
            elif isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
                self._full_names |= {a.asname or a.name: f"{_PACKAGE}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Call) and (magic := read_magic(node)) is not None:
                for tree in magic.trees:
                    self._read_imports(tree)

    def _sends(self, node: ast.AST) -> bool:
        """Return whether a part of a cell sends a job, or asks for one, when it runs."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(node, ast.If) and any(
            self._spell(each) == f"{_PACKAGE}.in_job" for each in list_nodes(node.test)
        ):
            return False
        if isinstance(node, ast.Call) and self._spell(node.func) in self._senders:
            return True
        magic = read_magic(node) if isinstance(node, ast.Call) else None
        if magic is not None and magic.name == _TRAIN:
            return True
        codes = magic.trees if magic is not None else []
        return any(self._sends(child) for child in [*list_children(node), *codes])

    def _spell(self, node: ast.AST) -> str:
        """Return the full name of an expression such as `gq.submit`; empty for any other expression."""
        if isinstance(node, ast.Name):
            return self._full_names.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return f"{self._spell(node.value)}.{node.attr}"
        return ""


def brings_back(source: str) -> bool:
    """Return whether a cell sends itself by `%%train`, and assigns in the notebook what its job returns."""
    tree = parse_cell(source)
    return tree is not None and any(_find_returned(statement) for statement in tree.body)


def _find_returned(statement: ast.stmt) -> set[str]:
    """Return the names that a `%%train` cell assigns, if the statement is one that waits for its job."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return set()
    magic = read_magic(statement.value)
    return _read_returns(magic) if magic is not None and magic.name == _TRAIN else set()


def _read_returns(magic: Magic) -> set[str]:
    try:
        words = split_options(magic.line)
    except ValueError:
        return set()  # the cell has failed
    if "--wait" not in words:
        return set()
    values = [after for word, after in pairwise(words) if word == "--returns"]
    values += [word.removeprefix("--returns=") for word in words if word.startswith("--returns=")]
    return {name for value in values for name in map(str.strip, value.split(",")) if name}
