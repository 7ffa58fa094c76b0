"""The settings of the Hub's configuration file, which the service follows while it runs.

Rules
-----
In a thread: files are read and executed in a thread, so that the service goes on answering. See `loaded_policy` for
what a look at the files does.

With a deadline: a file may hang, for instance on a network file system or in a line that waits. After `READ_TIMEOUT`,
`error` says so, and the settings before it stay in force. The result is taken if the thread ends later. Only a file
that is replaced or written is read in a new thread, and only a few threads may hang.

Scheduling goes on: no call of `refresh` waits long for a thread; a later call takes the result.

See docs/decisions/0104-abandon-the-reading-of-a-file-that-hangs.md.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Self

from traitlets.config import Config

from jupyter_gq.domain.cluster import Node

from . import reading
from .config import Settings
from .config_file import ConfigFileError, identify
from .early_execution import EarlyExecution
from .last_good import LastGood
from .loaded_policy import LoadedPolicy
from .queue_access import find_access_changes
from .reading import Reading
from .start_sections import NO_SECTIONS, StartSections
from .trial import Trial, no_trial

log = logging.getLogger(__name__)

#: The maximum number of threads that hang at the same time.
MOST_HANGING = 4


class PolicyFile:
    """The settings of a config file. Without stored settings the first load must succeed, else `ConfigFileError`."""

    def __init__(
        self,
        path: Path,
        nodes: Callable[[], Sequence[Node] | None],
        sections: StartSections = NO_SECTIONS,
        stored: LastGood | None = None,
        early: EarlyExecution | None = None,
        trial: Trial = no_trial,
    ) -> None:
        """Load the file, or restore `stored`, the last good policy of an earlier service, if the file cannot be used.

        `nodes` returns the present nodes, against whose devices quotas and pools are checked; None if they are not
        known, and nothing is checked against them. `sections` are those that the service reads at its start only.
        `early` may have begun to execute the file. Before any other execution, `trial` tries the file. Raises
        `ConfigFileError` if neither the file nor `stored` can be used.
        """
        self._path = path.absolute()
        self._threads: list[Reading[bool]] = []
        #: The look that has not ended, with the copy of the policy that it works on; None if there is none.
        self._pending: tuple[Reading[bool], LoadedPolicy] | None = None
        #: The check whether the files of that look were replaced; None if none goes on.
        self._check: Reading[bool] | None = None
        self._hang: str | None = None
        self._lasting_warnings: tuple[str, ...] = ()
        self._policy = LoadedPolicy(self._path, nodes, sections, stored, trial)
        first = self._policy.copy()
        look = Reading(lambda: first.load_first(early), None if early is None else early.reading)
        if look.wait_in_time():
            look.result()
            self._policy = first
        else:
            # The thread may not have begun, and then only `early` knows the file that hangs.
            files = {**first.identities(), **({} if early is None else early.executed)}
            self._policy.restore(ConfigFileError(self._describe_hang(look, files)))
            self._threads, self._pending = [look], (look, first)

    @classmethod
    def at_start(
        cls,
        path: Path,
        nodes: Callable[[], Sequence[Node] | None],
        sections: StartSections,
        stored: LastGood | None,
        early: EarlyExecution | None,
        trial: Trial = no_trial,
    ) -> Self:
        """Return the settings with which a service starts, and log its warnings, and why the file is not in force.

        The arguments and the errors are those of `PolicyFile`.
        """
        policy = cls(path, nodes, sections, stored, early, trial)
        if policy.error is not None:
            log.error("settings refused, the service starts with the last good ones: %s", policy.error)
        policy._log_warnings()
        return policy

    def warn_of_missing(self, sentences: Sequence[str]) -> None:
        """Log these sentences as warnings, and keep them first among `warnings` whatever the file becomes.

        They tell what is not in force until the service starts again.
        """
        self._lasting_warnings = tuple(sentences)
        for warning in self._lasting_warnings:
            log.warning("settings: %s", warning)

    @property
    def current(self) -> Settings:
        """The last settings without an error."""
        return self._policy.current

    @property
    def error(self) -> str | None:
        """A sentence that says why the present file is not in force; None if it is in force."""
        return self._hang or self._policy.error

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about entries in the settings in force that are probably mistakes, and about what they lack."""
        return (*self._lasting_warnings, *self._policy.warnings)

    @property
    def last_good(self) -> LastGood | None:
        """The policy in force in a form that can be stored."""
        return self._policy.last_good

    @property
    def config(self) -> Config | None:
        """The settings of the present file, of all its sections; None if it cannot be executed."""
        return self._policy.config

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each file that the present file loads by `load_subconfig` and that does not exist."""
        return tuple(self._policy.executed.missing)

    async def refresh(self) -> bool:
        """Load the file again if it, or a file that it loads, has new content that is the same at two calls in a row.

        Returns True if new settings are in force or the new file was refused, and False if nothing changed. A file
        that is not read within `READ_TIMEOUT` is refused, too.
        """
        before = self.error
        changed = await self._follow()
        if self.error is not None and self.error != before:
            log.error("settings refused, the earlier ones stay in force: %s", self.error)
        return changed or self.error != before

    async def _follow(self) -> bool:
        """Go on with the look that has not ended, or begin one; return whether something changed."""
        if self._pending is not None and await self._is_replaced(*self._pending):
            self._pending[0].abandon()
            await self._look()
        elif self._pending is None:
            await self._look()
        if self._pending is None:
            return False
        look, policy = self._pending
        if look.has_ended():
            return self._adopt(look, policy)
        if look.is_overdue():
            self._hang = self._describe_hang(look, policy.identities())
        return False

    async def _look(self) -> None:
        """Begin a look at the file in a new thread, and wait a moment for its end."""
        copied = self._policy.copy()
        look = self._start(copied.look)
        if look is not None:
            self._pending, self._check = (look, copied), None
            await look.wait_a_moment()

    def _adopt(self, look: Reading[bool], policy: LoadedPolicy) -> bool:
        """Take the policy of a look that has ended, and return whether something changed."""
        self._pending = self._check = None
        changed, before = look.result(), self._policy
        self._policy = policy
        if policy.is_settled():
            self._hang = None
        if policy.current is not before.current:
            log.info("settings loaded again from %s", self._path)
            for change in find_access_changes(before.current, policy.current):
                log.warning("settings: other users or groups may use %s", change)
            self._log_warnings()
        return changed

    async def _is_replaced(self, look: Reading[bool], policy: LoadedPolicy) -> bool:
        """Return whether a file that a look still reads is another one now; False until that is found out."""
        if look.has_ended():
            return False
        before = policy.identities()
        if self._check is None:
            self._check = self._start(lambda: before != {path: identify(path) for path in before})
            if self._check is not None:
                await self._check.wait_a_moment()
        if self._check is None or not self._check.has_ended():
            return False
        check, self._check = self._check, None
        return check.result()

    def _start(self, read: Callable[[], bool]) -> Reading[bool] | None:
        """Start to read in a thread; if too many threads hang already, set `error` and return None."""
        if self._do_too_many_hang():
            self._hang = self._describe_last_hang()
            return None
        started = Reading(read)
        self._threads.append(started)
        return started

    def _do_too_many_hang(self) -> bool:
        self._threads = [thread for thread in self._threads if not thread.has_ended()]
        return len(self._threads) >= MOST_HANGING

    def _describe_last_hang(self) -> str:
        return (
            f"{self._path}: the file is not read any more, because {MOST_HANGING} earlier attempts hang. Mend the file "
            "and start the service again."
        )

    def _describe_hang(self, look: Reading[bool], files: Collection[Path]) -> str:
        """Return the sentence about a look that is overdue, with the line of these files where it waits."""
        if self._do_too_many_hang():
            return self._describe_last_hang()
        line = look.find_line(files)
        if line:
            return (
                f"{line}: the file has not been read within {reading.READ_TIMEOUT:g} s. Something there waits: a line "
                "such as a look-up without a deadline, or a file system that does not answer. Mend the file."
            )
        return (
            f"{next(reversed(list(files)), self._path)}: the file has not been read and checked within "
            f"{reading.READ_TIMEOUT:g} s. A file system does not answer: that of the file, or of a folder that it "
            "names, such as c.SchedulerService.state_dir. Or code that it names waits, such as a part of "
            "c.SchedulerService.logging_config. Mend that."
        )

    def _log_warnings(self) -> None:
        for warning in self.warnings:
            log.warning("settings: %s", warning)
