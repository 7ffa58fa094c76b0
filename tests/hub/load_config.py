"""Executes hub configurations as the hub does, in the interpreter under test; prints a line of JSON about each."""

import json
import sys
from pathlib import Path

import jupyterhub
from jupyterhub.app import JupyterHub
from jupyterhub.auth import DummyAuthenticator, PAMAuthenticator
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue, PyFileConfigLoader

from jupyter_gq.hub.kubernetes.spawner import GQKubeSpawner
from jupyter_gq.hub.local import GQLocalSpawner
from jupyter_gq.hub.system import GQSystemSpawner


def tell(path: str) -> None:
    config = PyFileConfigLoader(Path(path).name, str(Path(path).parent)).load_config()
    unknown = [f"{section}.{name}" for section, name in settings(config) if name not in KNOWN.get(section, ())]
    hub = JupyterHub(config=config)  # a value of the wrong type raises here
    told = {
        "version": jupyterhub.version_info[0],
        "unknown": unknown,
        "classes": sorted({section for section, _ in settings(config)}),
        "roles": hub.load_roles,
        "scopes": hub.custom_scopes,
        "services": hub.services,
        "template_paths": hub.template_paths,
        "admins": sorted(config.Authenticator.get("admin_users", [])),
        "extra_user_scopes": sorted(getattr(hub, "extra_user_scopes", [])),
        "server_token_scopes": config.Spawner.server_token_scopes,
        "service_url": config.GPUShareMixin.get("service_url", ""),
        "server_service_url": config.GPUShareMixin.get("server_service_url", ""),
        "backend": config.SchedulerService.get("backend", ""),
        "spawner": str(config.JupyterHub.spawner_class),
        "last_activity_interval": hub.last_activity_interval,
        "bind_url": hub.bind_url,
    }
    print(json.dumps(told))


def settings(config: Config):
    for section, values in config.items():
        for name, value in values.items():
            if not isinstance(value, LazyConfigValue) or value.to_dict():
                yield section, name


def known():
    """The configurable traits of each class, also of those that it comes from."""
    from jupyter_gq import service
    from jupyter_gq.backends.local import LocalBackend
    from jupyter_gq.controller.settings.sections import SECTIONS
    from jupyter_gq.devices.simulated.devices import SimulatedDevices

    ours = [
        GQLocalSpawner,
        GQKubeSpawner,
        GQSystemSpawner,
        *SECTIONS,
        SimulatedDevices,
        LocalBackend,
        service.SchedulerService,
    ]
    classes = [JupyterHub, *JupyterHub().classes, DummyAuthenticator, PAMAuthenticator, *ours]
    return {
        parent.__name__: set(parent.class_trait_names(config=True))
        for each in classes
        for parent in each.__mro__
        if hasattr(parent, "class_trait_names")
    }


if __name__ == "__main__":
    KNOWN = known()
    for each in sys.argv[1:]:
        tell(each)
