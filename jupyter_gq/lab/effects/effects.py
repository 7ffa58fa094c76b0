"""The effects of a cell that matter if the cell runs again in a job, found in its syntax tree. For Python only.

Rules
-----
- Found is what runs when the cell runs: the body of a function or method counts only if the cell calls it, also if a
  cell before it has defined it.
- A false alarm is worse than a miss: reading is no effect, nor is what goes to memory, to a screen or to a null device.
  What only a run could tell, such as a mode in a variable, is no effect either.
- Magics and `!` commands count as IPython's own transformer reads them. Python code in `%%time`, `%%capture` and the
  like counts as if it stood in the cell.
- A script that a command runs, such as `!python train.py`, has its own effects in place of that of a command. If it has
  none, the command still counts: what the script imports is not read.

`file_writes` knows the calls that write files, `sql_effects` those that change databases, `shell_effects` commands.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from jupyter_gq.domain.job_names import LAST
from jupyter_gq.lab.reading.call_parts import get_argument, is_text
from jupyter_gq.lab.reading.calls import Definitions, find_calls
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.full_names import Names, read_text
from jupyter_gq.lab.reading.magics import Magic, read_magic
from jupyter_gq.lab.reading.scripts import Script, find_command_script, is_in_script

from .file_writes import find_destinations
from .shell_effects import CommandEffect, find_command_effects
from .sql_effects import find_changes, judge_sql

Kind = Literal[
    "asks_for_input", "names_last_job", "installs_packages", "writes_files", "writes_database", "runs_commands"
]


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of a cell, with the thing that is affected."""

    kind: Kind
    #: Whole path of the file, or name of the command, if it is known; otherwise empty.
    what: str = ""


