"""`configure_kubernetes(c)`: what a hub on Kubernetes needs of jupyter-gq, beside its administrator's values.

Rules
-----
1. One file is read in two places: by the Hub, where Zero to JupyterHub executes it among others and has described our
   service under `hub.services`, and by the service in its own pod, where none of that is there.
2. What is already set is kept and added to, the service's entry and its token above all.
3. A Hub that could not reach the service does not start: it says what is missing.
"""

import os
import sys
from collections.abc import Collection
from typing import Any

from .config_parts import SERVICE, base_url, items, page_login, set_pages, set_scopes


def configure_kubernetes(
    c: Any,
    *,
    service_url: str = "",
    service_token: str = "",
    notebook_url: str = "",
    admins: Collection[str] = (),
    spawner: str = "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner",
) -> None:
    """Prepare the hub configuration `c` for jupyter-gq on Kubernetes: spawner, service, scopes, pages.

    `service_url` is the root at which the Hub reaches the service, such as "http://jupyter-gq:8089"; the chart sets the
    address itself, and with it may be left out. `service_token` is for a Hub that is not Zero to JupyterHub's, which
    makes one. `notebook_url` is the root at which servers reach it, where that is another one, such as the Hub's proxy.
    `admins` may see and change everybody's jobs and become administrators of the hub. `spawner` is an entry point or a
    class.
    """
    c.SchedulerService.backend = "kubernetes"
    path = f"{base_url(c)}services/{SERVICE}/"
    if service_url:
        c.GPUShareMixin.service_url = service_url.rstrip("/") + path
    if notebook_url:
        c.GPUShareMixin.server_service_url = notebook_url.rstrip("/") + path
    c.JupyterHub.spawner_class = spawner
    set_pages(c)
    set_scopes(c, admins)
    _set_service(c, service_url.rstrip("/"), service_token)
    c.JupyterHub.last_activity_interval = 0  # an open browser tab is no activity; the servers report their kernels


def _set_service(c: Any, url: str, token: str) -> None:
    services = items(c.JupyterHub, "services")
    present = next((service for service in services if service.get("name") == SERVICE), None)
    if present is None and not (url and token):
        if "jupyterhub.app" in sys.modules and os.environ.get("JUPYTERHUB_SERVICE_NAME") != SERVICE:
            raise ValueError(
                f"The Hub does not know the service {SERVICE}. With Zero to JupyterHub, add hub.services.{SERVICE} to "
                "its values (the notes of the chart jupyter-gq show the lines); elsewhere give configure_kubernetes "
                "both service_url and service_token."
            )
        return  # the service itself reads the file, or somebody looks at it
    entry = {"name": SERVICE, **({"url": url} if url else {}), **({"api_token": token} if token else {})}
    c.JupyterHub.services = [
        *(service for service in services if service is not present),
        {**entry, **page_login(), **(present or {})},
    ]
