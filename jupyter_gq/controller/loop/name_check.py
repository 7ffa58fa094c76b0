"""The check whether JupyterHub knows the users and groups that the settings name, which only warns."""

import asyncio
import logging

from jupyter_gq.backends.hub_directory import Directory
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.controller.settings.unknown_names import KnownNames, find_unknown_names
from jupyter_gq.domain.errors import BackendError

log = logging.getLogger(__name__)

#: Seconds between two looks whether the settings have changed, and after which the Hub is asked again anyway.
LOOK, AGAIN = 30.0, 3600.0


class NameCheck:
    """Asks the Hub for its users after each change of the settings, and once an hour."""

    def __init__(self, context: Context, directory: Directory | None) -> None:
        """Start without warnings; with `directory` None nobody can be asked, so no name is ever unknown."""
        self._context, self._directory = context, directory
        self._checked: Settings | None = None
        self._checked_at = 0.0
        #: A sentence for each unknown name, from the last check.
        self.warnings: tuple[str, ...] = ()

    async def run(self) -> None:
        """Check the names after each change of the settings and every hour, until cancelled."""
        elapsed = self._context.clock.elapsed
        while True:
            if self._checked is not self._context.settings or elapsed() >= self._checked_at + AGAIN:
                self._checked_at = elapsed()
                await self.check()
            await asyncio.sleep(LOOK)

    async def check(self) -> None:
        """Ask the Hub for its users, and store a warning for each unknown name in the settings; log the new ones.

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
        found = find_unknown_names(settings, known)
        for warning in found:
            if warning not in self.warnings:
                log.warning("settings: %s", warning)
        self._checked, self.warnings = settings, found
