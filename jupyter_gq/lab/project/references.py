"""The modules and paths that Python code names, by its syntax tree. Pure.

Rules
-----
- Modules: whatever is imported anywhere in the code, also inside of functions, by `import_module("a")` and its like, by
  `%load_ext a`, and by the option `-m` of a command. Folders that `sys.path.insert` or `append` adds are noted.
- Paths: each literal text, and each text that is put together from literals, and from variables with a known text, by
  `Path(...)` and similar calls, `/`, `os.path.join`, `joinpath`, `+` or an f-string. Whether there is such a file is
  for the caller to find out.
- Patterns: `glob("data/*.csv")` and its like, other arguments such as `"data/*.csv"`, and texts with places for values,
  such as `"data/{}.csv".format(n)`, name the files that match.
- Commands: each word of a magic or `!` command, or of a text that is given to `os.system` and its like, may be a path.
  The code in `%%time` and the like is read as Python.
- Written: what the code only writes, makes or removes is no reference, but is listed; see `written`.
- Paths that are computed otherwise are not seen.

See docs/decisions/0177-visit-each-module-once-and-measure-its-depth-only-if-it-is-too-deep.md.
"""

import ast
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jupyter_gq.lab.effects.file_writes import Destination
from jupyter_gq.lab.effects.shell_effects import find_command_effects
from jupyter_gq.lab.reading.call_parts import get_last_name
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.magics import Magic, read_magic
from jupyter_gq.lab.reading.parsing import list_nodes

from .written import Written, find_written

#: What stands for a part of a path that is computed; no path has this character.
UNKNOWN = "\0"
#: Longest text that may be a path.
_LONGEST = 1000
#: The kinds of nodes with references of their own: a quick look, since modules have many other nodes.
_NOTED = frozenset(
    {ast.Constant, ast.Call, ast.Assign, ast.AnnAssign, ast.BinOp, ast.JoinedStr, ast.Import, ast.ImportFrom}
)
_JOINS = frozenset({"join", "joinpath"})
_PATHS = frozenset({"Path", "PurePath", "PosixPath", "expanduser", "str", "fspath", "abspath", "resolve", "absolute"})
#: Calls whose arguments are the parts of a path.
_PARTED = _JOINS | _PATHS
#: Calls without arguments that mean the folder of the notebook.
_HERE = frozenset({"cwd", "getcwd", "Path"})
_GLOBS = {"glob": "", "iglob": "", "rglob": "**/"}
#: A text that may be a pattern: with a place for anything, and with the name of a folder before it.
_PATTERN = re.compile(r"[^\s*?\[][^\n*?\[/]*/[^\n*?\[]*[*?\[][^\n]*")
#: Places for values in a text for `format` and for `%`.
_PLACES = re.compile(r"\{[^{}]*\}|%[-+ #0-9.]*[sdifegr]")
_IMPORTERS = frozenset({"import_module", "__import__", "run_module"})
_IMPORTING_MAGICS = frozenset({"load_ext", "reload_ext", "aimport"})
#: Functions of `os`, `subprocess` and `asyncio` that run a command.
_RUNS = frozenset(
    {
        *("system", "popen", "run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput"),
        "create_subprocess_shell",
    }
)
_BETWEEN_WORDS = re.compile(r"[\s;|&<>()]+")
_MODULE_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


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
    #: Texts that are patterns of paths, as `glob` reads them.
    patterns: set[str] = field(default_factory=set)
    #: Texts that may be paths of files which the code only writes.
    written: set[str] = field(default_factory=set)
    #: Texts that may be paths of what the code only removes.
    removed: set[str] = field(default_factory=set)
    #: Folders into which the code writes, or that it makes if they are not there.
    folders: set[str] = field(default_factory=set)
    #: Folders below the present one that the code adds to `sys.path`, without needless parts.
    module_folders: set[str] = field(default_factory=set)
    #: Paths of files which the code only writes, with `UNKNOWN` for each part that is computed.
    computed: set[str] = field(default_factory=set)

    def add_places(self, others: "References") -> None:
        """Add the paths that other code writes, makes or removes, and the folders in which it finds modules."""
        self.written |= others.written
        self.removed |= others.removed
        self.folders |= others.folders
        self.computed |= others.computed
        self.module_folders |= others.module_folders


