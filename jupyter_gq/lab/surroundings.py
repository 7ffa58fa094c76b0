"""Where this Jupyter server runs, read once from the environment that the Hub and the spawner gave it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jupyter_gq.client.devices import DEVICES_GIVEN_VARIABLE

NOT_ON_A_HUB = (
    "This JupyterLab was not started by a JupyterHub with jupyter-gq, so there is no GPU scheduler to send cells "
    "to. On a laptop, `jupyter-gq demo` starts such a Hub; on a Hub, ask the administrator to use a jupyter-gq "
    "spawner."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What this server knows of its Hub. `url` is empty when there is no service to talk to."""

    #: Address of the scheduler service with its prefix.
    url: str = ""
    #: This server's own Hub token: its credential towards the service. Never shown, logged or passed on.
    token: str = field(default="", repr=False)
    #: The Hub user whose server this is.
    user: str | None = None
    #: Name of this server; empty for the user's default one.
    server: str = ""
    #: What stands for its share; empty: it has none.
    ticket: str = ""
    #: In a pod: how its GPUs were given, see `client.devices`; empty: it has none, or is in no pod.
    devices: str = ""

    @property
    def on_hub(self) -> bool:
        """There is a service, and a token for it."""
        return bool(self.url and self.token)


def read_surroundings(environ: Mapping[str, str]) -> Surroundings:
    """The spawner's variables first, then those that every JupyterHub sets."""
    return Surroundings(
        url=environ.get("JUPYTER_GQ_URL", ""),
        token=environ.get("JUPYTERHUB_API_TOKEN", ""),
        user=environ.get("JUPYTERHUB_USER") or None,
        server=environ.get("JUPYTER_GQ_SERVER", environ.get("JUPYTERHUB_SERVER_NAME", "")),
        ticket=environ.get("JUPYTER_GQ_TICKET", ""),
        devices=environ.get(DEVICES_GIVEN_VARIABLE, ""),
    )
