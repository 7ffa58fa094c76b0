"""Executing the Hub's configuration file: its settings, the files that it loads, and the errors in it."""

import traceback
from collections.abc import Sequence
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from jupyter_gq.domain.errors import AdminError


class ConfigFileError(AdminError):
    """An error in the config file. The message names the file, the line, the trait, the value and the fix."""


class _WatchedLoader(PyFileConfigLoader):
    """A loader that lists every file that it executes, including those that `load_subconfig` asks for."""

    executed: list[Path]

    def _read_file_as_dict(self) -> None:
        self.executed.append(Path(self.full_filename))
        super()._read_file_as_dict()


def load_config(path: Path, executed: list[Path]) -> Config:
    """Execute the file as the Hub does, and return the values that it sets.

    The paths of all executed files are appended to `executed`, also if one of them fails. Raises `ConfigFileError`,
    which names the line, if the file cannot be read or raises an error.
    """
    # `load_subconfig` makes its loader from the class, so the list travels on a class made for this load.
    loader_class = type("_LoaderOfOneLoad", (_WatchedLoader,), {"executed": executed})
    loader = loader_class(path.name, str(path.parent))
    try:
        return loader.load_config()  # type: ignore[no-any-return]
    except ConfigFileNotFound as error:
        raise ConfigFileError(f"{path}: the file cannot be read ({error}). Check the path and its rights.") from error
    except SyntaxError as error:
        where = f"{error.filename or path}, line {error.lineno}"
        raise ConfigFileError(f"{where}: this is not valid Python ({error.msg}). Mend that line.") from error
    except (Exception, SystemExit) as error:  # the administrator's code may raise anything
        where = f"{path}, line {_line_of_traceback(error, executed)}"
        raise ConfigFileError(f"{where}: {type(error).__name__}: {error}. Mend that line.") from error


def _line_of_traceback(error: BaseException, executed: Sequence[Path]) -> int | str:
    """Return the innermost line of the executed files in an error's traceback; "?" if there is none."""
    names = {str(path) for path in executed}
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return lines[-1] if lines and lines[-1] else "?"
