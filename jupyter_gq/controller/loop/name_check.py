"""The check whether JupyterHub knows the names in the settings and the owners of jobs, which only warns.

Nothing is cancelled: a Hub with a new database knows nobody until the users log in again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from jupyter_gq.backends.hub_directory import Directory
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.settings.config import DAY, Settings
from jupyter_gq.controller.settings.unknown_names import KnownNames, find_unknown_names
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import Kind, Workload

from .beside import run_every

log = logging.getLogger(__name__)

#: Seconds between two looks whether the settings have changed, and after which the Hub is asked again anyway.
LOOK, AGAIN = 30.0, 600.0
#: How many jobs of one user, and how many users of ended jobs, a warning names.
_SHOWN = 3


class NameCheck:
    """The check of names, after each change of the settings and every ten minutes."""

    def __init__(self, context: Context, directory: Directory | None) -> None:
        """Start without warnings; with `directory` None nobody can be asked, so no name is ever unknown."""
        self._context, self._directory = context, directory
        self._checked: Settings | None = None
        self._checked_at = 0.0
        #: A sentence for each unknown name, from the last check.
        self.warnings: tuple[str, ...] = ()

    async def run(self) -> None:
        """Check the names after each change of the settings and every ten minutes, until cancelled."""
        await run_every(LOOK, "the check of names", self._check_if_due, self._context.failures)

    async def _check_if_due(self) -> None:
        """Check the names if the settings have changed, or if the last check was long ago."""
        now = self._context.clock.elapsed()
        if self._checked is not self._context.settings or now >= self._checked_at + AGAIN:
            self._checked_at = now
            await self.check()

    async def check(self) -> None:
        """Ask the Hub for its users, and store a warning for each unknown name and owner of jobs; log the new ones.

        Keeps the warnings of the last check if the Hub does not answer. Does nothing without a directory.
        """
        settings = self._context.settings
        if self._directory is None:
            return
        try:
            users = await self._directory.groups_by_user()
        except BackendError as error:
            log.info("the names in the settings are not checked: %s", error)
            return
        known = KnownNames(users=frozenset(users), groups=frozenset().union(*users.values()))
        records = [record.workload for record in self._context.records.unfinished()]
        owners = await asyncio.to_thread(self._context.store.owners_of_finished, Kind.TRAINING)
        former = owners - users.keys()
        found = (
            *find_unknown_names(settings, known),
            *_find_former_users(records, users.keys()),
            *_describe_kept_jobs(former, settings.keep_finished),
        )
        for warning in found:
            if warning not in self.warnings:
                log.warning("names: %s", warning)
        self._checked, self.warnings = settings, found


def _find_former_users(workloads: Iterable[Workload], users: Collection[str]) -> list[str]:
    """Return a sentence about each owner of unfinished jobs who is no user of the Hub."""
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for workload in workloads:
        if workload.kind is Kind.TRAINING and workload.owner not in users:
            jobs[workload.owner].append(workload.id)
    return [
        f"JupyterHub has no user {owner!r}, but jobs of that name run or wait: {_join_first(ids)}. If the account was "
        "deleted, cancel them: a new user of the same name would see these jobs and their outputs."
        for owner, ids in sorted(jobs.items())
    ]


def _describe_kept_jobs(owners: Collection[str], kept_for: Seconds) -> list[str]:
    """Return a sentence about the owners of ended jobs who are no users of the Hub; [] if there are none."""
    if not owners:
        return []
    until = f"for {kept_for / DAY:g} days" if kept_for else "for ever"
    return [
        f"JupyterHub has no users of these names, but ended jobs of theirs are kept {until}: "
        f"{_join_first([repr(owner) for owner in owners])}. A new user of such a name would see these jobs and their "
        "outputs, so give the name to nobody else before they are deleted."
    ]


def _join_first(ids: list[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(sorted(ids)[:_SHOWN])
    return shown if len(ids) <= _SHOWN else f"{shown} and {len(ids) - _SHOWN} more"