@dataclass(slots=True)
class Variables:
    """The variables of code that hold texts."""

    texts: dict[str, str] = field(default_factory=dict)
    #: Texts of which parts are not known, with `UNKNOWN` in place of these.
    sketches: dict[str, str] = field(default_factory=dict)


def find_references(tree: ast.Module, variables: Variables | None = None, written: Written | None = None) -> References:
    """Return the modules and paths that the code of this syntax tree names.

    `variables` are those that code before it has assigned; those that this code assigns are added. `written` is what
    this code and the code around it only write. Raises `RecursionError` if an expression is too deep.
    """
    finder = _Finder(variables or Variables(), find_written([tree]) if written is None else written)
    finder.ahead.append(tree)
    while finder.ahead:
        finder.note_all(list_nodes(finder.ahead.pop()))
    return finder.found


class _Finder:
    """A collector of the references in nodes, which remembers the literal paths in variables."""

    def __init__(self, variables: Variables, written: Written) -> None:
        self.found = References()
        #: Syntax trees whose nodes are still to be noted.
        self.ahead: list[ast.Module] = []
        self._variables, self._written = variables, written
        #: Texts of the expressions that were read, by identity: each is asked for once more as a part of a larger one.
        self._texts: dict[int, str | None] = {}

    def note_all(self, nodes: Iterable[ast.AST]) -> None:
        """Add the references of nodes, each without those of the nodes below it."""
        whole, parts = self._written.whole, self._written.parts
        for node in nodes:
            if id(node) in whole:
                self.note_written(whole[id(node)])
            if type(node) in _NOTED and id(node) not in parts:
                self.note(node)

    def note(self, node: ast.AST) -> None:
        """Add the references of a node that is more than a destination."""
        match node:
            case ast.Constant():
                self.note_constant(node)
            case ast.Call():
                self.note_call(node)
            case ast.Assign():
                self.note_assignment(node.targets, node.value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.note_assignment([target], value)
            case ast.BinOp() | ast.JoinedStr():
                self.note_expression(node)
            case ast.Import():
                self.note_import(node)
            case ast.ImportFrom():
                self.note_import_from(node)

    def note_written(self, destination: Destination) -> None:
        """Add what the code writes, or the folder of it as far as that is known."""
        if destination.node is None:
            return
        text = self._read(destination.node)
        if text is None:
            sketch = self._read_sketch(destination.node)
            self.found.folders.add(sketch.partition(UNKNOWN)[0].rpartition("/")[0])
            if destination.is_changed and not (destination.is_removed or destination.is_folder):
                self.found.computed.add(sketch)
        elif destination.is_removed:
            self.found.removed.add(text)
        elif destination.is_changed and not destination.is_folder:
            self._add_written(text)
        else:
            self.found.folders.add(text)

    def note_import(self, node: ast.Import) -> None:
        self.found.imports.update(Import(alias.name) for alias in node.names)

    def note_import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.found.imports.add(Import(module, node.level))
        # What is imported from a package may be a module of it.
        self.found.imports.update(
            Import(f"{module}.{alias.name}".strip("."), node.level) for alias in node.names if alias.name != "*"
        )

    def note_assignment(self, targets: Iterable[ast.expr], value: ast.expr) -> None:
        text = self._read(value)
        for target in targets:
            if isinstance(target, ast.Name):
                self._variables.texts.pop(target.id, None)
                self._variables.sketches[target.id] = self._read_sketch(value)
                if text is not None:
                    self._variables.texts[target.id] = text

    def note_constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.value)

    def note_call(self, node: ast.Call) -> None:
        magic = read_magic(node)
        if magic is not None:
            self.note_magic(magic)
        name = get_last_name(node)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [self._read(each) if id(each) not in self._written.parts else None for each in given]
        known = [text for text in texts if text is not None]
        if name in _GLOBS:
            above = self._read(node.func.value) if isinstance(node.func, ast.Attribute) else None
            self._add_pattern(_GLOBS[name] + (texts[0] or "") if texts else "", above)
        else:
            self.found.arguments.update(known)
            self.found.patterns.update(text for text in known if _PATTERN.fullmatch(text))
        if name in _IMPORTERS and known:
            self._add_module(known[0])
        elif _adds_module_folder(node):
            below = [path for path in map(posixpath.normpath, known) if path[0] not in "/~" and path != "."]
            self.found.module_folders.update(path for path in below if path.split("/")[0] != "..")
        elif name in _RUNS and node.args and magic is None:
            self.note_command(node.args[0])
        self.note_expression(node)

    def note_magic(self, magic: Magic) -> None:
        """Add the paths and modules that a magic or command names, and look later at the Python that it runs."""
        self.ahead += _list_trees(magic)
        if magic.kind == "python":
            return
        written = magic.line.split()[-1:] if magic.name in {"writefile", "file"} else []
        text = f"{magic.line}\n{magic.body}"
        self._add_words(text, written or (_list_written(text) if magic.kind == "shell" else []))
        if magic.name in _IMPORTING_MAGICS:
            for word in magic.line.replace(",", " ").split():
                self._add_module(word)
        elif magic.name == "run":
            words = [f"{word}.py" for word in magic.line.split()]  # `%run script` runs script.py
            for path in words if magic.script is None else [magic.script.path]:
                self._add(path)

    def note_command(self, node: ast.expr) -> None:
        """Add what the words of a command name: those of a text, or the texts of a list."""
        if isinstance(node, ast.List | ast.Tuple):
            words = [self._read(part) or "" for part in node.elts]
            self._add_modules_of(words)
        else:
            command = self._read(node) or ""
            self._add_words(command, _list_written(command))

    def note_template(self, node: ast.expr) -> None:
        """Add the pattern of a text in which `format` or `%` fills places."""
        text = self._read(node)
        if text is not None and _PATTERN.fullmatch(pattern := _PLACES.sub("*", text)):
            self.found.patterns.add(pattern)

    def note_expression(self, node: ast.expr) -> None:
        """Add the whole path of an expression if it is known, or the pattern of a text into which values are put."""
        template = _get_template(node)
        if template is not None:
            self.note_template(template)
        text = self._read(node)
        if text is not None:
            if not any(self._read(part) == text for part in _list_parts(node)):  # `Path("a.csv")` names a file once
                self._add(text)
            self.found.arguments.add(text)

    def _add(self, text: str) -> None:
        if 0 < len(text) <= _LONGEST and text.isprintable():
            self.found.texts[text] = self.found.texts.get(text, 0) + 1

    def _add_written(self, text: str) -> None:
        """Add a file that the code writes, and its folder."""
        self.found.written.add(text)
        self.found.folders.add(text.rpartition("/")[0])

    def _add_words(self, text: str, written: Sequence[str] = ()) -> None:
        """Add each word of a command or of the line and the body of a magic, and the value in `--option=value`.

        The files that are `written` are left out once for each time that they are.
        """
        words = [word.strip("'\",") for word in _BETWEEN_WORDS.split(text)]
        for word in written:
            self._add_written(word)
            if word in words:
                words.remove(word)
        for word in words:
            self._add(word)
            self._add(word.partition("=")[2].strip("'\""))
        self._add_modules_of(words)

    def _add_modules_of(self, words: Sequence[str]) -> None:
        """Add the modules that a command such as `python -m package.train` runs."""
        for option, word in pairwise(words):
            if option == "-m":
                self._add_module(word)

    def _add_module(self, name: str) -> None:
        if _MODULE_NAME.fullmatch(name):
            self.found.imports.add(Import(name))

    def _add_pattern(self, pattern: str, above: str | None) -> None:
        """Add a pattern that is given to a function, or to a method of the path `above`."""
        if pattern.strip("*/"):
            self.found.patterns.add(pattern if above is None else f"{above.rstrip('/')}/{pattern}")

    def _read(self, node: ast.expr) -> str | None:
        """Return the text or path of an expression that is made of literals; None for any other one."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._variables.texts.get(node.id)
        if id(node) not in self._texts:
            self._texts[id(node)] = self._read_parts(node)
        return self._texts[id(node)]

    def _read_sketch(self, node: ast.expr) -> str:
        """Return the text or path of an expression, with `UNKNOWN` for each part that is not known or too long."""
        text = self._read(node)
        if text is not None:
            return text
        if isinstance(node, ast.Name):
            return self._variables.sketches.get(node.id, UNKNOWN)
        template = _get_template(node)
        if template is not None:
            return _PLACES.sub(UNKNOWN, self._read_sketch(template))
        separator, parts = _split(node)
        return _join(separator, [self._read_sketch(part) for part in parts]) or UNKNOWN

    def _read_parts(self, node: ast.expr) -> str | None:
        """Return the text or path of an expression that is put together from others."""
        if isinstance(node, ast.Call) and get_last_name(node) in _HERE and not node.args and not node.keywords:
            return "."
        separator, parts = _split(node)
        return _join(separator, [self._read(part) for part in parts]) if parts else None


def _list_trees(magic: Magic) -> list[ast.Module]:
    """Return the syntax trees of the Python that a magic runs, in the kernel or in another process."""
    body = parse_cell(magic.body) if magic.runs_python else None
    return magic.trees if body is None else [body]


def _list_written(command: str) -> list[str]:
    """Return the files that a command or script writes, as far as their names stand in it."""
    return [each.what for each in find_command_effects(command) if each.kind == "writes_files"]


def _adds_module_folder(call: ast.Call) -> bool:
    """Return whether a call is `sys.path.insert` or `sys.path.append`."""
    match call.func:
        case ast.Attribute(ast.Attribute(ast.Name("sys"), "path"), "insert" | "append"):
            return True
    return False


def _get_template(node: ast.expr) -> ast.expr | None:
    """Return the text into which `format` or `%` puts values; None for any other expression."""
    match node:
        case ast.Call(func=ast.Attribute(attr="format", value=template)):
            return template
        case ast.BinOp(op=ast.Mod(), left=template):
            return template
    return None


def _split(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the separator and the parts, in order, of an expression that puts together a text or path."""
    match node:
        case ast.Call() if (name := get_last_name(node)) in _PARTED:
            of = node.func.value if isinstance(node.func, ast.Attribute) else None
            before = [of] if of is not None and (name == "joinpath" or not node.args) else []
            return "/", [*before, *node.args]
        case ast.BinOp(op=ast.Div()):
            return "/", [node.left, node.right]
        case ast.BinOp(op=ast.Add()):
            return "", [node.left, node.right]
        case ast.JoinedStr():
            return "", [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return "", []


def _list_parts(node: ast.expr) -> list[ast.expr]:
    """Return the expressions other than variables from which a call, an operation or an f-string makes a text."""
    parts: list[ast.expr] = []
    match node:
        case ast.Call():
            parts = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        case ast.BinOp():
            parts = [node.left, node.right]
        case ast.JoinedStr():
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return [part for part in parts if not isinstance(part, ast.Name)]


def _join(separator: str, parts: Iterable[str | None]) -> str | None:
    """Return the parts as one text; None if one of them is not known, or if all are too long for a path."""
    known = [part for part in parts]
    if not known or any(part is None for part in known) or sum(len(part or "") for part in known) > _LONGEST:
        return None
    return separator.join(part.rstrip("/") if separator else part for part in known if part is not None)
