"""The modules and paths that Python code names, by its syntax tree. Pure.

Rules
-----
- Modules: whatever is imported anywhere in the code, also inside of functions.
- Paths: each literal text, and each text that is put together from literals, and from variables with a known text, by
  `Path(...)` and similar calls, `/`, `os.path.join`, `joinpath`, `+` or an f-string. Whether there is such a file is
  for the caller to find out.
- Commands: each word of a magic or `!` command may be a path. The code in `%%time` and the like is read as Python.
- Paths that are computed otherwise are not seen.

See docs/decisions/0177-visit-each-module-once-and-measure-its-depth-only-if-it-is-too-deep.md.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from jupyter_gq.lab.magics import read_magic
from jupyter_gq.lab.parsing import list_children

#: Longest text that may be a path.
_LONGEST = 1000
#: The kinds of nodes with references of their own: a quick look, since modules have many other nodes.
_NOTED = frozenset({ast.Constant, ast.Call, ast.Assign, ast.BinOp, ast.JoinedStr, ast.Import, ast.ImportFrom})
_JOINS = frozenset({"join", "joinpath"})
_PATHS = frozenset({"Path", "PurePath", "PosixPath", "expanduser", "str", "fspath", "abspath", "resolve"})


@dataclass(frozen=True, order=True, slots=True)
class Import:
    """An imported module: its dotted name, and how many packages up the name begins, as in `from ..a import b`."""

    name: str
    level: int = 0


@dataclass(slots=True)
class References:
    """The modules and paths that code names."""

    imports: set[Import] = field(default_factory=set)
    #: Texts that may be paths of files, with the number of times that each occurs.
    texts: dict[str, int] = field(default_factory=dict)
    #: Texts that are arguments of a call or were put together, and so may also be paths of folders.
    arguments: set[str] = field(default_factory=set)


def find_references(tree: ast.AST) -> References:
    """Return the modules and paths that the code of this syntax tree names.

    Raises `RecursionError` if an expression is too deep.
    """
    finder = _Finder()
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        finder.note(node)
        ahead += reversed(list_children(node))
        magic = read_magic(node) if isinstance(node, ast.Call) else None
        ahead += magic.trees if magic is not None else []
    return finder.found


class _Finder:
    """A collector of the references in nodes, which remembers the literal paths in variables."""

    def __init__(self) -> None:
        self.found = References()
        self._paths: dict[str, str] = {}
        #: Texts of the expressions that were read, by identity: each is asked for once more as a part of a larger one.
        self._texts: dict[int, str | None] = {}

    def note(self, node: ast.AST) -> None:
        """Add the references of a node, without those of the nodes below it."""
        if type(node) not in _NOTED:
            return
        match node:
            case ast.Constant():
                self.note_constant(node)
            case ast.Call():
                self.note_call(node)
            case ast.Assign():
                self.note_assignment(node)
            case ast.BinOp() | ast.JoinedStr():
                self.note_expression(node)
            case ast.Import():
                self.note_import(node)
            case ast.ImportFrom():
                self.note_import_from(node)

    def note_import(self, node: ast.Import) -> None:
        self.found.imports.update(Import(alias.name) for alias in node.names)

    def note_import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.found.imports.add(Import(module, node.level))
        # What is imported from a package may be a module of it.
        self.found.imports.update(
            Import(f"{module}.{alias.name}".strip("."), node.level) for alias in node.names if alias.name != "*"
        )

    def note_assignment(self, node: ast.Assign) -> None:
        value = self._read(node.value)
        for target in node.targets:
            if value is not None and isinstance(target, ast.Name):
                self._paths[target.id] = value

    def note_constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.value)

    def note_call(self, node: ast.Call) -> None:
        magic = read_magic(node)
        if magic is not None and magic.kind != "python":
            self._add_words(f"{magic.line} {magic.body}")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            text = self._read(argument)
            if text is not None:
                self.found.arguments.add(text)
        self.note_expression(node)

    def note_expression(self, node: ast.expr) -> None:
        """Add the whole path of an expression if it is known."""
        text = self._read(node)
        if text is not None:
            if not any(self._read(part) == text for part in _list_parts(node)):  # `Path("a.csv")` names a file once
                self._add(text)
            self.found.arguments.add(text)

    def _add(self, text: str) -> None:
        if 0 < len(text) <= _LONGEST and text.isprintable():
            self.found.texts[text] = self.found.texts.get(text, 0) + 1

    def _add_words(self, text: str) -> None:
        """Add each word of a command or of the line and the body of a magic."""
        for word in text.split():
            self._add(word.strip("'\";"))

    def _read(self, node: ast.expr) -> str | None:
        """Return the text or path of an expression that is made of literals; None for any other one."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._paths.get(node.id)
        if id(node) not in self._texts:
            self._texts[id(node)] = self._read_parts(node)
        return self._texts[id(node)]

    def _read_parts(self, node: ast.expr) -> str | None:
        """Return the text or path of an expression that is put together from others."""
        if isinstance(node, ast.BinOp):
            return self._read_operation(node)
        if isinstance(node, ast.Call):
            return self._read_call(node)
        if isinstance(node, ast.JoinedStr):
            parts = [self._read(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
            return _join("", parts)
        return None

    def _read_operation(self, node: ast.BinOp) -> str | None:
        parts = [self._read(node.left), self._read(node.right)]
        if isinstance(node.op, ast.Div):
            return _join("/", parts)
        return _join("", parts) if isinstance(node.op, ast.Add) else None

    def _read_call(self, node: ast.Call) -> str | None:
        """Return the path in a call such as `Path("a", "b")`, `os.path.join("a", "b")` or `folder.joinpath("b")`."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        parts = [self._read(argument) for argument in node.args]
        if name == "joinpath" and isinstance(node.func, ast.Attribute):
            parts.insert(0, self._read(node.func.value))
        elif name in _PATHS and isinstance(node.func, ast.Attribute) and not node.args:
            parts = [self._read(node.func.value)]
        return _join("/", parts) if parts and name in _JOINS | _PATHS else None


def _list_parts(node: ast.expr) -> list[ast.expr]:
    """Return the expressions other than variables from which a call, an operation or an f-string makes a text."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Call):
        parts = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return [part for part in parts if not isinstance(part, ast.Name)]


def _join(separator: str, parts: Iterable[str | None]) -> str | None:
    """Return the parts as one text; None if one of them is not known, or if all are too long for a path."""
    known = [part for part in parts]
    if not known or any(part is None for part in known) or sum(len(part or "") for part in known) > _LONGEST:
        return None
    return separator.join(part.rstrip("/") if separator else part for part in known if part is not None)
