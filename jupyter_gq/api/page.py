"""The service's own web page: devices, queues, and what runs, for whoever the Hub's login says you are.

Rules
-----
1. A browser shows a cookie, which the Hub's OAuth login made; the token in it is judged by the same rules as any other.
2. The page itself is the same for everybody. What it shows comes from one JSON route, which demands the cookie and the
   XSRF token of the page, so that no other page of this origin can read it.
3. Nothing can be changed here: writes take a token in a header (`api.endpoint`), never a cookie.
"""

import logging
import secrets
from pathlib import Path
from types import TracebackType

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from pydantic import BaseModel
from tornado.routing import URLSpec
from tornado.web import HTTPError, RequestHandler

from jupyter_gq.client import models
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import NotLeading

from . import errors
from .access import Access
from .endpoint import SECURITY_HEADERS, permitted_caller
from .errors import ApiRefusal, refusal_of
from .wiring import Wiring

log = logging.getLogger(__name__)

TEMPLATE = (Path(__file__).parent / "page.html").read_text("utf-8")
#: Jobs on the page, newest first.
MOST_JOBS = 50
#: Seconds for which the Hub's answer to a cookie is believed.
_REMEMBERED = 30


class Overview(BaseModel):
    """Everything that the page shows."""

    me: models.Me
    devices: list[models.DeviceView]
    queues: list[models.QueueView]
    notebooks: list[models.NotebookView]
    jobs: list[models.JobView]
    policy: str
    runs: str


def page_routes(prefix: str, wiring: Wiring) -> list[URLSpec]:
    """The page at the prefix itself, its data, and the end of the login. The Hub's environment tells the rest."""
    hub_auth = HubOAuth(cache_max_age=_REMEMBERED)
    given: dict[str, object] = {"wiring": wiring, "hub_auth": hub_auth}
    return [
        URLSpec(f"{prefix}?", Page, given),
        URLSpec(f"{prefix}overview", PageData, given),
        URLSpec(f"{prefix}oauth_callback", LoginEnd, {"hub_auth": hub_auth}),
    ]


class _Browser(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # jupyterhub has no types
    """Knows who looks."""

    def initialize(self, wiring: Wiring, hub_auth: HubOAuth) -> None:
        """Both are shared by all requests."""
        self._wiring, self.hub_auth = wiring, hub_auth

    def set_default_headers(self) -> None:
        """As those of the API."""
        for name, value in SECURITY_HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    async def caller(self) -> Caller | None:
        """Who looks; None for somebody who is not logged in. Raises a `ApiRefusal` for who may not look."""
        # Set here, because tornado's way to it would ask the Hub from another thread while this one waits.
        self.current_user = await self.hub_auth.get_user(self, sync=False)
        if self.current_user is None:
            return None
        token = self.hub_auth.get_token(self)
        try:
            return await permitted_caller(self._wiring.authenticator, token or "", Access.READ)
        except ApiRefusal as refused:
            if refused.status == 401:  # the login was revoked a moment ago
                return None
            raise

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Only what nobody foresaw."""
        if refusal_of(value) is None and not isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)


class Page(_Browser):
    """The page."""

    async def get(self) -> None:
        """Send the page, or a browser that is not logged in to the Hub's login."""
        if not self.request.path.endswith("/"):
            self.redirect(self.request.path + "/")
            return
        caller = await self.caller()
        if caller is None:
            self.redirect(self.get_login_url())
            return
        nonce = secrets.token_urlsafe(16)
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
        )
        page = TEMPLATE.replace("{{nonce}}", nonce).replace("{{xsrf}}", _attribute(self.xsrf_token))
        self.finish(page.replace("{{hub}}", _attribute(self.hub_auth.hub_prefix)))

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """A sentence for a person."""
        refused = refusal_of(errors.raised_error(kwargs))
        status = refused.status if refused is not None else status_code
        told = refused.problem.message if refused is not None else "JupyterHub could not be asked who you are."
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{told}\n")


class PageData(_Browser):
    """What the page shows."""

    async def get(self) -> None:
        """The caller's view; an admin's shows everybody's jobs and notebooks."""
        caller = await self.caller()
        if caller is None:
            raise errors.no_token()
        services = self._wiring.services
        if services is None:
            raise NotLeading(self._wiring.status.explain_unready())
        owner = "*" if caller.admin else None
        health = self._wiring.status.check_health()
        overview = Overview(
            me=services.overview.describe_user(caller),
            devices=services.overview.list_devices(caller).devices,
            queues=services.overview.list_queues(caller).queues,
            notebooks=services.tickets.list_notebooks(caller, owner).notebooks,
            jobs=services.jobs.list(caller, limit=MOST_JOBS, before=None, owner=owner).jobs,
            policy=health.policy if caller.admin else "ok",
            runs=health.runs,
        )
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(overview.model_dump_json())

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """A `Problem`, as the API's."""
        refused = refusal_of(errors.raised_error(kwargs)) or errors.internal("none")
        self.set_status(refused.status)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(refused.problem.model_dump_json())


class LoginEnd(HubOAuthCallbackHandler):  # type: ignore[misc]  # jupyterhub has no types
    """Where the Hub sends the browser after the login."""

    def initialize(self, hub_auth: HubOAuth) -> None:
        """The same as the page's, because it remembers the login's state."""
        self.hub_auth = hub_auth


def _attribute(value: str | bytes) -> str:
    text = value.decode() if isinstance(value, bytes) else value
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
