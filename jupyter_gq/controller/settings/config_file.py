"""Executing the Hub's configuration file: its settings, the files that it loads, and the errors in it."""

import os
import stat
import traceback
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten

from .no_input import no_input
from .process_end import forbid_process_end
from .told_errors import describe_error

#: The inode, the time of the last change and the size of a file; None for a file that cannot be looked at.
FileIdentity = tuple[int, int, int] | None
#: Most files of which each loads the next one. More are files that load themselves, which would take long to fail.
_DEEPEST = 20


class ConfigFileError(AdminError):
    """An error in the config file. The message names the file, the line, the trait, the value and the fix."""


def identify(path: Path) -> FileIdentity:
    """Return what changes if a file is replaced or written; None for a file that cannot be looked at."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # a ValueError: no path has a NUL
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(kw_only=True, slots=True)
class Execution:
    """The execution of one file, with the executions of the files that it loads by `load_subconfig`."""

    path: Path
    #: The line of the loading file whose statement asked for this file; 0 = none, or unknown.
    line: int
    loads: list["Execution"] = field(default_factory=list)


class ExecutedFiles(dict[Path, FileIdentity]):
    """The files that one load executed, in order of opening, each with its identity when its execution began."""

    def __init__(self) -> None:
        """Start without files."""
        super().__init__()
        #: The execution of the first file; None before it.
        self.first: Execution | None = None
        #: The executions that have not ended; each was asked for by the one before it.
        self._active: list[Execution] = []
        #: A sentence for each file that a `load_subconfig` asked for and that does not exist.
        self.missing: list[str] = []

    def begin(self, path: Path) -> None:
        """Add a file that is about to be opened; raise `ConfigFileError` if files load each other without end."""
        self[path] = identify(path)
        if len(self._active) >= _DEEPEST:
            raise ConfigFileError(
                f"{path}: {_DEEPEST} files load each other by `load_subconfig` in a row. Load no file from itself."
            )
        execution = Execution(path=path, line=_find_loading_line(self._active[-1].path) if self._active else 0)
        if self._active:
            self._active[-1].loads.append(execution)
        else:
            self.first = execution
        self._active.append(execution)

    def note_missing(self, name: str) -> None:
        """Add a sentence to `missing`: the file that is executed now asked for a file `name` that does not exist."""
        if self._active:
            path = self._active[-1].path
            self.missing.append(
                f"{path}, line {_find_loading_line(path)}: load_subconfig asks for {quoted(name)}, and there is no "
                "such file that can be read, so that nothing is set by it."
            )

    def end(self) -> None:
        """Note that the execution that began last has ended."""
        self._active.pop()


def _find_loading_line(path: Path) -> int:
    """Return the line of the file's own statement that is executed now, also if it called a function; 0 if none is."""
    for frame, line in traceback.walk_stack(None):
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename == str(path):
            return line
    return 0


class _WatchedLoader(PyFileConfigLoader):
    """A loader that lists every file that it executes, including those that `load_subconfig` asks for."""

    executed: ExecutedFiles

    def _find_file(self) -> None:
        try:
            super()._find_file()
        except OSError:
            for folder in self.path if isinstance(self.path, list | tuple) else (self.path or "",):
                _refuse_special_file(Path(folder, self.filename))
            self.executed.note_missing(self.filename)
            raise

    def _read_file_as_dict(self) -> None:
        self.executed.begin(Path(self.full_filename))
        try:
            super()._read_file_as_dict()
        finally:
            self.executed.end()


