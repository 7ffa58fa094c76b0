"""The settings of the backend for notebook servers."""

from collections.abc import Callable

from traitlets import Float
from traitlets.config import LoggingConfigurable

from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.devices.suspension import Suspender

from .backend import ServerRuns
from .shares import ServerShares


class ServersBackend(LoggingConfigurable):
    """The settings of the backend for notebook servers, from which the backend is built."""

    attach_timeout = Float(
        180.0,
        help="Seconds within which the Hub must start a notebook server after its share was assigned. After that the "
        "share is free again.",
    ).tag(config=True)

    def backend(
        self,
        *,
        stopper: ServerStopper,
        now: Callable[[], float],
        suspender: Suspender,
        on_change: Callable[[], None],
    ) -> ServerRuns:
        """Build the backend; `stopper` stops servers, and `now` returns the time in seconds since the epoch.

        `suspender` suspends idle shares, and `on_change` is called after a share was suspended or resumed.
        """
        shares = ServerShares(suspender=suspender, now=now, on_change=on_change)
        return ServerRuns(stopper=stopper, now=now, attach_timeout=self.attach_timeout, shares=shares)
