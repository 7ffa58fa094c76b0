"""Executing the Hub's configuration file: its settings, the files that it loads, and the errors in it."""

import os
import stat
import traceback
from collections.abc import Collection
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted

from .process_end import forbid_process_end

#: The inode, the time of the last change and the size of a file; None for a file that cannot be looked at.
FileIdentity = tuple[int, int, int] | None


class ConfigFileError(AdminError):
    """An error in the config file. The message names the file, the line, the trait, the value and the fix."""


def identify(path: Path) -> FileIdentity:
    """Return what changes if a file is replaced or written; None for a file that cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class _WatchedLoader(PyFileConfigLoader):
    """A loader that lists every file that it executes, including those that `load_subconfig` asks for."""

    executed: dict[Path, FileIdentity]

    def _find_file(self) -> None:
        try:
            super()._find_file()
        except OSError:
            for folder in self.path if isinstance(self.path, list | tuple) else (self.path or "",):
                _refuse_special_file(Path(folder, self.filename))
            raise

    def _read_file_as_dict(self) -> None:
        path = Path(self.full_filename)
        self.executed[path] = identify(path)
        super()._read_file_as_dict()


def load_config(path: Path, executed: dict[Path, FileIdentity]) -> Config:
    """Execute the file as the Hub does, and return the values that it sets.

    All executed files are added to `executed` before they are opened. Raises `ConfigFileError`, which names the line,
    if a file cannot be read, is no regular file, or raises an error.
    """
    # `load_subconfig` makes its loader from the class, so the list travels on a class made for this load.
    loader_class = type("_LoaderOfOneLoad", (_WatchedLoader,), {"executed": executed})
    loader = loader_class(path.name, str(path.parent))
    try:
        with forbid_process_end():
            return loader.load_config()  # type: ignore[no-any-return]
    except ConfigFileError:
        raise
    except ConfigFileNotFound as error:
        raise ConfigFileError(
            f"{path}: there is no such file that can be read. Check the path and its rights."
        ) from error
    except SyntaxError as error:
        if not error.lineno:
            broken = next(reversed(executed), path)
            raise ConfigFileError(f"{broken}: this is not text in UTF-8 ({error.msg}). Write it again.") from error
        where = f"{error.filename or path}, line {error.lineno}"
        raise ConfigFileError(f"{where}: this is not valid Python ({error.msg}). Mend that line.") from error
    except BaseException as error:  # the administrator's code may raise anything
        frame = _find_frame(error, executed)
        where = f"{frame.filename}, line {frame.lineno}" if frame else f"{path}, line ?"
        if isinstance(error, KeyError) and _is_of_environ(error):
            raise ConfigFileError(
                f"{where}: the environment variable {quoted(str(error.args[0]))} is not set. The Hub gives the service "
                "the variables that the file names when the Hub starts: set it for the Hub, and start the Hub again."
            ) from error
        said = ": ".join(filter(None, [type(error).__name__, str(error)]))
        raise ConfigFileError(f"{where}: {said.rstrip('.')}. Mend that line.") from error


def _find_frame(error: BaseException, executed: Collection[Path]) -> traceback.FrameSummary | None:
    """Return the innermost frame of the executed files in an error's traceback; None if there is none."""
    names = {str(path) for path in executed}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return frames[-1] if frames else None


def _is_of_environ(error: KeyError) -> bool:
    """Return whether `os.environ` raised the error, so that its key is the name of a variable that is not set.

    The key of any other mapping may be the value of a variable, which may be a secret.
    """
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return innermost.f_code is type(os.environ).__getitem__.__code__ and error.args[0] not in os.environ


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
