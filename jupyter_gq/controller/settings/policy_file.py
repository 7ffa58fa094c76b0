"""The hub's config file as the source of the settings: loaded with traitlets, watched, never half in force.

Rules
-----
Like the Hub: the file is executed as the Hub executes it, with the files that it loads by `load_subconfig`. All of them
are watched.

By content: a change is noticed by content, so that `touch` and an editor's rename do nothing, and no quick edit is
missed.

Never half: a file with an error changes nothing. The last settings stay in force, and `error` says where and what.

In a thread: files are read and executed in a thread, so that the service goes on answering.
"""

import ast
import asyncio
import hashlib
import logging
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import AdminError

from .config import Settings, build_settings
from .traits import SettingsError

log = logging.getLogger(__name__)


class ConfigFileError(AdminError):
    """The config file cannot be used; the message names the file, the line, the trait, the value and the fix."""


class PolicyFile:
    """The settings of a config file. The constructor raises `ConfigFileError` if the first load fails."""

    def __init__(
        self, path: Path, nodes: Callable[[], Sequence[Node]], also: Mapping[str, Collection[str]] | None = None
    ) -> None:
        """Load the file. `nodes` returns the present nodes, against whose devices quotas and pools are checked.

        `also` names the traits of further sections that belong to the service; other names in them are refused.
        """
        self._path = path.absolute()
        self._nodes = nodes
        self._also = also or {}
        self._loaded: tuple[Path, ...] = (self._path,)
        self._error: str | None = None
        self._seen = self._fingerprint()
        self._current = self._load()

    @property
    def current(self) -> Settings:
        """The last settings without an error."""
        return self._current

    @property
    def error(self) -> str | None:
        """Why the present file is not in force; None if it is."""
        return self._error

    async def refresh(self) -> bool:
        """Load the file again if it, or a file that it loads, has other content; tell whether anything changed."""
        return await asyncio.to_thread(self._refresh)

    def _refresh(self) -> bool:
        """Do the work of `refresh` in a thread."""
        seen = self._fingerprint()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            settings = self._load()
        except ConfigFileError as error:
            if str(error) != self._error:
                log.error("settings refused, the earlier ones stay in force: %s", error)  # noqa: TRY400 - no defect of ours
            self._error = str(error)
            return True
        self._current, self._error = settings, None
        log.info("settings loaded again from %s", self._path)
        return True

    def _load(self) -> Settings:
        """Return the settings of the file and watch the files that it loads; raise `ConfigFileError`."""
        loaded: list[Path] = []
        try:
            config = _load_config(self._path, loaded)
        finally:
            # A broken file may not have loaded its subconfigs, so the earlier ones stay watched.
            self._loaded = tuple(dict.fromkeys([self._path, *loaded, *self._loaded]))
            self._seen = self._fingerprint()
        try:
            return build_settings(config, self._nodes(), self._also)
        except SettingsError as error:
            raise ConfigFileError(f"{_place(loaded, error)}: {error}") from error

    def _fingerprint(self) -> str:
        """Return a hash of the content of all watched files."""
        digest = hashlib.sha256()
        for path in self._loaded:
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                digest.update(repr(error.errno).encode())
            digest.update(b"\0")
        return digest.hexdigest()


class _WatchedLoader(PyFileConfigLoader):
    """A loader that lists every file that it executes, including those that `load_subconfig` asks for."""

    executed: list[Path]

    def _read_file_as_dict(self) -> None:
        self.executed.append(Path(self.full_filename))
        super()._read_file_as_dict()


def _load_config(path: Path, executed: list[Path]) -> Config:
    """Execute the file as the Hub does, and add the executed files to `executed`.

    Raises `ConfigFileError` with the file and line of the fault.
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
    """Return the last line of the executed files in a traceback; "?" if there is none."""
    names = {str(path) for path in executed}
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return lines[-1] if lines and lines[-1] else "?"


def _place(executed: Sequence[Path], error: SettingsError) -> str:
    """Return the file and line of the last place that sets the trait; only the file if no line is found."""
    for path in reversed(executed):
        line = find_line(path.read_text(encoding="utf-8", errors="replace"), error.trait, error.path)
        if line is not None:
            return f"{path}, line {line}"
    return str(executed[0])


def find_line(source: str, trait: str, path: Sequence[str] = ()) -> int | None:
    """Return the line that sets `c.<trait>` last, or the line of the key to which `path` leads; None if none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    wanted = trait.split(".")
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _mentions(node, wanted)]
    if not found:
        return None
    statement: ast.AST = max(found, key=lambda node: node.lineno)
    line: int = statement.lineno  # type: ignore[attr-defined]
    for key in path:
        inner = _value_at(statement, key)
        if inner is None:
            break
        line, statement = inner
    return line


def _mentions(statement: ast.stmt, wanted: Sequence[str]) -> bool:
    """Tell whether a simple statement names `<anything>.Section.trait`, or `.Section` if `wanted` has only that."""
    if isinstance(statement, ast.FunctionDef | ast.If | ast.For | ast.With | ast.Try | ast.While | ast.ClassDef):
        return False
    return any(_names(node)[: len(wanted)] == wanted for node in ast.walk(statement) if isinstance(node, ast.Attribute))


def _names(node: ast.Attribute) -> list[str]:
    """Return the attribute names, such as ["FixedQuota", "users"] for `c.FixedQuota.users`.

    Returns [] if the expression does not start with a plain name.
    """
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return names[::-1] if isinstance(inner, ast.Name) else []


def _value_at(within: ast.AST, key: str) -> tuple[int, ast.AST] | None:
    """Return the line and value of `key` in the first dict literal or keyword argument inside `within` that has it."""
    for node in ast.walk(within):
        if isinstance(node, ast.Dict):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    return name.lineno, value
        if isinstance(node, ast.keyword) and node.arg == key:
            return node.value.lineno, node.value
    return None
