"""The scripts that cells run, read while a request is answered.

Rules
-----
- Run in the kernel: by `%run`, `exec(open("x.py").read())` and `runpy.run_path("x.py")`.
- Run in a process of their own: by a command such as `!python x.py` or `!torchrun x.py`.
- A script is read like the code of its cell: Python, the cells of a notebook, or a file of IPython.
- Found relative to the working folder of the kernel; for `%run` also without `.py`, or as a module after `-m`.
- Bounded: at most `_MOST_SCRIPTS` scripts for one request, all together no larger than a cell that is read. A script
  that many calls run has no code for those after the first ones, so that a thousand runs cost little more than one.
- A script that a script runs, by itself or in `%%time` and the like, is not read, so that scripts may run each other.

See docs/decisions/0297-read-the-script-of-run-as-a-part-of-its-cell.md and
docs/decisions/0305-read-the-scripts-of-commands-and-of-exec.md.
"""

import ast
import getopt
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from weakref import WeakSet

from .call_parts import get_last_name
from .full_names import read_text
from .parsing import MOST_CHARACTERS, parse

#: Most scripts that are read for one request.
_MOST_SCRIPTS = 20
#: Bytes of a script that are read for all calls that run it, unless the first one has more.
_MOST_REPEATED = 50_000
#: Options of `%run`, as IPython knows them.
_OPTIONS = "nidtN:b:pD:l:rs:T:em:G"
#: Longest line of `%run` that is read. Splitting a line takes the square of its length.
_LONGEST_LINE = 10_000
#: Files of IPython, which run in the notebook's own namespace.
_OF_IPYTHON = (".ipy", ".ipynb")
#: A text by which the code in a magic may run a script.
_RUNS = re.compile(r"\brun\b|run_(?:line|cell)_magic|\bexec\b|run_path|python|torchrun")
#: Magics with a command in place of Python.
_COMMAND_MAGICS = frozenset({"!", "bash", "script", "sh", "sx", "system", "zsh"})
#: Programs that run a script of Python which their words name.
_PROGRAMS = re.compile(r"(?:.*/)?(?:python[\d.]*|pypy\d*|ipython\d*|torchrun|deepspeed|accelerate)")
#: Last names of the calls that `find_executed_script` reads.
EXECUTES = frozenset({"exec", "run_path"})
#: Calls in scripts that run a script or a command, which is not read. Nodes of other code are not in it.
_INNER: WeakSet[ast.AST] = WeakSet()
_MAY_RUN = frozenset(
    {
        *("exec", "run_path", "run_module", "system", "popen", "run", "call", "check_call", "check_output", "Popen"),
        *("getoutput", "getstatusoutput", "create_subprocess_shell", "run_line_magic", "run_cell_magic", "spawn"),
    }
)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a cell runs."""

    #: As the cell names it, with its ending.
    path: str
    #: Syntax trees of its code, in order, in which nothing runs other scripts.
    trees: tuple[ast.Module, ...]
    #: Whether it sees the variables of the notebook.
    shares_names: bool
    #: Whether what it defines is in the notebook afterwards.
    gives_names: bool = True


@dataclass(slots=True)
class _Folder:
    """The working folder of a kernel, and the scripts in it that were read."""

    place: Path
    read: dict[str, tuple[ast.Module, ...]] = field(default_factory=dict)
    #: Bytes of further scripts that are read.
    left: int = MOST_CHARACTERS
    #: Bytes of these scripts, and the calls that run each and for which its code is read.
    sizes: dict[str, int] = field(default_factory=dict)
    users: dict[str, WeakSet[ast.Call]] = field(default_factory=dict)

    def get_for(self, path: str, call: ast.Call | None) -> tuple[ast.Module, ...] | None:
        """Return the syntax trees of the script that a call runs: () if many others do, None if it is unreadable."""
        trees = self.get(path)
        if not trees or call is None:
            return trees
        users = self.users.setdefault(path, WeakSet())
        if call not in users:
            if users and (len(users) + 1) * self.sizes[path] > _MOST_REPEATED:
                return ()
            users.add(call)
        return trees

    def get(self, path: str) -> tuple[ast.Module, ...] | None:
        """Return the syntax trees of the script at a path; None if it cannot be read."""
        if path not in self.read:
            content = _read_file(self.place, path, self.left) if len(self.read) < _MOST_SCRIPTS else None
            if content is None:
                return None
            self.left -= len(content)
            self.sizes[path] = len(content)
            text = content.decode("utf-8", errors="replace")
            parsed = (parse(source).tree for source in _list_sources(path, text))
            self.read[path] = tuple(_drop_runs(tree) for tree in parsed if tree is not None)
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


def find_script(line: str, call: ast.Call | None = None) -> Script | None:
    """Return the script that `%run` with this text runs; None if not found, or outside of `reading_scripts`.

    `call` is that of the magic: a script has no code for the last of many calls.
    """
    folder = _FOLDER.get()
    if folder is None:
        return None
    try:
        options, rest = getopt.getopt(shlex.split(line[:_LONGEST_LINE]), _OPTIONS)
    except (ValueError, getopt.GetoptError):
        return None
    given = dict(options)
    module = given.get("-m", "").replace(".", "/")
    named = [path for each in rest[:1] for path in _list_spellings(each)]
    for path in [f"{module}.py", f"{module}/__main__.py"] if module else named:
        trees = folder.get_for(path, call)
        if trees is not None:
            return Script(path, trees, shares_names="-i" in given or path.lower().endswith(_OF_IPYTHON))
    return None


def find_executed_script(call: ast.Call) -> Script | None:
    """Return the script that `exec(open("x.py").read())` or `runpy.run_path("x.py")` runs; None if none is read."""
    name, func = get_last_name(call), call.func
    if name not in EXECUTES or not call.args or is_in_script(call):
        return None
    if isinstance(func, ast.Attribute):
        if name == "run_path" and isinstance(func.value, ast.Name) and func.value.id == "runpy":
            return _make_script(_read_literal(call.args[0]), call, shares_names=False, gives_names=False)
        return None
    if name == "run_path":
        return _make_script(_read_literal(call.args[0]), call, shares_names=False, gives_names=False)
    here = all(isinstance(each, ast.Call) and get_last_name(each) in {"globals", "locals"} for each in call.args[1:])
    return _make_script(_find_read_file(call.args[0]), call, shares_names=here, gives_names=here)


def find_command_script(words: Sequence[str], folder: str = "") -> Script | None:
    """Return the Python script that a command runs in a process of its own; None if it runs none that can be read.

    `words` are the command's words, the program first. `folder` is where it runs, as a path from the kernel's folder.
    """
    if not words or not _PROGRAMS.fullmatch(words[0]):
        return None
    modules = [word.replace(".", "/") for option, word in pairwise(words) if option == "-m"]
    named = [path for module in modules for path in (f"{module}.py", f"{module}/__main__.py")]
    named += [word.strip("'\"") for word in words[1:] if word.strip("'\"").endswith((".py", ".ipy"))][:1]
    made = (_make_script(os.path.join(folder, path), None, shares_names=False, gives_names=False) for path in named)
    return next((script for script in made if script is not None), None)


def is_in_script(call: ast.Call) -> bool:
    """Return whether a call that may run a script is in a script itself, so that the one which it runs is not read."""
    return call in _INNER


def _make_script(path: str, call: ast.Call | None, *, shares_names: bool, gives_names: bool) -> Script | None:
    """Return the script at a path, which `call` runs; None if it cannot be read, or outside of `reading_scripts`."""
    folder = _FOLDER.get()
    trees = folder.get_for(path, call) if folder is not None and path else None
    return None if trees is None else Script(path, trees, shares_names=shares_names, gives_names=gives_names)


def _find_read_file(node: ast.expr) -> str:
    """Return the literal path of the file whose text an expression is, such as `open("x.py").read()`; otherwise ""."""
    if isinstance(node, ast.Call) and get_last_name(node) == "compile" and node.args:
        node = node.args[0]
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return ""
    return _read_literal(node.func.value) if node.func.attr in {"read", "read_text", "read_bytes"} else ""


def _read_literal(node: ast.expr) -> str:
    """Return the literal path in `"x.py"`, `open("x.py")` or `Path("x.py")`; otherwise ""."""
    named = node.args[0] if isinstance(node, ast.Call) and node.args else node
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else ""


def _list_spellings(name: str) -> list[str]:
    return [name] if name.endswith((".py", *_OF_IPYTHON)) else [name, f"{name}.py"]


def _read_file(folder: Path, path: str, most: int) -> bytes | None:
    """Return the content of a regular file of at most `most` bytes; None for any other."""
    try:
        place = folder / os.path.expanduser(path)
        found = place.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        with place.open("rb") as file:
            return file.read(most)
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


def _drop_runs(tree: ast.Module) -> ast.Module:
    """Return a syntax tree, which nothing else uses, in which nothing runs other scripts.

    Calls that may do so are noted; magics that may run a script by their code lose this code.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or get_last_name(node) not in _MAY_RUN:
            continue
        _INNER.add(node)
        texts = list(map(read_text, node.args))
        is_magic = get_last_name(node) in {"run_line_magic", "run_cell_magic"}
        if is_magic and texts[:1] != [""] and texts[0] not in _COMMAND_MAGICS and any(map(_RUNS.search, texts)):
            node.args[1:] = []
    return tree
