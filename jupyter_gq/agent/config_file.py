"""The configuration file of an agent, executed with a deadline, and its errors told as sentences."""

import stat
import threading
import traceback
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeGuard

from traitlets.config import Config
from traitlets.config.loader import FileConfigLoader, JSONFileConfigLoader, PyFileConfigLoader

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten, strip_controls

#: Seconds in which the file must be read and executed.
READ_TIMEOUT: Final = 20.0
#: Most characters of an error's text.
_LONGEST: Final = 500


def load_config(path: Path, timeout: float = READ_TIMEOUT) -> Config:
    """Return what a file of Python or, if its name ends with .json, of JSON sets.

    Raises `AdminError` with the path, the line and what to do if the file is missing, is no regular file, has an error,
    or is not read within `timeout` seconds. The thread that reads it then goes on until the process ends.
    """
    kind: type[FileConfigLoader] = JSONFileConfigLoader if path.suffix == ".json" else PyFileConfigLoader
    outcome: Future[Config] = Future()

    def read() -> None:
        try:
            _expect_file(path)
            outcome.set_result(kind(path.name, str(path.parent)).load_config())
        except BaseException as error:  # noqa: BLE001 - the code of an administrator may raise anything
            outcome.set_exception(_tell(error, path))  # told here, because the error's class may be slow to tell it

    threading.Thread(target=read, name="read settings", daemon=True).start()
    try:
        return outcome.result(timeout)
    except TimeoutError as error:
        raise AdminError(
            f"{path}: the file has not been read within {timeout:g} s. A line of it, or its file system, waits. "
            "Mend the file."
        ) from error


def _tell(error: BaseException, path: Path) -> AdminError:
    """Return the error as a sentence with its place; one that is a sentence already stays as it is."""
    if type(error) is AdminError:
        return error
    told = AdminError(f"{_find_place(error, path)}: {_describe(error)}. Mend the file.")
    told.__cause__ = error
    return told


def _expect_file(path: Path) -> None:
    """Raise `AdminError` if there is no regular file at a path: to open anything else may wait for ever."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise AdminError(f"{quoted(str(path))}: the file cannot be read ({why}). Check the path.") from error
    if not stat.S_ISREG(mode):
        raise AdminError(f"{path}: this is no regular file, so it is not opened. Put a file there.")


def _find_place(error: BaseException, path: Path) -> str:
    """Return the path with the line of the file at which an error was raised, as far as that is known."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if _is_of_the_syntax(error) and error.filename == str(path) and error.lineno is not None:
        lines.append(error.lineno)
    return f"{path}, line {lines[-1]}" if lines else str(path)


def _is_of_the_syntax(error: BaseException) -> TypeGuard[SyntaxError]:
    """Return whether Python itself says where the syntax is wrong; other classes may have any properties."""
    return type(error) in {SyntaxError, IndentationError, TabError}


def _describe(error: BaseException) -> str:
    """Return the type and the text of an error as one line; only the type if the error does not tell more."""
    try:
        text = str(error.msg) if _is_of_the_syntax(error) else str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - the code of an administrator's class may raise anything
        text = ""
    try:
        name = str.__str__(type(error).__name__)
    except BaseException:  # noqa: BLE001 - as above
        name = "an error"
    return strip_controls(shorten(": ".join(filter(None, [name, text])), _LONGEST)).rstrip(".")
