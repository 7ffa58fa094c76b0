"""The effects of a cell that matter if the cell runs again in a job, found in its syntax tree. For Python only.

Rules
-----
- Found is what runs when the cell runs: the body of a function or method counts only if the cell calls it, also if a
  cell before it has defined it.
- A false alarm is worse than a miss: reading is no effect, nor is what goes to memory, to a screen or to a null device.
  What only a run could tell, such as a mode in a variable, is no effect either.
- Magics and `!` commands count as IPython's own transformer reads them. Python code in `%%time`, `%%capture` and the
  like counts as if it stood in the cell.

The tables name the calls; `shell_effects` judges commands.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_gq.domain.job_names import LAST

from .calls import Definitions, find_calls
from .cells import parse_cell
from .full_names import Names, read_text
from .magics import Magic, read_magic
from .path_texts import is_file_name, names_path
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
        *("notebook_login", "huggingface_hub.interpreter_login", "IPython.core.debugger.set_trace", "IPython.embed"),
        *("rich.prompt.Prompt.ask", "rich.prompt.IntPrompt.ask", "rich.prompt.FloatPrompt.ask"),
        *("rich.prompt.Confirm.ask", "prompt_toolkit.prompt", "inquirer.prompt", "questionary.prompt", "code.interact"),
        *("pwinput.pwinput", "maskpass.askpass", "stdiomask.getpass"),
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
    **dict.fromkeys(("safetensors.torch.save_file", "safetensors.numpy.save_file", "shutil.unpack_archive"), 1),
    **dict.fromkeys(("pandas.ExcelWriter", "scipy.sparse.save_npz", "scipy.io.wavfile.write", "torchaudio.save"), 0),
    **dict.fromkeys(("tensorflow.io.write_file", "tensorflow.io.TFRecordWriter", "shutil.make_archive"), 0),
    **dict.fromkeys(("logging.FileHandler", "logging.handlers.RotatingFileHandler", "dill.dump_session"), 0),
    **dict.fromkeys(("torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter"), 0),
    **dict.fromkeys(("pyarrow.parquet.ParquetWriter", "fastparquet.write", "imageio.mimsave", "os.symlink"), 0),
    **dict.fromkeys(("pyarrow.parquet.write_table", "pyarrow.feather.write_feather", "pyarrow.csv.write_csv"), 1),
    **dict.fromkeys(("pyarrow.dataset.write_dataset", "pyarrow.parquet.write_to_dataset", "torch.jit.save"), 1),
    **dict.fromkeys(("torchvision.utils.save_image", "onnx.save", "nibabel.save", "SimpleITK.WriteImage"), 1),
    "torch.onnx.export": 2,
}
#: Methods that write a file if they are given a destination; without one they return the content.
_WRITING_METHODS = frozenset(
    {
        *("to_csv", "to_parquet", "to_json", "to_excel", "to_pickle", "to_feather", "to_hdf", "to_stata", "to_html"),
        *("to_orc", "to_xml", "to_latex", "to_markdown", "to_netcdf", "to_zarr", "to_file", "tofile", "savefig"),
        *("write_csv", "write_parquet", "write_json", "write_ipc", "write_excel", "write_ndjson", "write_delta"),
        *("write_text", "write_bytes", "write_html", "write_image", "save_pretrained", "save_to_disk"),
        *("save_weights", "save_model", "imsave", "save_checkpoint", "to_string", "write_avro", "write_table"),
        "basicConfig",
        *("sink_csv", "sink_parquet", "sink_ipc", "sink_ndjson"),
    }
)
#: Functions and methods that write a file if one of their first arguments is the name of a file with an ending.
_WRITING_NAME = re.compile(r"(?:write_|save|dump(?!s$)|export|sink_|imwrite|imsave)\w*")
#: Methods of `df.write` in Spark.
_SPARK_METHODS = frozenset({"parquet", "csv", "json", "orc", "text", "save"})
#: Methods of paths that change files without an argument.
_PATH_METHODS = frozenset({"unlink", "touch", "rmdir", "extractall"})
#: Functions that open a file, with the place of the mode among their arguments.
_OPENS = {
    **dict.fromkeys(("open", "builtins.open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open"), 1),
    **dict.fromkeys(("zipfile.ZipFile", "gzip.GzipFile", "h5py.File", "netCDF4.Dataset", "fsspec.open"), 1),
    **dict.fromkeys(("tarfile.open", "smart_open.open", "os.fdopen", "io.FileIO", "bz2.BZ2File", "lzma.LZMAFile"), 1),
    **dict.fromkeys(("wave.open", "tables.open_file", "pyarrow.OSFile", "dbm.open", "aiofiles.open"), 1),
    **dict.fromkeys(("numpy.lib.format.open_memmap", "pandas.HDFStore", "rasterio.open", "zarr.open"), 1),
    "numpy.memmap": 2,
}
#: Functions of these that also write if no mode is given.
_OPENS_TO_WRITE = frozenset({"numpy.memmap", "numpy.lib.format.open_memmap", "pandas.HDFStore"})
_WRITING_MODE = re.compile(r"[waxcn][bt+]*(?:[:|]\w*)?|r[bt]*\+[bt]*")
#: Methods that change a database, whatever their arguments are.
_DATABASE_METHODS = frozenset(
    {
        *("to_sql", "to_gbq", "insert_one", "insert_many", "update_one", "update_many", "replace_one"),
        *(
            "delete_one",
            "delete_many",
            "bulk_write",
            "write_database",
            "bulk_create",
            "bulk_update",
            "bulk_save_objects",
        ),
        *("bulk_insert_mappings", "upsert", "saveAsTable", "insertInto"),
    }
)
#: Methods that run a statement of SQL.
_SQL_METHODS = frozenset({"execute", "executemany", "executescript", "exec_driver_sql", "sql", "query"})
_SQL_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/)*", re.DOTALL)
_SQL_WRITES = re.compile(
    r"(?:with\b.{0,10000}?\)\s*)?(?:insert|update|delete|replace|drop|alter|truncate|merge|vacuum|"
    r"create(?!(?:\s+or\s+replace)?(?:\s+global|\s+local)?\s+temp))(?:\s+[\w\"`\[]|\s*$)"
    r"(?!.*\bif\s+not\s+exists\b)",
    re.IGNORECASE | re.DOTALL,
)
#: Statements that write files: COPY ... TO and EXPORT DATABASE. COPY ... FROM fills a table.
_SQL_EXPORTS = re.compile(r"copy\b.{0,10000}?\bto\s+'([^']*)|export\s+database\s+'([^']*)", re.IGNORECASE | re.DOTALL)
_SQL_LOADS = re.compile(r"copy\b.{0,10000}?\bfrom\b", re.IGNORECASE | re.DOTALL)
#: Functions and methods that make a statement which changes a table.
_SQL_CHANGES = frozenset({"insert", "update", "delete"})
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
    name = names.spell(call.func)
    if isinstance(call.func, ast.Name) and call.func.id in names.own:
        return
    magic = read_magic(call)
    if magic is not None:
        yield from _find_in_magic(magic, names, known)
    elif name in _ASKS or (name == "huggingface_hub.login" and not call.args and not call.keywords):
        yield Effect("asks_for_input")
    elif name in _RUNS:
        yield from _judge_command(_read_command(_get_argument(call, 0)))
    elif name in _INSTALLS:
        yield from _judge_command(f"pip {_read_command(_get_argument(call, 0))}")
    elif name in _INSTALLS_PACKAGE:
        yield Effect("installs_packages")
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
        if _is_writing_mode(_get_argument(call, _OPENS[name], "mode"), default=name in _OPENS_TO_WRITE):
            yield from _write_to(_get_argument(call, 0, "file") or _get_destination(call), names)
    elif name == "os.makedirs" or (method == "mkdir" and name != "os.mkdir"):
        if not any(keyword.arg == "exist_ok" for keyword in call.keywords):
            yield Effect("writes_files", _read_path(call.func if method == "mkdir" else _get_argument(call, 0)))
    elif method == "open":
        if any(_is_writing_mode(_get_argument(call, place, "mode")) for place in (0, 1)):
            yield Effect("writes_files", _read_path(call.func))
    else:
        yield from _find_writes_of_method(call, name, method, names)


def _find_writes_of_method(call: ast.Call, name: str, method: str, names: Names) -> Iterable[Effect]:
    """Yield the files and databases that a call writes, by the name of the method or function and its arguments."""
    if method in _WRITING_METHODS or (method == "save" and _is_path(_get_argument(call, 0), names)):
        in_path = method in {"write_text", "write_bytes"}
        yield from _write_to(call.func if in_path else _get_destination(call), names)
    elif _changes_receiver(call, method, names):
        yield Effect("writes_files", _read_path(call.func))
    elif method in _SPARK_METHODS and any(_is_attribute(each, "write") for each in _list_receivers(call)):
        yield from _write_to(_get_argument(call, 0), names)
    elif method in _DATABASE_METHODS or (method == "commit" and not call.args and not call.keywords):
        yield Effect("writes_database")
    elif method in _SQL_METHODS:
        yield from _judge_statement(call, name)
    elif _WRITING_NAME.fullmatch(name.rpartition(".")[2] or method):
        named = (text for each in call.args[:3] if _is_text(each) and is_file_name(text := _read_path(each)))
        yield from (Effect("writes_files", text) for text in named)


def _changes_receiver(call: ast.Call, method: str, names: Names) -> bool:
    """Return whether a method changes the file of which it is a method: a path or an archive."""
    if method in {"rename", "replace"}:
        return _is_made_path(_get_receiver(call), names)
    return method in _PATH_METHODS and (not call.args or method == "extractall")


def _judge_statement(call: ast.Call, name: str) -> Iterable[Effect]:
    """Yield the effects of a call that runs a statement of SQL. What `duckdb.sql` changes is in memory."""
    statement = _get_argument(call, 0)
    effects = [*_judge_sql(read_text(statement))]
    if isinstance(statement, ast.Call) and _changes_table(statement):
        effects.append(Effect("writes_database"))
    yield from (each for each in effects if each.kind == "writes_files" or not name.startswith("duckdb."))


def _changes_table(statement: ast.Call) -> bool:
    """Return whether an expression such as `insert(table).values(x=1)` or `table.update()` is built to change one."""
    calls = [each for each in (statement, *_list_receivers(statement)) if isinstance(each, ast.Call)]
    called = [each.func for each in calls]
    return any(
        (each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")) in _SQL_CHANGES for each in called
    )


def _write_to(destination: ast.expr | None, names: Names) -> Iterable[Effect]:
    if not names.is_no_file(destination):
        shown = _read_path(destination)
        yield Effect("writes_files", shown)


def _judge_sql(statement: str) -> Iterable[Effect]:
    begun = _SQL_COMMENTS.match(statement)
    bare = statement[begun.end() :] if begun else statement
    exported = _SQL_EXPORTS.match(bare)
    if exported:
        yield Effect("writes_files", exported[1] or exported[2] or "")
    elif _SQL_WRITES.match(bare) or _SQL_LOADS.match(bare):
        yield Effect("writes_database")


def _judge_command(command: str) -> Iterable[Effect]:
    for kind, what in find_command_effects(command):
        yield Effect(kind, what)


def _find_in_magic(magic: Magic, names: Names, known: Definitions) -> Iterable[Effect]:
    """Yield the effects of a magic or a command."""
    name, line = magic.name, magic.line
    if magic.kind == "python":
        for tree in magic.trees:
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
        yield from _judge_sql(magic.body or line)
    elif name == "debug":
        yield Effect("asks_for_input")
    elif _writes_file(magic):
        yield Effect("writes_files", line.split()[-1] if name in {"writefile", "file"} and line else "")


def _writes_file(magic: Magic) -> bool:
    """Return whether a magic writes a file: `%store` and `%history` do so only without and with an option."""
    if magic.name in {"history", "hist"}:
        return "-f" in magic.line.split()
    return magic.name in _FILE_MAGICS and not magic.reads_store


def _judge_script(magic: Magic) -> Iterable[Effect]:
    """Yield the effects of the body of a cell magic that a program runs: Python, a shell, or something unknown."""
    program = magic.line.split()[0] if magic.name == "script" and magic.line else magic.name
    if magic.runs_python:
        yield from find_effects(magic.body)
    elif _SHELLS.fullmatch(program):
        yield from _judge_command(magic.body)
    else:
        yield Effect("runs_commands", program)


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


def _is_writing_mode(node: ast.expr | None, *, default: bool = False) -> bool:
    """Return whether a mode writes; `default` says so of a mode that is not given."""
    if node is None:
        return default
    return isinstance(node, ast.Constant) and bool(_WRITING_MODE.fullmatch(str(node.value)))


def _get_receiver(call: ast.Call) -> ast.expr | None:
    """Return the object of which a call calls a method; None for a function."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _list_receivers(call: ast.Call) -> list[ast.expr]:
    """Return the object of a method, the object of which that one is an attribute or a result, and so on."""
    found: list[ast.expr] = []
    node: ast.expr | None = call
    while node is not None:
        node = _get_receiver(node) if isinstance(node, ast.Call) else getattr(node, "value", None)
        if isinstance(node, ast.Attribute | ast.Call):
            found.append(node)
        else:
            break
    return found


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_made_path(node: ast.expr | None, names: Names) -> bool:
    """Return whether an expression makes a path: `Path(...)`, `os.path.join(...)`, or one of these `/` more."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _is_path(node.left, names) or _is_text(node.right)
    return isinstance(node, ast.Call) and names.spell(node.func) in {"pathlib.Path", "Path", "os.path.join"}


def _is_path(node: ast.expr | None, names: Names) -> bool:
    """Return whether an argument is a text, makes a path, or is a variable whose name says that it holds one."""
    if isinstance(node, ast.Call) and names.spell(node.func) == "str" and node.args:
        return _is_path(node.args[0], names)
    named = node.id if isinstance(node, ast.Name) else ""
    return _is_text(node) or _is_made_path(node, names) or bool(named and names_path(named))


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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return read_text(node.func.value) or read_text(node)  # "pip install x".split(), shlex.split("pip install x")
    if isinstance(node, ast.List | ast.Tuple):
        return " ".join(read_text(part) or "python" for part in _drop_unknown_tail(node.elts))
    return read_text(node)


def _drop_unknown_tail(parts: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """Return the parts of a command if its program is a literal or `sys.executable`; otherwise none."""
    first = parts[0] if parts else None
    is_python = isinstance(first, ast.Attribute) and first.attr == "executable"
    return parts if is_python or _is_text(first) else ()