#: Functions that ask a person, by their full names.
_ASKS = frozenset(
    {
        *("input", "builtins.input", "getpass", "getpass.getpass", "breakpoint", "pdb.set_trace", "ipdb.set_trace"),
        *("click.prompt", "click.confirm", "typer.prompt", "typer.confirm", "huggingface_hub.notebook_login"),
        *("notebook_login", "huggingface_hub.interpreter_login", "IPython.core.debugger.set_trace", "IPython.embed"),
        *("rich.prompt.Prompt.ask", "rich.prompt.IntPrompt.ask", "rich.prompt.FloatPrompt.ask"),
        *("rich.prompt.Confirm.ask", "prompt_toolkit.prompt", "inquirer.prompt", "questionary.prompt", "code.interact"),
        *("pwinput.pwinput", "maskpass.askpass", "stdiomask.getpass"),
    }
)
_INSTALLERS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
#: Magics that write a file, and magics that act on files as the command of that name.
_FILE_MAGICS = frozenset({"writefile", "file", "save", "store", "logstart", "notebook"})
_COMMAND_MAGICS = frozenset({"rm", "mv", "cp", "mkdir", "rmdir"})
#: Cell magics that run another language than Python in a process of its own.
_OTHER_LANGUAGES = frozenset({"perl", "ruby", "node"})
_SHELLS = re.compile(r"!|sx|system|(?:.*/)?(?:ba|z|k|da)?sh")
#: Functions that run a command.
_RUNS = frozenset(
    {
        *("os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call"),
        *("subprocess.check_output", "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
        *("asyncio.create_subprocess_shell", "pty.spawn"),
    }
)
#: Functions that install packages, with the words of `pip` or the name of a package.
_INSTALLS = frozenset({"pip.main", "pip._internal.main", "pip._internal.cli.main.main"})
_INSTALLS_PACKAGE = frozenset({"micropip.install", "piplite.install"})
#: Effects of scripts, by the first of their trees: many cells may run the same script.
_OF_SCRIPTS: WeakKeyDictionary[ast.Module, list[Effect]] = WeakKeyDictionary()


def find_effects(source: str) -> list[Effect]:
    """Return the effects of this cell, each once; none if the source is not valid Python."""
    return find_effects_in_order([source])[0]


def find_effects_in_order(sources: Iterable[str]) -> list[list[Effect]]:
    """Return the effects of each of these cells, which run in this order and may use what earlier ones define."""
    found: list[list[Effect]] = []
    names, known = Names(), Definitions()
    for source in sources:
        tree = parse_cell(source)
        effects = () if tree is None else _find_in_tree(tree, names, known)
        found.append(list(dict.fromkeys(effects)))
    return found


def _find_in_tree(tree: ast.Module, names: Names, known: Definitions) -> Iterator[Effect]:
    """Yield the effects of a cell; add what it defines to `names` and `known`."""
    names.add(tree)
    for call in find_calls(tree, known):
        yield from _find_in_call(call, names, known)


def _find_in_call(call: ast.Call, names: Names, known: Definitions) -> Iterable[Effect]:
    """Yield the effects of one call."""
    if names.is_own(call.func):
        return
    yield from _follow_scripts(_find_at_call(call, names, known), follows=not is_in_script(call))


def _find_at_call(call: ast.Call, names: Names, known: Definitions) -> Iterable["Effect | CommandEffect"]:
    """Yield the effects of one call; scripts that commands run are not followed yet."""
    magic = read_magic(call)
    if magic is not None:
        if magic.script is not None and not magic.script.gives_names:
            yield from _find_in_script(magic.script)
        else:
            yield from _find_in_magic(magic, names, known)
        return
    yield from _find_by_name(call, names.spell(call.func))
    yield from (Effect("writes_files", each.path) for each in find_destinations(call, names) if each.is_changed)
    yield from (Effect(kind, what) for kind, what in find_changes(call, names))


def _find_by_name(call: ast.Call, name: str) -> Iterable["Effect | CommandEffect"]:
    """Yield the effects of a call of the function with this full name, other than what it writes."""
    if name in _ASKS or (name == "huggingface_hub.login" and not call.args and not call.keywords):
        yield Effect("asks_for_input")
    elif name in _RUNS:
        yield from _judge_command(_read_command(get_argument(call, 0)))
    elif name in _INSTALLS:
        yield from _judge_command(f"pip {_read_command(get_argument(call, 0))}")
    elif name in _INSTALLS_PACKAGE:
        yield Effect("installs_packages")
    elif name == "jupyter_gq.result":
        job = get_argument(call, 0, "job")
        if isinstance(job, ast.Constant) and job.value == LAST:
            yield Effect("names_last_job")


def _judge_command(command: str) -> Iterable["Effect | CommandEffect"]:
    """Yield the effects of a command; those of a program that may run a script still name the words of the command."""
    for each in find_command_effects(command):
        yield each if each.words else Effect(each.kind, each.what)


def _follow_scripts(found: Iterable["Effect | CommandEffect"], *, follows: bool) -> Iterable[Effect]:
    """Yield effects, and those of the script that a command runs in place of the command, if it has some."""
    for each in found:
        if isinstance(each, Effect):
            yield each
            continue
        script = find_command_script(each.words, each.folder) if follows else None
        effects = _find_in_script(script) if script is not None else []
        if each.has_input:
            effects = [effect for effect in effects if effect.kind != "asks_for_input"]
        yield from effects or [Effect(each.kind, each.what)]


def _find_in_script(script: Script) -> list[Effect]:
    """Return the effects of a script, which shares no names with the cells."""
    if not script.trees:
        return []
    found = _OF_SCRIPTS.get(script.trees[0])
    if found is None:
        names, known = Names(), Definitions()
        found = [effect for tree in script.trees for effect in _find_in_tree(tree, names, known)]
        _OF_SCRIPTS[script.trees[0]] = found
    return found


def _find_in_magic(magic: Magic, names: Names, known: Definitions) -> Iterable["Effect | CommandEffect"]:
    """Yield the effects of a magic or a command."""
    name, line = magic.name, magic.line
    trees = magic.trees
    if trees:
        for tree in trees:
            yield from _find_in_tree(tree, names, known)
    elif magic.body and (magic.kind == "shell" or magic.runs_python or name in _OTHER_LANGUAGES):
        yield from _judge_script(magic)
    elif magic.kind == "shell":
        yield from _judge_command(line)
    elif name in _INSTALLERS or name in _COMMAND_MAGICS:
        yield from _judge_command(f"{name} {line}")
    elif name == "gq_load" and line.split()[:1] == [LAST]:
        yield Effect("names_last_job")
    elif name == "sql":
        yield from (Effect(kind, what) for kind, what in judge_sql(magic.body or line))
    elif name == "debug":
        yield Effect("asks_for_input")
    elif _writes_file(magic):
        yield Effect("writes_files", line.split()[-1] if name in {"writefile", "file"} and line else "")


def _writes_file(magic: Magic) -> bool:
    """Return whether a magic writes a file: `%store` and `%history` do so only without and with an option."""
    if magic.name in {"history", "hist"}:
        return "-f" in magic.line.split()
    return magic.name in _FILE_MAGICS and not magic.reads_store


def _judge_script(magic: Magic) -> Iterable["Effect | CommandEffect"]:
    """Yield the effects of the body of a cell magic that a program runs: Python, a shell, or something unknown."""
    program = magic.line.split()[0] if magic.name == "script" and magic.line else magic.name
    if magic.runs_python:
        yield from find_effects(magic.body)
    elif _SHELLS.fullmatch(program):
        yield from _judge_command(magic.body)
    else:
        yield Effect("runs_commands", program)


def _read_command(node: ast.expr | None) -> str:
    """Return the command in an argument of `subprocess.run` or `os.system`, as far as it is literal."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return read_text(node.func.value) or read_text(node)  # "pip install x".split(), shlex.split("pip install x")
    if isinstance(node, ast.List | ast.Tuple):
        return " ".join(read_text(part) or "python" for part in _drop_unknown_tail(node.elts))
    return read_text(node)


def _drop_unknown_tail(parts: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """Return the parts of a command if its program is a literal or `sys.executable`; otherwise none."""
    first = parts[0] if parts else None
    is_python = isinstance(first, ast.Attribute) and first.attr == "executable"
    return parts if is_python or is_text(first) else ()
