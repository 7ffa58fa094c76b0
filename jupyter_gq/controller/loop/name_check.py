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
        """`directory` None: nobody can be asked, so no name is unknown."""
        self._context, self._directory = context, directory
        self._checked: Settings | None = None
        self._checked_at = 0.0
        #: A sentence for each unknown name, from the last check.
        self.warnings: tuple[str, ...] = ()

    async def run(self) -> None:
        """Check until cancelled."""
        elapsed = self._context.clock.elapsed
        while True:
            if self._checked is not self._context.settings or elapsed() >= self._checked_at + AGAIN:
                self._checked_at = elapsed()
                await self.check()
            await asyncio.sleep(LOOK)

    async def check(self) -> None:
        """Ask the Hub and log each name that was not unknown before; keep the warnings if the Hub does not answer."""
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
