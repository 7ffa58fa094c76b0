"""The settings of the Hub's configuration file as one look at it finds them.

Rules
-----
Like the Hub: the file is executed as the Hub executes it, with the files that it loads by `load_subconfig`. All of them
are watched.

By content: a change is noticed by content, so that `touch` and an editor's rename do nothing, and no quick edit is
missed. The content must be the same twice in a row before it is executed: an editor may still be writing it.

Never half: a file with an error, or one that lost too much (`last_good`), changes nothing. The settings before it stay
in force, and `error` says where and what. At the start these are the stored ones.

Copied: each look works on a copy, which becomes the policy only once the look has ended. See `policy_file`.
"""

import copy
import hashlib
import logging
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Self

from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import AdminError

from .config import Settings, build_settings
from .config_file import ConfigFileError, ExecutedFiles, Execution, FileIdentity, identify, load_config
from .config_lines import find_duplicates, find_line
from .early_execution import EarlyExecution
from .last_good import LastGood, explain_loss
from .process_end import forbid_process_end
from .reading import Abandoned
from .sections import SECTIONS
from .start_sections import StartSections
from .told_errors import check_values, describe_error, describe_refusal, find_trait
from .traits import SettingsError
from .trial import Trial, no_trial
from .twin_names import describe_twins

log = logging.getLogger(__name__)


class LoadedPolicy:
    """The policy of a config file, and what the last look at its files found. Without a look it has no settings."""

    #: The last settings without an error.
    current: Settings

    def __init__(
        self,
        path: Path,
        nodes: Callable[[], Sequence[Node] | None],
        sections: StartSections,
        stored: LastGood | None,
        trial: Trial = no_trial,
    ) -> None:
        """Start without settings; the arguments are those of `PolicyFile`."""
        self._path = path
        self._trial = trial
        self._nodes = nodes
        self._sections = sections
        self._names = _list_sections(sections)
        self._loaded: tuple[Path, ...] = (path,)
        self._identities: dict[Path, FileIdentity] = {}
        self._seen: dict[Path, str] = {}
        self._changing = self._seen
        #: A sentence that says why the present file is not in force; None if it is in force.
        self.error: str | None = None
        #: Sentences about entries in the settings in force that are probably mistakes.
        self.warnings: tuple[str, ...] = ()
        #: The policy in force in a form that can be stored.
        self.last_good = stored
        #: What the last execution set, also in sections that are not of the policy; None if it failed.
        self.config: Config | None = None
        #: The files of the last execution, each with its identity when the execution began.
        self.executed = ExecutedFiles()

    def copy(self) -> Self:
        """Return a copy that another thread may change by a look."""
        return copy.copy(self)

    def identities(self) -> dict[Path, FileIdentity]:
        """Return the identities of the watched files when the look began, and of files executed since then."""
        return {**self._identities, **self.executed}

    def is_settled(self) -> bool:
        """Return whether the last look found unchanged content, and no file that is being written."""
        return self._seen == self._changing

    def load_first(self, early: EarlyExecution | None = None) -> bool:
        """Load the file, or restore the stored policy if the file cannot be used. Returns True.

        If the file has not changed since `early` executed it, it is not executed again. Raises `ConfigFileError` if
        neither the file nor a stored policy can be used.
        """
        self._start_look()
        try:
            self.current = self._load(early)
        except ConfigFileError as error:
            self.restore(error)
        return True

    def restore(self, error: ConfigFileError) -> None:
        """Put the stored policy in force because of `error`.

        Raises `error` if there is none, or if it does not fit this machine any more.
        """
        if self.last_good is None:
            raise error
        try:
            self.current = build_settings(self.last_good.to_config(), self._nodes(), self._sections.names)
        except SettingsError:
            raise error from None  # the machine has changed too: the file is what has to be mended
        self.error = str(error)

    def look(self) -> bool:
        """Load the file again if it, or a file that it loads, has new content that is the same at two looks in a row.

        Returns True if new settings are in force or the new file was refused, and False if nothing changed.
        """
        self._start_look()
        found = self._fingerprints()
        if found == self._seen or found != self._changing:
            self._changing = found
            return False
        try:
            self.current = self._load()
        except ConfigFileError as error:
            self.error = str(error)
        else:
            self.error = None
        return True

    def _start_look(self) -> None:
        self._identities = {path: identify(path) for path in self._loaded}
        self.executed = ExecutedFiles()

    def _execute(self, early: EarlyExecution | None) -> Config:
        """Return what the file sets, from `early` if the file has not changed since; raise `ConfigFileError`."""
        if early is not None:
            self.executed = early.executed  # before the wait: a file that hangs is named
            config = early.take()
            if config is not None:
                return config
            self.executed = ExecutedFiles()
        self._trial(self._path, self.executed)
        return load_config(self._path, self.executed)

    def _load(self, early: EarlyExecution | None = None) -> Settings:
        """Return the settings of the file, watch all files that it loads, and keep the policy as the last good one.

        Warnings about the files are replaced. Raises `ConfigFileError` if the file has an error or has lost too much of
        the policy in force; the last good policy and the warnings then stay.
        """
        executed, self.config = self._fingerprints(), None
        try:
            self.config = config = self._execute(early)
        finally:
            # A broken file may not have loaded its subconfigs, so the earlier ones stay watched.
            self._loaded = tuple(dict.fromkeys([self._path, *self.executed, *self._loaded]))
            # A file that is edited while it is executed still has its earlier content here, and is loaded again.
            self._seen = self._changing = self._fingerprints() | executed
        loaded = tuple(self.executed)
        try:
            with forbid_process_end():
                check_values(config, self._names)
                found = self._find_policy(config, loaded)
                settings = build_settings(config, self._nodes(), self._sections.names)
                self._sections.check(config)
                warnings = _find_warnings(loaded, settings)
        except (ConfigFileError, Abandoned):
            raise
        except SettingsError as error:
            raise ConfigFileError(f"{self._place(error.trait, error.path)}: {error}") from error
        except (TraitError, AdminError) as error:  # of a class that reads its section at the start
            told = describe_refusal(error)
            raise ConfigFileError(f"{self._place(find_trait(told), ())}: {told}") from error
        except RecursionError as error:
            raise ConfigFileError(
                f"{self._path}: a setting has a value that contains itself, or that is nested too deeply. Undo the "
                "last change of the file."
            ) from error
        except BaseException as error:  # the administrator's values may be of any type
            log.exception("settings: a value cannot be used")
            raise ConfigFileError(
                f"{self._path}: a setting has a value that cannot be used ({describe_error(error)}). Undo the "
                "last change of the file. The log of the service has the details."
            ) from error
        self.last_good, self.warnings = found, warnings
        return settings

    def _find_policy(self, config: Config, loaded: Sequence[Path]) -> LastGood:
        """Return the policy of a config that these files made.

        Raises `ConfigFileError` if the files have lost too much of the policy in force.
        """
        found = LastGood.of(config, self._names, loaded, self.last_good)
        loss = None if self.last_good is None else explain_loss(self.last_good, found)
        if loss is None and self.last_good is not None and self.last_good.sections and not any(config.values()):
            loss = (
                f"{self._path} sets nothing any more. If the file was cut off, write it again. If all settings shall "
                "have their defaults, add this line: c.SchedulerService.allow_empty = []"
            )
        if loss is not None:
            raise ConfigFileError(loss)
        return found

    def _place(self, trait: str, path: tuple[str, ...]) -> str:
        """Return the file and line where a trait is set last; only the first file if none is found.

        `path` are keys inside the value of the trait.
        """
        first = self.executed.first
        return (trait and first and _find_last(first, trait, path)) or str(self._path)

    def _fingerprints(self) -> dict[Path, str]:
        """Return a hash of the content of each watched file; for what cannot be read, its kind or the error."""
        found = {}
        for path in self._loaded:
            try:
                kind = stat.S_IFMT(path.stat().st_mode)  # only a file is read: to open anything else may wait for ever
                found[path] = hashlib.sha256(path.read_bytes()).hexdigest() if kind == stat.S_IFREG else f"kind {kind}"
            except OSError as error:
                found[path] = repr(error.errno)
            except ValueError:
                found[path] = "no path"
        return found