def load_config(path: Path, executed: ExecutedFiles) -> Config:
    """Execute the file as the Hub does, and return the values that it sets.

    All executed files are added to `executed` before they are opened. Raises `ConfigFileError`, which names the line,
    if a file cannot be read, is no regular file, or raises an error.
    """
    if "\0" in str(path):
        raise ConfigFileError(f"{quoted(str(path))}: no path has a NUL character. Check the path.")
    # `load_subconfig` makes its loader from the class, so the list travels on a class made for this load.
    loader_class = type("_LoaderOfOneLoad", (_WatchedLoader,), {"executed": executed})
    loader = loader_class(path.name, str(path.parent))
    with no_input(), forbid_process_end():  # also while the error is told: its text is code of the file, too
        try:
            return loader.load_config()  # type: ignore[no-any-return]
        except ConfigFileError:
            raise
        except BaseException as error:  # the administrator's code may raise anything
            raise ConfigFileError(_describe_failure(error, path, executed)) from error


def _describe_failure(error: BaseException, path: Path, executed: Collection[Path]) -> str:
    """Return a sentence with the file, the line, an error of the executed files, and the fix."""
    if isinstance(error, ConfigFileNotFound):
        return f"{path}: there is no such file that can be read. Check the path and its rights."
    if isinstance(error, SyntaxError) and type(error).__module__ == SyntaxError.__module__:  # none of the file's own
        return _describe_syntax_error(error, path, executed)
    frame = _find_frame(error, executed)
    if isinstance(error, MemoryError | RecursionError) and _is_of_loader(error):
        return (
            f"{next(reversed(list(executed)), path)}: Python cannot compile this file ({describe_error(error)}). An "
            "expression in it is nested too deeply, or too long: divide it. Or there is too little memory for the file."
        )
    if frame is None and isinstance(error, MemoryError):
        return (
            f"{path}: there was not enough memory to read or execute this file ({describe_error(error)}). Try again, "
            "or give the process more memory."
        )
    where = f"{frame.filename}, line {frame.lineno}" if frame else f"{path}, line ?"
    if type(error) is KeyError and _is_of_environ(error):
        return (
            f"{where}: the environment variable {quoted(str(error.args[0]))} is not set. The Hub gives the service "
            "the variables that the file names when the Hub starts: set it for the Hub, and start the Hub again. For a "
            "command, set it in your shell."
        )
    if _is_of_section(error):
        return (
            f"{where}: a section is set as a whole. Set each of its values by a line of its own, as in "
            "c.IdlePolicy.after = 1800."
        )
    return f"{where}: {describe_error(error)}. Mend that line."


def _describe_syntax_error(error: SyntaxError, path: Path, executed: Collection[Path]) -> str:
    """Return a sentence about a file that is not valid Python, or not text."""
    said = shorten(str(error.msg))
    if not error.lineno:
        return f"{next(reversed(list(executed)), path)}: this is not text in UTF-8 ({said}). Write it again."
    return f"{error.filename or path}, line {error.lineno}: this is not valid Python ({said}). Mend that line."


def _find_frame(error: BaseException, executed: Collection[Path]) -> traceback.FrameSummary | None:
    """Return the innermost frame of the executed files in an error's traceback; None if there is none."""
    names = {str(path) for path in executed}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return frames[-1] if frames else None


def _is_of_loader(error: BaseException) -> bool:
    """Return whether an error was raised where a file is read and compiled, and by no code of that file."""
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return innermost.f_code is PyFileConfigLoader._read_file_as_dict.__code__


def _is_of_environ(error: KeyError) -> bool:
    """Return whether `os.environ` raised the error, so that its key is the name of a variable that is not set.

    The key of any other mapping may be the value of a variable, which may be a secret.
    """
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return innermost.f_code is type(os.environ).__getitem__.__code__ and error.args[0] not in os.environ


def _is_of_section(error: BaseException) -> bool:
    """Return whether an error says that a section of a config is set as a whole.

    The text of such an error has all values of the section, also secret ones, so nobody must see it.
    """
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return isinstance(error, ValueError) and innermost.f_code is Config.__setitem__.__code__


def _refuse_special_file(path: Path) -> None:
    """Raise `ConfigFileError` if the path is a folder, a pipe, a socket or a device; to open one may wait for ever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # the loader says what is wrong
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise ConfigFileError(f"{path}: this is {kind} and no regular file, so it is not opened. Put a file there.")
