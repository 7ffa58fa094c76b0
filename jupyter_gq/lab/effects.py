"""The effects of a cell that matter if the cell runs again in a job, found in its syntax tree. For Python only.

Rules
-----
- Found is what runs when the cell runs: bodies of functions count only if the cell itself calls them.
- A false alarm is worse than a miss: reading is no effect, nor is what goes to memory, to a screen or to a null device.
  What only a run could tell, such as a mode in a variable, is no effect either.
- Magics and `!` commands count as IPython's own transformer reads them. Python code in `%%time`, `%%capture` and the
  like counts as if it stood in the cell.

The tables name the calls; `shell_effects` judges commands.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_gq.domain.job_names import LAST

from .calls import Names, list_calls, read_text
from .cells import parse_cell
from .magics import Magic, read_magic
from .shell_effects import find_command_effects

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
        "notebook_login",
    }
)
#: Functions that write a file, with the place of the destination among their arguments.
_WRITES = {
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt"), 0),
    **dict.fromkeys(("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree", "os.truncate"), 0),
    **dict.fromkeys(("matplotlib.pyplot.savefig", "matplotlib.pyplot.imsave", "imageio.imwrite", "cv2.imwrite"), 0),
    **dict.fromkeys(("scipy.io.savemat", "soundfile.write", "skimage.io.imsave", "os.mkdir", "shelve.open"), 0),
    **dict.fromkeys(("os.rename", "os.replace", "shutil.move", "shutil.copy", "shutil.copy2", "shutil.copyfile"), 1),
    **dict.fromkeys(("shutil.copytree", "torch.save", "joblib.dump", "urllib.request.urlretrieve"), 1),
    **dict.fromkeys(("safetensors.torch.save_file", "safetensors.numpy.save_file"), 1),
}
#: Methods that write a file if they are given a destination; without one they return the content.
_WRITING_METHODS = frozenset(
    {
        *("to_csv", "to_parquet", "to_json", "to_excel", "to_pickle", "to_feather", "to_hdf", "to_stata", "to_html"),
        *("to_orc", "to_xml", "to_latex", "to_markdown", "to_netcdf", "to_zarr", "to_file", "tofile", "savefig"),
        *("write_csv", "write_parquet", "write_json", "write_ipc", "write_excel", "write_ndjson", "write_delta"),
        *("write_text", "write_bytes", "write_html", "write_image", "save_pretrained", "save_to_disk"),
        *("save_weights", "save_model", "imsave"),
    }
)
#: Methods of paths that change files without an argument.
_PATH_METHODS = frozenset({"unlink", "touch", "rmdir"})
#: Functions that open a file with the mode as their second argument.
_OPENS = frozenset(
    {
        *("open", "builtins.open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open"),
        *("zipfile.ZipFile", "gzip.GzipFile", "h5py.File", "netCDF4.Dataset", "fsspec.open", "smart_open.open"),
        "os.fdopen",
    }
)
_WRITING_MODE = re.compile(r"[wax][bt+]*(?:[:|]\w*)?|r[bt]*\+[bt]*")
#: Methods that change a database, whatever their arguments are.
_DATABASE_METHODS = frozenset(
    {
        *("to_sql", "to_gbq", "insert_one", "insert_many", "update_one", "update_many", "replace_one"),
        *("delete_one", "delete_many", "bulk_write"),
    }
)
#: Methods that run a statement of SQL.
_SQL_METHODS = frozenset({"execute", "executemany", "executescript", "exec_driver_sql", "sql", "query"})
_SQL_WRITES = re.compile(
    r"\s*(?:insert|update|delete|replace|drop|alter|truncate|merge|vacuum|create(?!\s+temp))(?:\s+[\w\"`\[]|\s*$)"
    r"(?!.*\bif\s+not\s+exists\b)",
    re.IGNORECASE | re.DOTALL,
)
_INSTALLERS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
#: Magics that write a file, and magics that act on files as the command of that name.
_FILE_MAGICS = frozenset({"writefile", "file", "save", "store", "logstart", "notebook"})
_COMMAND_MAGICS = frozenset({"rm", "mv", "cp", "mkdir", "rmdir"})
#: Functions that run a command.
_RUNS = frozenset(
    {
        *("os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call"),
        *("subprocess.check_output", "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    }
)


def find_effects(source: str) -> list[Effect]:
    """Return the effects of this cell, each once; none if the source is not valid Python."""
    tree = parse_cell(source)
    if tree is None:
        return []
    names = Names.read(tree)
    found = (effect for call in list_calls(tree) for effect in _find_in_call(call, names))
    return list(dict.fromkeys(found))


def _find_in_call(call: ast.Call, names: Names) -> Iterable[Effect]:
    """Yield the effects of one call."""
    name = names.spell(call.func)
    if isinstance(call.func, ast.Name) and call.func.id in names.own:
        return
    magic = read_magic(call)
    if magic is not None:
        yield from _find_in_magic(magic)
    elif name in _ASKS:
        yield Effect("asks_for_input")
    elif name in _RUNS:
        yield from _judge_command(_read_command(_get_argument(call, 0)))
    elif name == "jupyter_gq.result":
        job = _get_argument(call, 0, "job")
        if isinstance(job, ast.Constant) and job.value == LAST:
            yield Effect("names_last_job")
    else:
        yield from _find_writes(call, name, names)


def _find_writes(call: ast.Call, name: str, names: Names) -> Iterable[Effect]:
    """Yield the files and databases that one call writes."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in _WRITES:
        yield from _write_to(_get_argument(call, _WRITES[name]) or _get_argument(call, 0), names)
    elif name in _OPENS:
        if _is_writing_mode(_get_argument(call, 1, "mode")):
            yield from _write_to(_get_argument(call, 0), names)
    elif method == "open":
        if any(_is_writing_mode(_get_argument(call, place, "mode")) for place in (0, 1)):
            yield Effect("writes_files", _read_path(call.func))
    elif method in _WRITING_METHODS or (method == "save" and _is_text(_get_argument(call, 0))):
        in_path = method in {"write_text", "write_bytes"}
        yield from _write_to(call.func if in_path else _get_destination(call), names)
    elif method in _PATH_METHODS and not call.args:
        yield Effect("writes_files", _read_path(call.func))
    elif method in _DATABASE_METHODS or (method == "commit" and not call.args and not call.keywords):
        yield Effect("writes_database")
    elif method in _SQL_METHODS and not name.startswith("duckdb."):
        yield from _judge_sql(read_text(_get_argument(call, 0)))


