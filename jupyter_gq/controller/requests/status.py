"""The health and readiness of this service, for load balancers, monitoring and administrators."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from jupyter_gq.client.models import Health
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.leadership import Leadership
from jupyter_gq.controller.views.overview import describe_devices
from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.scheduling.wording import UNOBSERVED


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStatus:
    """The health and the readiness of a service that leads."""

    context: Context
    leadership: Leadership
    #: The last failures of the loop, by the name of the work; empty if there is none.
    failures: Mapping[str, str]

    def check_health(self) -> Health:
        """Return the condition of the loop, the settings, the devices and the backends, with what is wrong."""
        context = self.context
        error = context.settings_source.error
        probe = context.probe.status().state if context.probe is not None else ProbeState.OK
        well = error is None and not self.failures and not context.unobserved and probe is ProbeState.OK
        return Health(
            status="ok" if well else "degraded",
            version=installed_version(),
            devices=describe_devices(context.probe),
            policy=error or "ok",
            runs=UNOBSERVED if context.unobserved else "ok",
        )

    def explain_unready(self) -> str:
        """Return why requests should go to another service or be repeated later; "" = this service answers them."""
        return self.leadership.unready


def installed_version() -> str:
    """Return the version of this package; "0" if it is not installed."""
    try:
        return version("jupyter-gq")
    except PackageNotFoundError:
        return "0"
