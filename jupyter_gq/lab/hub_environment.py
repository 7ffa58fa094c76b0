"""The variables that the Hub and the spawner gave to this Jupyter server, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jupyter_gq.client.pods.device_check import DEVICES_GIVEN_VARIABLE

NOT_ON_A_HUB = (
    "This JupyterLab was not started by a JupyterHub with jupyter-gq, so there is no GPU scheduler to send cells "
    "to. On a laptop, `jupyter-gq demo` starts such a Hub; on a Hub, ask the administrator to use a jupyter-gq "
    "spawner."
)


#: Variables that are sent with a job unless the server's configuration says otherwise.
SENT_BY_DEFAULT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "MPLBACKEND",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_HOME",
    "CUDA_PATH",
    "HF_HOME",
    "TORCH_HOME",
    "R_LIBS*",
    "JULIA_*",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HubEnvironment:
    """The Hub, the service and the share of this server. `url` is empty if there is no service."""

    #: URL of the scheduler service with its prefix.
    url: str = ""
    #: Hub token of this server, which authenticates it to the service. Never shown, logged or passed on.
    token: str = field(default="", repr=False)
    #: Hub user to whom this server belongs.
    user: str | None = None
    #: Name of this server; empty for the user's default server.
    server: str = ""
    #: Ticket of the server's share; empty if it has none.
    ticket: str = ""
    #: In a pod: how the pod was given its GPUs (see `client.pods.device_check`); empty if it has none, or in no pod.
    devices: str = ""

    @property
    def on_hub(self) -> bool:
        """Whether this server has the URL of the service and a token for it."""
        return bool(self.url and self.token)


def read_hub_environment(environ: Mapping[str, str]) -> HubEnvironment:
    """Return the Hub's and the spawner's variables for this server; a field without one is "", and `user` is None."""
    return HubEnvironment(
        url=environ.get("JUPYTER_GQ_URL", ""),
        token=environ.get("JUPYTERHUB_API_TOKEN", ""),
        user=environ.get("JUPYTERHUB_USER") or None,
        server=environ.get("JUPYTER_GQ_SERVER", environ.get("JUPYTERHUB_SERVER_NAME", "")),
        ticket=environ.get("JUPYTER_GQ_TICKET", ""),
        devices=environ.get(DEVICES_GIVEN_VARIABLE, ""),
    )
