"""The tornado application of the service, built from the table of routes."""

import logging
import re
import secrets

from tornado.routing import URLSpec
from tornado.web import Application, RequestHandler

from jupyter_gq.connections.server import LimitedServer

from .endpoint import DRAINED, Endpoint
from .route import Route
from .routes import ROUTES
from .wiring import Wiring

log = logging.getLogger(__name__)


def make_application(wiring: Wiring, prefix: str = "/", *, page: bool = False) -> Application:
    """Return the tornado application that serves the routes of the API under `{prefix}api/v1/`.

    If `page` is true, the web page is served at the prefix itself. The page needs the environment that the Hub gives to
    its services.
    """
    prefix = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    specs = [
        URLSpec(_pattern(prefix, path), Endpoint, {"wiring": wiring, "routes": methods})
        for path, methods in sorted(by_path.items(), key=lambda entry: "{" in entry[0])  # fixed parts first
    ]
    if page:
        from .page import page_routes  # imports jupyterhub, which the API alone does not need

        specs += page_routes(prefix, wiring)
    return Application(
        specs,
        default_handler_class=Endpoint,
        default_handler_args={"wiring": wiring, "routes": {}},
        compress_response=True,
        log_function=log_request,
        cookie_secret=secrets.token_bytes(32),  # after a restart a browser logs in again, without being asked
        connections=wiring.connections,
    )


def make_server(application: Application) -> LimitedServer:
    """Return a server, not yet listening, for the application; the server unpacks compressed bodies.

    The connections of the server are those of the application's `Wiring`, with their limits.
    """
    return LimitedServer(
        application,
        connections=application.settings["connections"],
        decompress_request=True,
        max_body_size=DRAINED,
    )


def log_request(handler: RequestHandler) -> None:
    """Log a request in one line, without its query, headers and body, which may hold secrets.

    Server errors except 503 are logged as errors, other refusals as information, and the rest for debugging.
    """
    status = handler.get_status()
    level = logging.ERROR if status >= 500 and status != 503 else logging.INFO if status >= 400 else logging.DEBUG
    method, path, milliseconds = handler.request.method, handler.request.path, 1000 * handler.request.request_time()
    fields = {"method": method, "path": path, "status": status, "milliseconds": round(milliseconds, 1)}
    if isinstance(handler, Endpoint) and handler.user:
        fields["user"] = handler.user
    log.log(level, "request %s %s %d %.1fms", method, path, status, milliseconds, extra=fields)


def _pattern(prefix: str, path: str) -> str:
    """Return the regular expression of the route `path` under `prefix` and `api/v1/`.

    Each part in braces becomes a group of that name, which matches any text without slashes.
    """
    parts = re.split(r"({\w+})", path)
    escaped = (f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part) for part in parts)
    return re.escape(prefix) + "api/v1/" + "".join(escaped)