def _write_to(destination: ast.expr | None, names: Names) -> Iterable[Effect]:
    if not names.is_no_file(destination):
        shown = _read_path(destination)
        yield Effect("writes_files", shown)


def _judge_sql(statement: str) -> Iterable[Effect]:
    if _SQL_WRITES.match(statement):
        yield Effect("writes_database")


def _judge_command(command: str) -> Iterable[Effect]:
    for kind, what in find_command_effects(command):
        yield Effect(kind, what)


def _find_in_magic(magic: Magic) -> Iterable[Effect]:
    """Yield the effects of a magic or a command."""
    name, line = magic.name, magic.line
    if magic.kind == "python":
        for source in magic.code:
            yield from find_effects(source)
    elif magic.kind == "shell":
        yield from _judge_command(magic.body or line)
    elif name in _INSTALLERS or name in _COMMAND_MAGICS:
        yield from _judge_command(f"{name} {line}")
    elif name in _FILE_MAGICS and not magic.reads_store:
        yield Effect("writes_files", line.split()[-1] if name in {"writefile", "file"} and line else "")
    elif name == "gq_load" and line.split()[:1] == [LAST]:
        yield Effect("names_last_job")
    elif name == "sql":
        yield from _judge_sql(magic.body or line)
    elif name == "debug":
        yield Effect("asks_for_input")


def _get_argument(call: ast.Call, place: int, keyword: str = "") -> ast.expr | None:
    """Return the argument at this place, or the one of this name; None if it is not given or not known."""
    for given in call.keywords:
        if keyword and given.arg == keyword:
            return given.value
    known = call.args[: place + 1]
    return known[place] if len(known) > place and not any(isinstance(a, ast.Starred) for a in known) else None


def _get_destination(call: ast.Call) -> ast.expr | None:
    """Return the destination of a method that writes: its first argument, or a keyword that names a path or buffer."""
    if call.args:
        return call.args[0]
    named = (k.value for k in call.keywords if re.search("path|buf|file|fname|excel_writer|destination", k.arg or ""))
    return next(named, None)


def _is_writing_mode(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and bool(_WRITING_MODE.fullmatch(str(node.value)))


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _read_path(node: ast.expr | None) -> str:
    """Return the literal path in a destination such as `"a.csv"` or `Path("a.csv").open`; otherwise ""."""
    if isinstance(node, ast.Attribute):
        return _read_path(node.value)
    if isinstance(node, ast.JoinedStr):
        return ""
    return read_text(node)


def _read_command(node: ast.expr | None) -> str:
    """Return the command in an argument of `subprocess.run` or `os.system`, as far as it is literal."""
    if isinstance(node, ast.List | ast.Tuple):
        return " ".join(read_text(part) or "python" for part in _drop_unknown_tail(node.elts))
    return read_text(node)


def _drop_unknown_tail(parts: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """Return the parts of a command if its program is a literal or `sys.executable`; otherwise none."""
    first = parts[0] if parts else None
    is_python = isinstance(first, ast.Attribute) and first.attr == "executable"
    return parts if is_python or _is_text(first) else ()
