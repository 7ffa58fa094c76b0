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
    """Return the sections of a service with these backends.

    Their check makes each part from the config and throws it away; the log of the process stays as it is.
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
