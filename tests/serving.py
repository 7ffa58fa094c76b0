"""The API over a controller of a test."""

from typing import Any

from tornado.web import Application

from jupyter_gq.api.app import make_application
from jupyter_gq.api.standby import Standby
from jupyter_gq.api.wiring import Wiring


def application_of(
    controller: Any, authenticator: Any, prefix: str, *, page: bool = False, **options: Any
) -> Application:
    """Build the API over a controller, or over a `Standby`; `options` are further fields of `Wiring`."""
    waits = isinstance(controller, Standby)
    wiring = Wiring(
        status=controller if waits else controller.status,
        services=None if waits else controller,
        authenticator=authenticator,
        **options,
    )
    return make_application(wiring, prefix, page=page)
