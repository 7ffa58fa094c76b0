"""The settings of the backend for notebook servers."""

from collections.abc import Callable

from traitlets import Float
from traitlets.config import LoggingConfigurable

from jupyter_gq.backends.enforcers import NO_ENFORCERS, Enforcers
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.devices.run_shares import RunShares

from .backend import ServerRuns


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
        awake: Callable[[], float],
        shares: RunShares | None = None,
        enforcers: Enforcers = NO_ENFORCERS,
    ) -> ServerRuns:
        """Build the backend; `stopper` stops servers.

        `now` returns the time in seconds since the epoch, and `awake` the seconds for which the machine has been awake.
        `shares` suspends idle shares; None = they cannot be suspended. `enforcers` limit shares beside the watchdog.
        """
        return ServerRuns(
            stopper=stopper,
            now=now,
            awake=awake,
            attach_timeout=self.attach_timeout,
            shares=shares,
            enforcers=enforcers,
        )
