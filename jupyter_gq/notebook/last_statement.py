"""A watch over a cell in a job's kernel, which knows whether a command or magic was the last thing that ran.

Rules
-----
1. Standard library only, and no file: the runner sends this source to the kernel, which may live elsewhere.
2. Statements count, also those in branches and loops of the cell. A statement that only calls a function whose last
   statement is a command counts as that command. What any other function did counts as the statement that called it.
   Which function a name means is looked up right before the call: other code of the cell may have bound the name anew.
3. Code that a magic runs by itself, as `%%time` does, has a last statement of its own. If that is no command and no
   magic, the magic was the last thing.
4. Code without commands and magics runs as it is, unless it calls such a function, and so does a loop or branch without
   one.

See docs/decisions/0295-judge-the-end-of-a-job-by-what-ran-last.md and
docs/decisions/0306-count-the-command-at-the-end-of-a-function.md.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

#: Attribute of the kernel's shell that holds the watch.
ATTRIBUTE = "_jupyter_gq_last"
#: Magics that run a command and leave its status as `!` does.
_COMMAND_MAGICS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
#: Magics that only show an earlier error once more.
_QUIET_MAGICS = frozenset({"tb"})
#: Longest text of a command that is told.
_LONGEST = 1000
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Statements and expressions by which a function may end before its last statement, or run later than it is called.
_ENDS_EARLY = (ast.Return, ast.Yield, ast.YieldFrom)
#: Statements after which what ran before is still the last thing.
_STEPS = (ast.Pass, ast.Break, ast.Continue)


class Shell(Protocol):
    """The part of IPython's shell that the watch needs."""

    ast_transformers: list[object]
    user_ns: Mapping[str, object]
    #: Called for each error that is shown, also by a magic that goes on afterwards.
    showtraceback: Callable[..., object]
    #: Called in its place for code that is no Python.
    showsyntaxerror: Callable[..., object]


def watch(shell: Shell) -> None:
    """Note from now on what runs last in the cells of this shell."""
    watching = LastStatement(shell)
    setattr(shell, ATTRIBUTE, watching)
    shell.showtraceback = watching.watch_errors(shell.showtraceback)
    shell.showsyntaxerror = watching.watch_errors(shell.showsyntaxerror)
    shell.ast_transformers.append(watching)


class LastStatement:
    """A transformer of syntax trees that records which command, magic or other code ran last in a cell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._kind = self._text = ""
        #: Functions of the code that runs now, whose source the kernel may not know.
        self._functions: list[ast.FunctionDef] = []
        #: Whether an error has been shown since the last note.
        self.has_shown_error = False

    def note(self, kind: str, text: str) -> None:
        """Note that a command or magic is about to run; with empty texts, that it is any other code."""
        self._kind, self._text, self.has_shown_error = kind, text, False

    def note_call(self, find: Callable[[], object], kind: str, text: str) -> None:
        """Note the command that ends the function which `find` returns; without one, note `kind` and `text`."""
        try:
            ending = self._find_ending(find())
        except NameError:  # the call itself is about to raise it
            ending = None
        self.note(*(ending or (kind, text)))

    def watch_errors(self, show: Callable[..., object]) -> Callable[..., object]:
        """Return a function that shows an error as `show` does, and notes that one was shown."""

        def note_error(*arguments: object, **options: object) -> object:
            self.has_shown_error = True
            return show(*arguments, **options)

        return note_error

    def tell(self) -> str:
        """Return what ran last, whether it has shown an error, and the status of the last command, as a JSON object."""
        status = str(self._shell.user_ns.get("_exit_code", 0))
        return json.dumps(
            {"kind": self._kind, "text": self._text, "status": status, "has_shown_error": self.has_shown_error}
        )

    def visit(self, tree: ast.AST) -> ast.AST:
        """Return the syntax tree of a cell with notes before what runs in its last statement; IPython calls this."""
        if not (isinstance(tree, ast.Module) and tree.body):
            return tree
        self._functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        called = _read_called_name(tree.body[-1])
        if _has_magic(tree) or self._find_ending(self._shell.user_ns.get(called)) is not None:
            tree.body[-1:] = self._add_notes(tree.body[-1:])
            ast.fix_missing_locations(tree)
        return tree

    def _find_ending(self, called: object) -> tuple[str, str] | None:
        """Return the command with which a call of a function of the notebook ends; None for anything else."""
        if type(called) is not types.FunctionType or called.__globals__ is not self._shell.user_ns:
            return None
        code = called.__code__
        if "get_ipython" not in code.co_names:
            return None
        try:
            function = _parse_function(code)
        except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
            known = {(node.name, node.lineno): node for node in self._functions}
            function = known.get((code.co_name, code.co_firstlineno))
        return _read_ending(function) if function is not None else None

    def _add_notes(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return these statements with a note before each, or with notes inside of those that hold others."""
        noted: list[ast.stmt] = []
        for statement in statements:
            blocks = [] if isinstance(statement, _FUNCTIONS) or not _has_magic(statement) else _list_blocks(statement)
            for block in blocks:
                block[:] = self._add_notes(block)
            if not blocks and not isinstance(statement, _STEPS):
                noted.append(ast.copy_location(self._make_note(statement), statement))
            noted.append(statement)
        return noted

    def _make_note(self, statement: ast.stmt) -> ast.stmt:
        """Return the statement that notes a command or magic, or that the code of a magic runs, or any other code."""
        kind, text = _read_magic(statement) or (self._kind, self._text)
        called = _read_called_name(statement)
        note = f"note_call(lambda: {called}, {kind!r}, {text!r})" if called else f"note({kind!r}, {text!r})"
        return ast.parse(f"get_ipython().{ATTRIBUTE}.{note}").body[0]


def _list_blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the lists of statements that a statement holds; none for a simple one."""
    holders = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    blocks = [getattr(holder, name, []) for holder in holders for name in ("body", "orelse", "finalbody")]
    return [block for block in blocks if block]


def _has_magic(tree: ast.AST) -> bool:
    """Return whether code calls IPython's shell anywhere, as commands and magics do."""
    return any(isinstance(node, ast.Name) and node.id == "get_ipython" for node in ast.walk(tree))


def _read_called_name(statement: ast.stmt) -> str:
    """Return the name of the function that a statement only calls; "" for any other statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""


def _parse_function(code: types.CodeType) -> ast.FunctionDef | None:
    """Return the syntax tree of a function, None for a lambda or a coroutine; raise if its source is not known."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    return tree.body[0] if len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef) else None


def _read_ending(function: ast.FunctionDef) -> tuple[str, str] | None:
    """Return the command with which a call of a function ends, whatever it does before; None if there is none."""
    inner = (node for statement in function.body for node in ast.walk(statement))
    if function.decorator_list or any(isinstance(node, _ENDS_EARLY) for node in inner):
        return None
    found = _read_magic(function.body[-1])
    return found if found is not None and found[0] == "command" else None


def _read_magic(statement: ast.stmt) -> tuple[str, str] | None:
    """Return the kind and the text of the command or magic that a statement runs; None for any other statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _is_shell(call.func.value)):
        return None
    texts = [part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    name = texts[0] if texts else ""
    line = " ".join(texts[:2])[:_LONGEST]
    if call.func.attr == "system":
        return "command", f"!{name[:_LONGEST]}"
    if call.func.attr == "run_line_magic" and name in _COMMAND_MAGICS:
        return "command", f"%{line}"
    if call.func.attr in {"run_line_magic", "run_cell_magic"} and name not in _QUIET_MAGICS:
        return "magic", f"%{line}"
    return None


def _is_shell(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython"
