"""The scripts that cells run by `%run`, read while a request is answered.

Rules
-----
- A script is read like the code of its cell: Python, the cells of a notebook, or a file of IPython.
- Found as `%run` finds it: relative to the working folder of the kernel, also without `.py`, or as a module after `-m`.
- Bounded: at most `_MOST_SCRIPTS` scripts for one request, none of them larger than a cell that is read.
- A script that a script runs is not read, so that scripts may run each other.

See docs/decisions/0297-read-the-script-of-run-as-a-part-of-its-cell.md.
"""

import ast
import getopt
import json
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from .parsing import MOST_CHARACTERS, parse

#: Most scripts that are read for one request.
_MOST_SCRIPTS = 20
#: Options of `%run`, as IPython knows them.
_OPTIONS = "nidtN:b:pD:l:rs:T:em:G"


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a cell runs."""

    #: As the cell names it, with its ending.
    path: str
    #: Syntax trees of its code, in order, in which nothing runs other scripts.
    trees: tuple[ast.Module, ...]
    #: Whether it sees the variables of the notebook.
    shares_names: bool


@dataclass(slots=True)
class _Folder:
    """The working folder of a kernel, and the scripts in it that were read."""

    place: Path
    read: dict[str, tuple[ast.Module, ...]] = field(default_factory=dict)

    def get(self, path: str) -> tuple[ast.Module, ...] | None:
        """Return the syntax trees of the script at a path; None if it cannot be read."""
        if path not in self.read:
            text = _read_file(self.place / os.path.expanduser(path)) if len(self.read) < _MOST_SCRIPTS else None
            if text is None:
                return None
            parsed = (parse(source).tree for source in _list_sources(path, text))
            self.read[path] = tuple(_without_runs(tree) for tree in parsed if tree is not None)
        return self.read[path]


_FOLDER: ContextVar[_Folder | None] = ContextVar("folder of scripts", default=None)


@contextmanager
def reading_scripts(folder: Path) -> Iterator[None]:
    """Let `find_script` read scripts of this working folder in the block, also in threads that it waits for."""
    before = _FOLDER.set(_Folder(folder))
    try:
        yield
    finally:
        _FOLDER.reset(before)


def find_script(line: str) -> Script | None:
    """Return the script that `%run` with this text runs; None if not found, or outside of `reading_scripts`."""
    folder = _FOLDER.get()
    try:
        options, rest = getopt.getopt(shlex.split(line), _OPTIONS)
    except (ValueError, getopt.GetoptError):
        return None
    given = dict(options)
    module = given.get("-m", "").replace(".", "/")
    paths = (
        [f"{module}.py", f"{module}/__main__.py"] if module else [path for each in rest[:1] for path in _spell(each)]
    )
    for path in paths if folder is not None else ():
        trees = folder.get(path) if folder is not None else None
        if trees is not None:
            return Script(path, trees, shares_names="-i" in given)
    return None


def _spell(name: str) -> list[str]:
    return [name] if name.endswith((".py", ".ipy", ".ipynb")) else [name, f"{name}.py"]


def _read_file(path: Path) -> str | None:
    """Return the text of a regular file that is small enough to be read; None for any other."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_CHARACTERS:
            return None
        return path.read_bytes()[:MOST_CHARACTERS].decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def _list_sources(path: str, text: str) -> list[str]:
    """Return the code of a script, as one source, or as one for each code cell of a notebook."""
    if not path.endswith(".ipynb"):
        return [text]
    try:
        cells = json.loads(text)["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return ["".join(map(str, source)) if isinstance(source, list) else str(source) for source in code]


def _without_runs(tree: ast.Module) -> ast.Module:
    """Return a syntax tree, which nothing else uses, without the names of the scripts that it runs itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == "run":
                node.args[1:] = []
    return tree
