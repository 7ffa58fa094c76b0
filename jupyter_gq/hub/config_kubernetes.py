"""`configure_kubernetes(c)`: the part of a hub configuration on Kubernetes that jupyter-gq needs.

Rules
-----
- Two readers: the Hub reads the file, among others that Zero to JupyterHub executes, and our service is described under
  `hub.services` there. The service reads the same file in its own pod, where none of that exists.
- Additions only: values that are already set are kept and added to, above all the service's entry and its token.
- No silent failure: a Hub that could not reach the service does not start, and says what is missing. A Hub whose
  settings of KubeSpawner would hide used GPUs from the service does not start either (`kubernetes.gpu_accounting`).
"""

import os
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from traitlets.config import Config

from jupyter_gq.domain.json_types import JsonObject

from .config_parts import (
    SERVICE,
    find_seen_namespace,
    get_base_url,
    get_list,
    get_value,
    make_page_login,
    set_scopes,
    set_template_paths,
)
from .kubernetes.gpu_accounting import find_unsupported_settings

if TYPE_CHECKING:
    from jupyterhub.app import JupyterHub
    from jupyterhub.spawner import Spawner


def configure_kubernetes(
    c: Config,
    *,
    service_url: str = "",
    service_token: str = "",
    notebook_url: str = "",
    admins: Collection[str] = (),
    spawner: str = "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner",
) -> None:
    """Prepare the hub configuration `c` for jupyter-gq on Kubernetes: spawner, service, scopes, pages.

    Set `base_url` before this call, since addresses contain it. An open browser tab no longer counts as activity.
    `service_url` is the root URL of the service for the Hub, such as "http://jupyter-gq:8089"; leave it out with the
    chart, which sets it. `service_token` is for a Hub that is not Zero to JupyterHub's, which makes a token itself.
    `notebook_url` is the root URL of the service for servers if they need another one, such as the Hub's proxy.
    `admins` may see and change all jobs and become administrators of the hub. `spawner` is an entry point or a class.
    Raises `ValueError` in a Hub that does not know the service's address or token.
    """
    c.SchedulerService.backend = "kubernetes"
    path = f"{get_base_url(c)}services/{SERVICE}/"
    if service_url:
        c.GPUShareMixin.service_url = service_url.rstrip("/") + path
    if notebook_url:
        c.GPUShareMixin.server_service_url = notebook_url.rstrip("/") + path
    c.JupyterHub.spawner_class = spawner
    set_template_paths(c)
    set_scopes(c, admins)
    _set_service(c, service_url.rstrip("/"), service_token)
    c.JupyterHub.last_activity_interval = 0  # an open browser tab is no activity; the kernels' activity counts
    _check_when_complete()


def list_unsupported(spawner: "type[Spawner]", config: Config) -> list[str]:
    """Return a sentence on each setting of this spawner with which a GPU in use could be given to somebody else."""
    settings: JsonObject = {}
    for section in spawner.section_names():
        if section in config:
            settings.update({name: get_value(config[section], name, {}) for name in config[section]})
    return find_unsupported_settings(settings, find_seen_namespace(config))


def _check_when_complete() -> None:
    """Register a check with the Hub that ends it if a setting could give a GPU in use to somebody else.

    The check runs when the Hub makes its database session: other files and options may set more until then. In a
    process that is no Hub, nothing is registered.
    """
    application: type[JupyterHub] | None = getattr(sys.modules.get("jupyterhub.app"), "JupyterHub", None)
    if application is None or not application.initialized():
        return  # the service itself reads the file, or a person checks it
    hub = application.instance()

    def check(_: object) -> None:
        problems = list_unsupported(hub.spawner_class, hub.config)
        for problem in problems:
            hub.log.critical("The Hub does not start. %s", problem)
        if problems:
            hub.exit(1)

    hub.observe(check, "session_factory")


def _set_service(c: Config, url: str, token: str) -> None:
    """Add the entry of our service to the Hub's services, or complete it; values that are already set win.

    Raises `ValueError` in a Hub that has no entry, if the address or the token is missing.
    """
    services = get_list(c.JupyterHub, "services")
    present = next((service for service in services if service.get("name") == SERVICE), None)
    if present is None and not (url and token):
        if "jupyterhub.app" in sys.modules and os.environ.get("JUPYTERHUB_SERVICE_NAME") != SERVICE:
            raise ValueError(
                f"The Hub does not know the service {SERVICE}. With Zero to JupyterHub, add hub.services.{SERVICE} to "
                "its values (the notes of the chart jupyter-gq show the lines); elsewhere give configure_kubernetes "
                "both service_url and service_token."
            )
        return  # the service itself reads the file, or a person checks it
    entry = {"name": SERVICE, **({"url": url} if url else {}), **({"api_token": token} if token else {})}
    c.JupyterHub.services = [
        *(service for service in services if service is not present),
        {**entry, **make_page_login(), **(present or {})},
    ]
