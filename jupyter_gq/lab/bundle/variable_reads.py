"""The environment variables that cells read by their names, by the syntax trees of their sources. For Python only.

Rules
-----
- Read: `os.environ["X"]`, `os.environ.get("X")`, `os.getenv("X")`, `"X" in os.environ`, `%env X`, under any name of the
  module, of `environ` and of `getenv`.
- Set: `os.environ["X"] = ...`, `os.environ.setdefault("X", ...)`, `os.putenv("X", ...)`, `%env X=...`. What is set
  before it is read is not read from outside.
- Scripts: what a script reads counts, in the kernel or by a command such as `!python train.py`.
- Names that the code computes are not seen.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jupyter_gq.lab.effects.shell_effects import find_command_effects
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.magics import Magic, read_magic
from jupyter_gq.lab.reading.parsing import list_children
from jupyter_gq.lab.reading.scripts import find_command_script, is_in_script

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READING = frozenset({"get", "pop", "__getitem__"})
_SETTING = frozenset({"setdefault", "__setitem__"})


@dataclass(kw_only=True, slots=True)
class VariableReads:
    """The variables that cells read, in their order; the value is True if the cells fail without the variable."""

    read: dict[str, bool] = field(default_factory=dict)
    #: Top-level packages that the cells import.
    packages: set[str] = field(default_factory=set)


def find_read_variables(sources: Iterable[str]) -> VariableReads:
    """Return the variables that these cells read in this order, and the packages that they import."""
    found = _Reader()
    for source in sources:
        tree = parse_cell(source)
        if tree is not None:
            found.visit(tree)
    return VariableReads(read=found.read, packages=found.packages)


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.read: dict[str, bool] = {}
        self.packages: set[str] = set()
        self._set: set[str] = set()
        #: The syntax trees of scripts that commands run.
        self._of_commands: set[ast.Module] = set()

    def generic_visit(self, node: ast.AST) -> None:
        for child in list_children(node):
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        self.packages |= {alias.name.partition(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            self.packages.add(node.module.partition(".")[0])

    def visit_Assign(self, node: ast.Assign) -> None:
        for part in (node.value, *node.targets):  # the value is computed first
            self.visit(part)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_called(node.value, "environ"):
            if isinstance(node.ctx, ast.Load):
                self._note_read(node.slice, needed=True)
            else:
                self._note_set(node.slice)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        asks = len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn)
        if asks and _is_called(node.comparators[0], "environ"):
            self._note_read(node.left, needed=False)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        magic = read_magic(node)
        if magic is not None:
            self._note_magic(magic, node)
        elif node.args:
            self._note_call(node)

    def _note_call(self, node: ast.Call) -> None:
        """Note a call that reads or sets a variable."""
        called, first = node.func, node.args[0]
        if isinstance(called, ast.Attribute) and _is_called(called.value, "environ"):
            if called.attr in _READING:
                self._note_read(first, needed=False)
            elif called.attr in _SETTING:
                self._note_read(first, needed=False)
                self._note_set(first)
        elif _is_called(called, "getenv"):
            self._note_read(first, needed=False)
        elif _is_called(called, "putenv"):
            self._note_set(first)

    def _note_commands(self, command: str) -> None:
        """Note what the scripts of a command read; each runs in a process of its own with the kernel's variables."""
        for each in find_command_effects(command):
            script = find_command_script(each.words, each.folder)
            before = set(self._set)
            for tree in script.trees if script is not None else ():
                if tree not in self._of_commands:  # what it reads is needed most when it runs first
                    self._of_commands.add(tree)
                    self.visit(tree)
            self._set = before

    def _note_magic(self, magic: Magic, node: ast.Call) -> None:
        """Note the code of a magic, and `%env`: one word reads a variable, and anything more sets it."""
        for tree in magic.trees:
            self.visit(tree)
        if magic.kind == "shell" and not is_in_script(node):
            self._note_commands(f"{magic.line}\n{magic.body}")
        argument = magic.line.strip()
        found = _NAME.match(argument) if magic.name in ("env", "set_env") else None
        if found is not None and found.group() == argument:
            self._note(found.group(), needed=False)
        elif found is not None:
            self._set.add(found.group())

    def _note_read(self, name: ast.expr, *, needed: bool) -> None:
        self._note(_text_of(name), needed=needed)

    def _note(self, name: str, *, needed: bool) -> None:
        if _NAME.fullmatch(name) and name not in self._set:
            self.read[name] = self.read.get(name, False) or needed

    def _note_set(self, name: ast.expr) -> None:
        self._set.add(_text_of(name))


def _is_called(node: ast.expr, name: str) -> bool:
    """Return whether an expression is this name, or an attribute of this name: `environ`, or `os.environ`."""
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
