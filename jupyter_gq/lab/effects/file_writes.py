"""The files that calls write or remove, by the expressions that say which ones.

Rules
-----
- What goes to memory, to a screen or to a null device is no file, and a mode in a variable says nothing.
- A call may also read what it writes to: a file that is opened with `r+`, or an archive that is unpacked.
- A folder that is made only if it is not there is none that is changed, but none that is read either.
- The folder that is given to a trainer or logger is changed, although the trainer writes into it later.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jupyter_gq.lab.reading.call_parts import get_argument, get_method, get_receiver, is_text, list_receivers, read_path
from jupyter_gq.lab.reading.full_names import Names, read_text
from jupyter_gq.lab.reading.path_texts import is_file_name, names_path

#: Functions that write a file, with the place of the destination among their arguments.
_WRITES = {
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt"), 0),
    **dict.fromkeys(("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"), 0),
    **dict.fromkeys(("matplotlib.pyplot.savefig", "matplotlib.pyplot.imsave", "imageio.imwrite", "cv2.imwrite"), 0),
    **dict.fromkeys(
        ("scipy.io.savemat", "soundfile.write", "skimage.io.imsave", "os.mkdir", "shelve.open", "os.truncate"), 0
    ),
    **dict.fromkeys(("os.rename", "os.replace", "shutil.move", "shutil.copy", "shutil.copy2", "shutil.copyfile"), 1),
    **dict.fromkeys(("shutil.copytree", "torch.save", "joblib.dump", "urllib.request.urlretrieve"), 1),
    **dict.fromkeys(("safetensors.torch.save_file", "safetensors.numpy.save_file", "shutil.unpack_archive"), 1),
    **dict.fromkeys(("pandas.ExcelWriter", "scipy.sparse.save_npz", "scipy.io.wavfile.write", "torchaudio.save"), 0),
    **dict.fromkeys(("tensorflow.io.write_file", "tensorflow.io.TFRecordWriter", "shutil.make_archive"), 0),
    **dict.fromkeys(("logging.FileHandler", "logging.handlers.RotatingFileHandler", "dill.dump_session"), 0),
    **dict.fromkeys(("torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter"), 0),
    **dict.fromkeys(("pyarrow.parquet.ParquetWriter", "fastparquet.write", "imageio.mimsave", "os.symlink"), 0),
    "cv2.VideoWriter": 0,
    **dict.fromkeys(("pyarrow.parquet.write_table", "pyarrow.feather.write_feather", "pyarrow.csv.write_csv"), 1),
    **dict.fromkeys(("pyarrow.dataset.write_dataset", "pyarrow.parquet.write_to_dataset", "torch.jit.save"), 1),
    **dict.fromkeys(("torchvision.utils.save_image", "onnx.save", "nibabel.save", "SimpleITK.WriteImage"), 1),
    "torch.onnx.export": 2,
}
#: Names of keywords that hold a destination.
_DESTINATION_KEYWORD = re.compile(
    r"dst|extract_dir|f|log_dir|base_name|.*(?:path|buf|file|fname|excel_writer|destination).*"
)
#: Functions of these that also read what is there.
_ALSO_READ = frozenset({"shelve.open", "os.truncate", "shutil.unpack_archive"})
#: Functions and methods of these that remove what is there.
_REMOVES = frozenset({"os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree", "unlink", "rmdir"})
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
#: Keywords of trainers and loggers that hold the folder into which they write. Some of these take the name of a file.
_FOLDER_KEYWORDS = frozenset({"output_dir", "default_root_dir", "dirpath", "save_dir", "logging_dir", "export_dir"})
#: Trainers and loggers whose first argument, or `filepath`, is such a folder or file.
_WRITERS = re.compile(r"\w*TrainingArguments|ModelCheckpoint|CSVLogger|TensorBoardLogger")
#: Names of classes that may be a trainer or logger: none that says that it reads.
_MAY_WRITE = re.compile(r"(?!(?i:\w*(?:load|read|open)|\w*dataset\Z))[A-Z]\w*")
#: Methods of `df.write` in Spark.
_SPARK_METHODS = frozenset({"parquet", "csv", "json", "orc", "text", "save"})
#: Methods of paths that change files without an argument.
_PATH_METHODS = frozenset({"unlink", "touch", "rmdir"})
#: Methods of paths that write the file.
_METHODS_OF_FILES = frozenset({"write_text", "write_bytes"})
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
#: Functions of these that open a file of many parts, which is read to add one.
_CONTAINERS = frozenset(
    {
        "h5py.File",
        "netCDF4.Dataset",
        "zipfile.ZipFile",
        "tarfile.open",
        "tables.open_file",
        "pandas.HDFStore",
        "zarr.open",
    }
)
_WRITING_MODE = re.compile(r"[waxcn][bt+]*(?:[:|]\w*)?|r[bt]*\+[bt]*")


@dataclass(frozen=True, slots=True)
class Destination:
    """A file or folder that a call writes, makes or removes."""

    #: The expression that names it; None if the call has none.
    node: ast.expr | None
    #: Whether the call may also read what is there.
    is_read: bool = False
    #: Whether something is changed if it is there already.
    is_changed: bool = True
    #: Whether it is only removed.
    is_removed: bool = False
    #: Whether it is a folder into which is written, and whose other files stay as they are.
    is_folder: bool = False

    @property
    def path(self) -> str:
        """The literal path, or ""."""
        return read_path(self.node)


def find_destinations(call: ast.Call, names: Names) -> Iterator[Destination]:
    """Yield the files and folders that a call writes, makes or removes; none for a function of the cells themselves."""
    if not names.is_own(call.func):
        yield from (each for each in _find_by_name(call, names) if not names.is_no_file(each.node))


def _find_by_name(call: ast.Call, names: Names) -> Iterable[Destination]:
    """Return the destinations of a call by the full name of what it calls, also those that are no files."""
    name, method = names.spell(call.func), get_method(call)
    if name in _WRITES:
        given = get_argument(call, _WRITES[name]) or _get_named(call)
        is_read, written = given is None or name in _ALSO_READ, given or get_argument(call, 0)
        return [Destination(written, is_read=is_read, is_removed=name in _REMOVES)]
    if name in _OPENS:
        opened = get_argument(call, 0, "file") or _get_destination(call)
        modes = [get_argument(call, _OPENS[name], "mode")]
        return _open(opened, modes, name=name, by_default=name in _OPENS_TO_WRITE)
    if name == "os.makedirs" or (method == "mkdir" and name != "os.mkdir"):
        folder = get_receiver(call) if method == "mkdir" else get_argument(call, 0)
        return [Destination(folder, is_changed=not any(keyword.arg == "exist_ok" for keyword in call.keywords))]
    if method == "open":
        return _open(get_receiver(call), [get_argument(call, place, "mode") for place in (0, 1)])
    return _find_by_method(call, name, method, names)


def _find_by_method(call: ast.Call, name: str, method: str, names: Names) -> Iterable[Destination]:
    """Return the destinations of a call by the last name of what it calls and its arguments."""
    if method in _WRITING_METHODS or (method == "save" and _is_path(get_argument(call, 0), names)):
        return [Destination(get_receiver(call) if method in _METHODS_OF_FILES else _get_destination(call))]
    if method in {"rename", "replace"} and _is_made_path(get_receiver(call), names):
        return [Destination(get_receiver(call), is_read=True)]
    if method == "extractall":
        folder = get_argument(call, 0, "path")
        return [Destination(folder or get_receiver(call), is_read=folder is None)]
    if method in _PATH_METHODS and not call.args:
        return [Destination(get_receiver(call), is_removed=method in _REMOVES)]
    if method in _SPARK_METHODS and any(_is_attribute(each, "write") for each in list_receivers(call)):
        return [Destination(get_argument(call, 0))]
    if _WRITING_NAME.fullmatch(name.rpartition(".")[2] or method):
        texts = [each for each in [*call.args[:3], *_list_given(call)] if _is_file_text(each)]
        return [Destination(each, is_read=len(texts) > 1) for each in texts]  # one of several may be the source
    return _find_folders(call, name.rpartition(".")[2])


def _find_folders(call: ast.Call, name: str) -> list[Destination]:
    """Return the folders, or files, into which the trainer or logger that a call makes will write."""
    is_writer = _WRITERS.fullmatch(name) is not None
    first = call.args[:1] if is_writer else []
    keywords = _FOLDER_KEYWORDS if is_writer or _MAY_WRITE.fullmatch(name) else frozenset()
    named = [
        keyword.value
        for keyword in call.keywords
        if keyword.arg in keywords or (is_writer and keyword.arg == "filepath")
    ]
    return [Destination(each, is_folder=not _is_file_text(each)) for each in [*first, *named] if not _is_nothing(each)]


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str)


def _list_given(call: ast.Call) -> list[ast.expr]:
    """Return the values of the keywords that name a path or buffer."""
    named = [keyword for keyword in call.keywords if keyword.arg is not None]
    return [keyword.value for keyword in named if _DESTINATION_KEYWORD.fullmatch(keyword.arg or "")]


def _open(
    opened: ast.expr | None, modes: Iterable[ast.expr | None], *, name: str = "", by_default: bool = False
) -> list[Destination]:
    """Return the file that the function `name` opens, if one of the modes writes; without a mode, `by_default` says."""
    given = [str(mode.value) if isinstance(mode, ast.Constant) else "" for mode in modes if mode is not None]
    writing = [mode for mode in given if _WRITING_MODE.fullmatch(mode)]
    if not (writing or (by_default and not given)):
        return []
    reading = ("r", "a") if name in _CONTAINERS else "r"
    return [Destination(opened, is_read=not writing or writing[0].startswith(reading))]


def _get_destination(call: ast.Call) -> ast.expr | None:
    """Return the destination of a method that writes: its first argument, or a keyword that names a path or buffer."""
    return call.args[0] if call.args else _get_named(call)


def _get_named(call: ast.Call) -> ast.expr | None:
    """Return the value of the first keyword that names a path or buffer; None if there is none."""
    return next(iter(_list_given(call)), None)


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_made_path(node: ast.expr | None, names: Names) -> bool:
    """Return whether an expression makes a path: `Path(...)`, `os.path.join(...)`, or one of these `/` more."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _is_path(node.left, names) or is_text(node.right)
    return isinstance(node, ast.Call) and names.spell(node.func) in {"pathlib.Path", "Path", "os.path.join"}


def _is_path(node: ast.expr | None, names: Names) -> bool:
    """Return whether an argument is a text, makes a path, or is a variable whose name says that it holds one."""
    if isinstance(node, ast.Call) and names.spell(node.func) == "str" and node.args:
        return _is_path(node.args[0], names)
    named = node.id if isinstance(node, ast.Name) else ""
    return is_text(node) or _is_made_path(node, names) or bool(named and names_path(named))


def _is_file_text(node: ast.expr) -> bool:
    """Return whether an expression is a text with the ending of a file, also one into which values are put."""
    if isinstance(node, ast.JoinedStr):
        return is_file_name("".join(read_text(part) or "x" for part in node.values))
    return is_text(node) and is_file_name(read_path(node))
