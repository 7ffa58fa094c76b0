"""The sections of the Hub's file that the parts of a service read at its start, and a trial of their values."""

from collections.abc import Collection

from traitlets import HasTraits
from traitlets.config import Config, Configurable

from jupyter_gq.api.connection_settings import ServiceConnections
from jupyter_gq.backends.notifications.settings import Notifications
from jupyter_gq.controller.settings.start_sections import StartSections
from jupyter_gq.hub.share_settings import GPU_SHARE_TRAITS
from jupyter_gq.service_log import LoggedApplication


def find_start_sections(service: type[LoggedApplication], *backends: type[Configurable]) -> StartSections:
    """Return the sections of the Hub's file that a service with these backends reads at its start, with their check.

    `service` is the class of the service, and `backends` are the classes of its backends and of their devices; any
    other class may be left out whose package is not installed. `names` of the result has the traits of each section by
    the name of its class, such as {"LocalBackend": ("cpus", ...)}. The settings of shares that `configure(c)` reads,
    "GPUShareMixin", are among them.

    `check` of the result takes a config, makes each part from it and throws it away. `check` raises `TraitError` for a
    value that a trait refuses, and `AdminError` for one that no start can use. No file, socket or device is opened,
    and the log of the process stays as it is.
    """
    classes: tuple[type[HasTraits], ...] = (service, ServiceConnections, Notifications, *backends)
    names: dict[str, Collection[str]] = {each.__name__: each.class_trait_names(config=True) for each in classes}

    def check(config: Config) -> None:
        service(config=config).check_start()
        ServiceConnections(config=config)
        Notifications(config=config).rule()
        for backend in backends:
            backend(config=config)

    return StartSections(names={**names, "GPUShareMixin": GPU_SHARE_TRAITS}, check=check)
