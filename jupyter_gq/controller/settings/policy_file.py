"""The settings of the Hub's configuration file, which the service follows while it runs.

Rules
-----
Like the Hub: the file is executed as the Hub executes it, with the files that it loads by `load_subconfig`. All of them
are watched.

By content: a change is noticed by content, so that `touch` and an editor's rename do nothing, and no quick edit is
missed. The content must be the same twice in a row before it is executed: an editor may still be writing it.

Never half: a file with an error, or one that lost too much (`last_good`), changes nothing. The settings before it stay
in force, and `error` says where and what. At the start these are the stored ones.

In a thread: files are read and executed in a thread, so that the service goes on answering.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from jupyter_gq.domain.cluster import Node

from .config import Settings, build_settings
from .config_file import ConfigFileError, load_config
from .config_lines import find_duplicates, find_line
from .last_good import LastGood, explain_loss
from .sections import SECTIONS
from .traits import SettingsError

log = logging.getLogger(__name__)


class PolicyFile:
    """The settings of a config file. Without stored settings the first load must succeed, else `ConfigFileError`."""

    def __init__(
        self,
        path: Path,
        nodes: Callable[[], Sequence[Node] | None],
        also: Mapping[str, Collection[str]] | None = None,
        stored: LastGood | None = None,
    ) -> None:
        """Load the file, or restore `stored`, the last good policy of an earlier service, if the file cannot be used.

        `nodes` returns the present nodes, against whose devices quotas and pools are checked; None if they are not
        known, and nothing is checked against them. `also` names the traits
        of further sections that belong to the service; other names in them are refused. Raises `ConfigFileError` if
        neither the file nor `stored` can be used.
        """
        self._path = path.absolute()
        self._nodes = nodes
        self._also = also or {}
        self._names = {"SchedulerService", *self._also, *(section.__name__ for section in SECTIONS)}
        self._loaded: tuple[Path, ...] = (self._path,)
        self._error: str | None = None
        self._warnings: tuple[str, ...] = ()
        self._last_good = stored
        self._seen = self._changing = self._fingerprints()
        self._current = self._load() if stored is None else self._load_or_restore(stored)

    @property
    def current(self) -> Settings:
        """The last settings without an error."""
        return self._current

    @property
    def error(self) -> str | None:
        """A sentence that says why the present file is not in force; None if it is in force."""
        return self._error

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about entries in the settings in force that are probably mistakes."""
        return self._warnings

    @property
    def last_good(self) -> LastGood | None:
        """The policy in force in a form that can be stored."""
        return self._last_good

    async def refresh(self) -> bool:
        """Load the file again if it, or a file that it loads, has new content that is the same at two calls in a row.

        Returns True if new settings are in force or the new file was refused, and False if nothing changed.
        """
        return await asyncio.to_thread(self._refresh)

    def _refresh(self) -> bool:
        """Do the work of `refresh` in the calling thread, and return the same; a refused file is logged."""
        found = self._fingerprints()
        if found == self._seen:
            self._changing = found
            return False
        if found != self._changing:
            self._changing = found
            return False
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
        """Return the settings of the file, watch all files that it loads, and keep the policy as the last good one.

        Warnings about the files are replaced. Raises `ConfigFileError` if the file has an error or has lost too much of
        the policy in force; the last good policy and the warnings then stay.
        """
        loaded: list[Path] = []
        executed = self._fingerprints()
        try:
            config = load_config(self._path, loaded)
        finally:
            # A broken file may not have loaded its subconfigs, so the earlier ones stay watched.
            self._loaded = tuple(dict.fromkeys([self._path, *loaded, *self._loaded]))
            # A file that is edited while it is executed still has its earlier content here, and is loaded again.
            self._seen = self._changing = self._fingerprints() | executed
        found = LastGood.of(config, self._names, loaded)
        loss = None if self._last_good is None else explain_loss(self._last_good, found)
        if loss is not None:
            raise ConfigFileError(loss)
        try:
            settings = build_settings(config, self._nodes(), self._also)
        except SettingsError as error:
            raise ConfigFileError(f"{_place(loaded, error)}: {error}") from error
        except Exception as error:  # the administrator's values may be of any type
            log.exception("settings: a value cannot be used")
            raise ConfigFileError(
                f"{self._path}: a setting has a value that cannot be used ({type(error).__name__}: {error}). Undo the "
                "last change of the file. The log of the service has the details."
            ) from error
        self._last_good = found
        self._warn(loaded)
        return settings

    def _load_or_restore(self, stored: LastGood) -> Settings:
        """Return the settings of the file; if the file cannot be used, log why, and return the last good settings.

        Raises `ConfigFileError` if the last good settings do not fit this machine either.
        """
        try:
            return self._load()
        except ConfigFileError as error:
            try:
                settings = build_settings(stored.to_config(), self._nodes(), self._also)
            except SettingsError:
                raise error from None  # the machine has changed too: the file is what has to be mended
            self._error = str(error)
            log.error("settings refused, the service starts with the last good ones: %s", error)  # noqa: TRY400 - no defect of ours
            return settings

    def _warn(self, loaded: Sequence[Path]) -> None:
        """Store and log a warning for each key or setting that is written twice in these files."""
        self._warnings = tuple(
            f"{path}, {found}"
            for path in dict.fromkeys(loaded)
            for found in find_duplicates(path.read_text(encoding="utf-8", errors="replace"))
        )
        for warning in self._warnings:
            log.warning("settings: %s", warning)

    def _fingerprints(self) -> dict[Path, str]:
        """Return a hash of the content of each watched file; for a file that cannot be read, the error."""
        found = {}
        for path in self._loaded:
            try:
                found[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                found[path] = repr(error.errno)
        return found


def _place(executed: Sequence[Path], error: SettingsError) -> str:
    """Return the file and line where the trait of the error is set last; only the first file if no line is found."""
    for path in reversed(executed):
        line = find_line(path.read_text(encoding="utf-8", errors="replace"), error.trait, error.path)
        if line is not None:
            return f"{path}, line {line}"
    return str(executed[0])
