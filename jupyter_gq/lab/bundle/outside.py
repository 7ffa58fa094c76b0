"""The ways in which cells look for what a folder of the job's own lacks. For Python only.

A job runs in a folder of its own, in place of the notebook's, with links to what is in that one. What lies beside the
notebook's folder is not there, and a search does not enter links: it finds nothing, without an error. The repository of
the notebook's folder is not linked, since it would take up the links.

- If files go along, cells that go up or use a repository are told. Whole paths such as `"../data/a.csv"` are told by
  the plan for files.
- If none go along, a job whose cells may go up or search runs in the notebook's folder.

See docs/decisions/0126-run-a-job-with-files-in-its-own-folder.md,
docs/decisions/0198-tell-what-no-replay-brings-back.md,
docs/decisions/0307-run-a-cell-that-writes-in-a-folder-of-its-own.md and docs/decisions/0319-link-no-repository.md.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from jupyter_gq.lab.reading.calls import list_calls
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.full_names import Names, read_text
from jupyter_gq.lab.reading.magics import list_trees, read_magic
from jupyter_gq.lab.reading.parsing import list_nodes
from jupyter_gq.lab.requests import CellWarning

from .bundle import Step
from .step_warnings import warn_about

#: `..` alone, or in front of a pattern.
_UP = re.compile(r"\.\.(?:/\.\.)*(?:/?|/.*[*?\[].*)")
#: Beginnings of the full names of functions that take paths, and their last names, since a method has no full name.
_OF_PATHS = ("os.", "glob.", "shutil.", "pathlib.", "sys.path.")
_TAKE_PATHS = frozenset({"joinpath", "glob", "iglob", "rglob", "chdir"})
#: Beginnings of the last names of functions that read files, such as `read_csv`, `scan_parquet` and `loadtxt`.
_READ_FILES = ("read", "scan_", "load")
_WALKS = frozenset({"os.walk", "os.fwalk"})
_FIND = re.compile(r"\s*find\s")
#: What may lead upwards, anywhere in a source: in texts, commands, functions that are never called, and comments. `..`
#: as a part of a path, and tools that look for a repository or a file in what is above.
_UP_ANYWHERE = re.compile(
    r"(?<![\w.)\]])\.\.(?![\w.])|\b(?:pardir|git|dvc|find_dotenv|load_dotenv|rootutils|pyprojroot)\b"
)
#: The working folder, and what takes the folder of a path: together, they may lead upwards.
_HERE_ANYWHERE = re.compile(r"getcwd|\.cwd\(|\bPath\((?:[\"']\.?[\"'])?\)|abspath|realpath|\.resolve\(|\.absolute\(")
_FOLDER_OF = re.compile(r"\bdirname\b|\.parents?\b|path\.split\b")
_SEARCHERS = "find|rg|du|tree"
#: What may look into the folders below another one, in code and in commands.
_SEARCH_ANYWHERE = re.compile(
    rf"\*\*/|\.f?walk\(|\brglob\b|[\"'](?:{_SEARCHERS})[\"' ]|\b(?:grep|ls)\s+-\w*[rR]"
    rf"|^[ \t]*[!%].*\b(?:{_SEARCHERS})\b",
    re.MULTILINE,
)
_SEARCHED_BY_SHELL = re.compile(rf"\s*%%(?:bash|sh|script|!).*\b(?:{_SEARCHERS})\b", re.DOTALL)
_HERE = frozenset({"pathlib.Path.cwd", "os.getcwd", "pathlib.Path"})
_SAID = (
    "leaves the notebook's folder upwards, and the job runs in a folder of its own, beside which nothing else is: use "
    "full paths, or the live folder"
)
_SAID_OF_REPOSITORIES = (
    "uses git or dvc, and the job runs in a folder of its own, which is no repository: use the live folder"
)
#: A command of a repository, alone or behind others. Some commands need no repository, or name another one.
_REPOSITORY_COMMAND = re.compile(
    r"(?:^|[;&|(`\n])\s{0,20}(?:git|dvc)[ \t]"
    r"(?![ \t]{0,20}(?:(?:clone|get|help|init|ls-remote|version|lfs\s+install|config\s+--(?:global|system))\b"
    r"|--version|-[Chv]\b))"
)
#: Beginnings of the full names of packages for repositories, and ends of names that need no repository.
_REPOSITORY_PACKAGES = ("git.", "pygit2.", "dvc.")
_NEED_NO_REPOSITORY = (".clone_from", ".clone_repository", ".init", ".init_repository")
#: Beginnings of the full names of functions that run a command.
_RUN_COMMANDS = ("subprocess.", "os.system", "os.popen")


def find_ways_out(steps: Sequence[Step]) -> Iterator[CellWarning]:
    """Yield a warning for each cell that goes up from its working folder, or uses the repository there.

    For jobs that take files along.
    """
    names = Names()
    for step in steps:
        tree = parse_cell(step.source)
        trees = list_trees(tree) if tree is not None else []
        for each in trees:
            names.add(each)
        if any(_goes_up(each, names) for each in trees):
            yield warn_about(step, "leaves_folder", _SAID)
        if any(_uses_repository(call, names) for each in trees for call in list_calls(each)):
            yield warn_about(step, "leaves_folder", _SAID_OF_REPOSITORIES)


def explain_missing(sources: Sequence[str]) -> str:
    """Return why cells with these sources may lack something in a folder of the job's own, as a clause; "" = nothing.

    A false alarm costs little here, so a word counts wherever it stands.
    """
    text = "\n".join(sources)
    if _UP_ANYWHERE.search(text) or (_HERE_ANYWHERE.search(text) and _FOLDER_OF.search(text)):
        return "the cells may look for something above it"
    if _SEARCH_ANYWHERE.search(text) or any(map(_SEARCHED_BY_SHELL.match, sources)):
        return "the cells may search the folders in it"
    return ""


def searches_folders(tree: ast.Module) -> bool:
    """Return whether a cell looks for files in all folders below one, in a way that passes over folders that are links.

    In a folder of links such a search, for example `Path.rglob` or the command `find`, misses most of the files.
    """
    names = Names.read(tree)
    return any(_is_search(call, names) for call in list_calls(tree))


def _is_search(call: ast.Call, names: Names) -> bool:
    magic = read_magic(call)
    if magic is not None:
        return magic.name == "!" and _FIND.match(magic.line) is not None
    walks = names.spell(call.func) in _WALKS or (isinstance(call.func, ast.Attribute) and call.func.attr == "rglob")
    return walks and not any(keyword.arg in {"followlinks", "recurse_symlinks"} for keyword in call.keywords)


def _uses_repository(call: ast.Call, names: Names) -> bool:
    """Return whether a call is a command of git or dvc, or of a package for them, that needs a repository."""
    magic = read_magic(call)
    if magic is not None:
        return magic.kind == "shell" and _REPOSITORY_COMMAND.search(f"{magic.line}\n{magic.body}") is not None
    full = names.spell(call.func)
    if full.startswith(_REPOSITORY_PACKAGES) and full.partition(".")[0] not in names.own:
        names_another = any(keyword.arg == "repo" for keyword in call.keywords)
        return not names_another and not full.endswith(_NEED_NO_REPOSITORY)
    first = call.args[0] if call.args else None
    if isinstance(first, ast.List | ast.Tuple):
        return _REPOSITORY_COMMAND.match(" ".join(map(read_text, first.elts))) is not None
    return (
        first is not None
        and full.startswith(_RUN_COMMANDS)
        and _REPOSITORY_COMMAND.search(read_text(first)) is not None
    )


def _goes_up(tree: ast.Module, names: Names) -> bool:
    return any(_is_way_up(call, names) for call in list_calls(tree)) or any(
        isinstance(node, ast.Attribute) and node.attr in {"parent", "parents"} and _is_here(node.value, names)
        for node in list_nodes(tree)
    )


def _is_way_up(call: ast.Call, names: Names) -> bool:
    """Return whether a call takes a path that is `..`, or a pattern behind it."""
    magic = read_magic(call)
    if magic is not None:
        return magic.name == "cd" and _UP.fullmatch(magic.line.strip()) is not None
    is_up = any(isinstance(each, ast.Constant) and _UP.fullmatch(read_text(each)) is not None for each in call.args)
    return is_up and _takes_paths(call.func, names)


def _takes_paths(called: ast.expr, names: Names) -> bool:
    """Return whether a function is known to take paths: `..` is an argument of others as well, such as `split`."""
    full = names.spell(called)
    last = called.attr if isinstance(called, ast.Attribute) else full.rpartition(".")[2]
    return full.startswith(_OF_PATHS) or last in _TAKE_PATHS or last.startswith(_READ_FILES)


def _is_here(node: ast.expr, names: Names) -> bool:
    """Return whether an expression is the working folder, such as `Path.cwd()` or `Path().resolve()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        node = node.func.value
    if not isinstance(node, ast.Call) or names.spell(node.func) not in _HERE:
        return False
    return not node.args or read_text(node.args[0]) in {"", "."}
