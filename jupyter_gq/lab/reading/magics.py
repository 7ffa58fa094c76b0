"""Magics and commands in the syntax tree of a cell, read as IPython runs them.

Rules
-----
- Magics are calls such as `get_ipython().run_line_magic("time", "f()")`, as IPython's transformer writes them.
- Code: the Python in `%%time`, `%timeit` and their like is what follows the options.
- Scripts: the code of `%run` is that of its script, and so is that of `exec(open("x.py").read())`; see `scripts`.
- Bounded: a magic with more than `_MOST_INNER` magics inside of each other has no code that is read.
- Expanded: IPython puts values into commands and into the lines of other magics. `{...}` holds an expression. A name
  after `$` is often one of the shell: if no variable has this name, IPython leaves the whole line as it is.

See docs/decisions/0194-read-magics-in-one-place-and-let-names-lack.md.
"""

import ast
import re
from dataclasses import dataclass, field
from string import Formatter
from typing import Literal

from .call_parts import get_last_name
from .cells import parse_cell
from .full_names import read_text
from .parsing import list_nodes
from .scripts import EXECUTES, Script, find_executed_script, find_script

Kind = Literal["python", "shell", "other"]

#: Magics whose code is Python, with their options of one letter that have a value.
_VALUED = {
    **{"time": "", "capture": "", "timeit": "nrp", "prun": "lsTD", "memit": "rti"},
    **{"lprun": "fmDTu", "mprun": "fT", "px": "tog"},
}
#: Options of such a magic, whose values are expressions.
_EVALUATED = frozenset({("lprun", "f"), ("mprun", "f")})
_SHELLS = frozenset({"!", "bash", "sh", "script", "system", "sx", "zsh"})
#: Cell magics whose body is expanded as well.
_EXPANDED_BODIES = frozenset({"!", "system", "sx"})
#: Other magics whose line IPython does not expand.
_LEFT_ALONE = frozenset({"debug", "pinfo", "pinfo2", "psearch"})
_PYTHONS = re.compile(r"(?:.*/)?(?:python[\d.]*|pypy\d*)")
_DOLLAR = re.compile(r"(\$?)\$([A-Za-z_]\w*)")
#: What names a variable in the line of a cell that a program runs, or that holds a query.
_OF_SCRIPTS = re.compile(r"(?:^|\s)--(?:out|err|proc)(?:\s+|=)(\w+)")
_OF_QUERIES = {"sql": re.compile(r"^(?:.*\s)?(\w+)\s*<<"), "bigquery": re.compile(r"^\s*([A-Za-z_]\w*)")}
#: Most magics inside of a magic, one in the other, as in `%time %prun f()`.
_MOST_INNER = 10
#: A line that begins with a magic, and the body if it is that of a cell.
_MAGIC = re.compile(r"\s*%?(?P<name>\w+)[ \t]*(?P<line>[^\n]*)|\s*%%(?P<of_cell>\w+)[ \t]*(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Magic:
    """A magic or a command of a cell."""

    kind: Kind
    #: Name of the magic; "!" for a command.
    name: str
    line: str
    #: Text below the line of a cell magic; otherwise "".
    body: str = ""
    #: The script that the magic, or a call as `%run` would, runs, if it is known.
    script: Script | None = None

    @property
    def code(self) -> list[str]:
        """Sources of the Python that runs, in order; none for a magic of another kind."""
        if self.kind != "python":
            return []
        of_line = [] if self.name == "capture" else [self._split_options()[1]]
        return [source for source in [*of_line, self.body] if source.strip()]

    @property
    def trees(self) -> list[ast.Module]:
        """Syntax trees of the Python that runs in the kernel, without what is no Python."""
        if self.script is not None:
            return list(self.script.trees)
        if self._is_deeper_than(_MOST_INNER):
            return []
        return [tree for source in self.code if (tree := parse_cell(source)) is not None]

    @property
    def runs_python(self) -> bool:
        """Whether the body is Python in a process of its own, as of `%%python3`."""
        program = self.line.partition(" ")[0] if self.name == "script" else self.name
        return bool(self.body) and _PYTHONS.fullmatch(program) is not None

    @property
    def reads_store(self) -> bool:
        """Whether the magic is `%store -r`, which assigns variables that were stored earlier."""
        return self.name == "store" and "-r" in self.line.split()

    @property
    def outputs(self) -> list[str]:
        """Names of the variables to which the magic assigns what it has captured or read."""
        if self.name == "capture":
            names = [self._split_options()[1].strip()]
        elif self.body and self.kind != "python":
            pattern = _OF_QUERIES.get(self.name, _OF_SCRIPTS)
            names = [found[1] for found in pattern.finditer(self.line)]
        else:
            names = []
        return [name for name in names if name.isidentifier()]

    @property
    def expansions(self) -> "Expansions":
        """Parts of the line and the body whose values IPython puts in."""
        if self.kind == "python":
            options = self._split_options()[0]
            values = [value for option, value in options if (self.name, option) in _EVALUATED]
            return Expansions(expressions=[tree for value in values if (tree := _parse_expression(value)) is not None])
        found = Expansions()
        texts = [] if self.name in _LEFT_ALONE else [self.line]
        texts += [self.body] if self.name in _EXPANDED_BODIES else []
        for text in texts:
            found.add(text)
        return found

    def _is_deeper_than(self, most: int) -> bool:
        """Return whether more than `most` magics are inside of this one, one in the other."""
        for source in self.code:
            inner = _read_first_magic(source)
            if inner is not None and (most == 0 or inner._is_deeper_than(most - 1)):
                return True
        return False

    def _split_options(self) -> tuple[list[tuple[str, str]], str]:
        """Return the options of the line with their values, and what follows them."""
        valued = _VALUED.get(self.name, "")
        with_value = rf"-(?P<option>[{valued}])\s*(?P<value>\S+)|" if valued else ""
        pattern = re.compile(rf"\s*(?:{with_value}--[a-z][\w-]*|-[A-Za-z]+)(?=\s|$)")
        options, place = [], 0
        while found := pattern.match(self.line, place):
            groups = found.groupdict()
            options.append((groups.get("option") or "", groups.get("value") or ""))
            place = found.end()
        return options, self.line[place:]


@dataclass(kw_only=True, slots=True)
class Expansions:
    """Parts of the text of a command or magic into which IPython puts values."""

    expressions: list[ast.expr] = field(default_factory=list)
    #: Names after `$`, which may also be variables of the shell.
    names: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add the parts of a text; none if IPython cannot read one of them, since it then leaves the text as it is."""
        fields = _list_fields(text)
        if fields is None:
            return
        for before, expression in fields:
            self.names += [name for escaped, name in _DOLLAR.findall(before) if not escaped]
            if expression is None:
                continue
            if before.endswith("$") and isinstance(expression, ast.Name):  # `${name}` of the shell
                self.names.append(expression.id)
            else:
                self.expressions.append(expression)


def _read_call(call: ast.Call) -> Magic | None:
    """Return what `exec` of a script or of a literal text runs; None for any other call."""
    script = find_executed_script(call)
    if script is not None:
        return Magic(kind="other", name="run", line="", script=script)
    match call:
        case ast.Call(func=ast.Name(id="exec"), args=[ast.Constant(value=str(code))]) if "exec" not in code:
            return Magic(kind="python", name="exec", line="", body=code)
    return None


def read_magic(call: ast.Call) -> Magic | None:
    """Return the magic or command that this call runs; None for any other call.

    `exec` of a script counts as `%run`, and `exec` of a literal text as a magic with this Python.
    """
    func = call.func
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call)) or not (
        isinstance(func.value.func, ast.Name) and func.value.func.id == "get_ipython"
    ):
        return _read_call(call) if get_last_name(call) in EXECUTES else None
    texts = [read_text(argument) for argument in call.args] + ["", "", ""]
    if func.attr in {"system", "getoutput"}:
        return Magic(kind="shell", name="!", line=texts[0])
    if func.attr not in {"run_line_magic", "run_cell_magic"}:
        return None
    name, line, body = texts[:3]
    kind: Kind = "python" if name in _VALUED else "shell" if name in _SHELLS else "other"
    script = find_script(line, call) if name == "run" else None
    return Magic(kind=kind, name=name, line=line, body=body, script=script)


def _read_first_magic(source: str) -> Magic | None:
    """Return the magic whose code is Python, if the source begins with one."""
    found = _MAGIC.match(source)
    name = "" if found is None else found["name"] or found["of_cell"]
    if found is None or name not in _VALUED:
        return None
    line, _, body = (found["line"] or found["rest"] or "").partition("\n")
    return Magic(kind="python", name=name, line=line, body=body)


def list_trees(tree: ast.Module) -> list[ast.Module]:
    """Return a syntax tree and those of the Python that its magics run in the kernel, each before those within it."""
    found = [tree]
    for each in found:
        calls = (node for node in list_nodes(each) if isinstance(node, ast.Call))
        found += [code for call in calls if (magic := read_magic(call)) is not None for code in magic.trees]
    return found


def _list_fields(text: str) -> list[tuple[str, ast.expr | None]] | None:
    """Return each expression in braces with the text before it; None if the text cannot be read so.

    IPython knows no formats: it reads what follows a colon as a part of the expression.
    """
    found: list[tuple[str, ast.expr | None]] = []
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return None
    for before, expression, form, _ in parts:
        tree = None if expression is None else _parse_expression(f"{expression}:{form}" if form else expression)
        if expression is not None and tree is None:
            return None
        found.append((before, tree))
    return found


def _parse_expression(text: str) -> ast.expr | None:
    """Return the syntax tree of one expression; None for any other text."""
    tree = parse_cell(f"({text}\n)") if text.strip() else None
    statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
    return statement.value if isinstance(statement, ast.Expr) else None