def find_policy(config: Config, executed: Collection[Path], sections: StartSections) -> LastGood:
    """Return the policy of a config that these files made.

    Raises `SettingsError` for settings that are refused whatever devices there are, and the errors of `sections.check`.
    """
    names = _list_sections(sections)
    with forbid_process_end():
        check_values(config, names)
        build_settings(config, None, sections.names)
        sections.check(config)
        return LastGood.of(config, names, executed)


def _list_sections(sections: StartSections) -> frozenset[str]:
    """Return the names of all our sections of a config."""
    return frozenset({"SchedulerService", *sections.names, *(section.__name__ for section in SECTIONS)})


def _find_warnings(loaded: Sequence[Path], settings: Settings) -> tuple[str, ...]:
    """Return a warning for all that is written twice in these files, and for twin names of queues."""
    return (
        *(
            f"{path}, {found}"
            for path in dict.fromkeys(loaded)
            for found in find_duplicates(path.read_text(encoding="utf-8", errors="replace"))
        ),
        *describe_twins([entry.queue.name for entry in settings.training]),
    )


def _find_last(execution: Execution, trait: str, path: tuple[str, ...]) -> str | None:
    """Return the file and line where one execution set a trait last; None if no line is found.

    What a loaded file sets is set at the line that loads it.
    """
    source = execution.path.read_text(encoding="utf-8", errors="replace")
    line = find_line(source, trait, path)
    by_line = sorted(execution.loads, key=lambda load: load.line)  # stable: of one line, in order of execution
    for load in reversed(by_line):
        if line is not None and line > load.line:
            break
        found = _find_last(load, trait, path)
        if found is not None:
            return found
    return None if line is None else f"{execution.path}, line {line}"
