"""The settings of the backend for notebook servers."""

from traitlets.config import LoggingConfigurable

from jupyter_gq.backends.enforcers import NO_ENFORCERS, Enforcers
from jupyter_gq.backends.machine_clock import MachineClock
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.devices.suspension.run_shares import RunShares

from .backend import ServerRuns


class ServersBackend(LoggingConfigurable):
    """The settings of the backend for notebook servers, from which the backend is built."""

    attach_timeout = FiniteFloat(
        180.0,
        help="Seconds within which the Hub must start a notebook server after its share was assigned. After that the "
        "share is free again.",
    ).tag(config=True)

    def backend(
        self,
        *,
        stopper: ServerStopper,
        clock: MachineClock,
        shares: RunShares | None = None,
        enforcers: Enforcers = NO_ENFORCERS,
    ) -> ServerRuns:
        """Build the backend; `stopper` stops servers.

        `shares` suspends idle shares; None = they cannot be suspended. `enforcers` limit shares beside the watchdog.
        """
        return ServerRuns(
            stopper=stopper,
            clock=clock,
            attach_timeout=self.attach_timeout,
            shares=shares,
            enforcers=enforcers,
        )
