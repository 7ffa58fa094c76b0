"""Settings of the servers backend."""

from collections.abc import Callable

from traitlets import Float
from traitlets.config import LoggingConfigurable

from jupyter_gq.backends.server_stopper import ServerStopper

from .backend import ServerRuns


class ServersBackend(LoggingConfigurable):
    """Notebook servers, which the Hub starts: what can be set, and what is built from it."""

    attach_timeout = Float(
        180.0,
        help="Seconds that the Hub has to start a notebook server after its share was admitted. After that the share "
        "is free again.",
    ).tag(config=True)

    def backend(self, *, stopper: ServerStopper, now: Callable[[], float]) -> ServerRuns:
        """Build the backend; `stopper` ends servers."""
        return ServerRuns(stopper=stopper, now=now, attach_timeout=self.attach_timeout)
