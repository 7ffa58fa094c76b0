"""Server processes of which the Hub has no record, for spawners whose servers are processes of the Hub's machine.

A Hub that is killed between the start of a process and its record in the database leaves the process running. The next
Hub takes the server for ended: nobody could see it or stop it, and without a GPU the service does not know it either.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import psutil
from jupyterhub.utils import url_path_join

from jupyter_gq.domain.json_types import JsonMapping

from .base import SpawnerMixin


class EndsUnknownServer(SpawnerMixin):  # type: ignore[misc]  # jupyterhub has no types
    """The mixin that ends a server's process if the database has the server, but no process of it."""

    _unknown = False

    def load_state(self, state: JsonMapping) -> None:
        """Take over the state that is recorded; the server of a start that was cut off has none."""
        super().load_state(state)
        self._unknown = self.server is not None and not self.pid

    async def poll(self) -> int | None:
        """Return what the spawner returns, once no process is left of a start that was cut off."""
        if self._unknown:
            self._unknown = False
            ended = await asyncio.to_thread(end_processes, self._marks(), self.term_timeout)
            if ended:
                self.log.warning("Ended the server %s, which a killed Hub had started and not recorded", self._log_name)
        status: int | None = await super().poll()
        return status

    def _marks(self) -> dict[str, str]:
        """Return the variables that all processes of this server have, and no other process has all of them."""
        url = self.hub.api_url
        if self.hub_connect_url is not None:
            url = url_path_join(self.hub_connect_url, urlsplit(url).path)
        return {"JUPYTERHUB_USER": self.user.name, "JUPYTERHUB_SERVER_NAME": self.name, "JUPYTERHUB_API_URL": url}


def end_processes(marks: Mapping[str, str], patience: float) -> int:
    """End the processes whose environment has all these variables, with SIGTERM and after `patience` seconds SIGKILL.

    Return how many there were. Processes whose environment this account may not read are left alone.
    """
    marked = [process for process in psutil.process_iter() if _has(process, marks)]
    for process in marked:
        _signal(process.terminate)
    _, alive = psutil.wait_procs(marked, timeout=patience)
    for process in alive:
        _signal(process.kill)
    return len(marked)


def _has(process: psutil.Process, marks: Mapping[str, str]) -> bool:
    try:
        environment: dict[str, str] = process.environ()
    except (psutil.Error, OSError):
        return False
    return marks.items() <= environment.items()


def _signal(send: Callable[[], None]) -> None:
    """Send a signal, unless the process has ended meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        send()
