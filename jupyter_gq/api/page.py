"""The web page of the service: devices, queues, jobs and notebooks, for the user whom the Hub's login names.

Rules
-----
- Cookies: a browser sends a cookie that the Hub's OAuth login made. The token in it is checked as any other token.
- One page: the page is the same for everybody. The data come from one JSON route, which demands the cookie and the XSRF
  token of the page, so that no other page of this origin can read them.
- Read only: nothing can be changed here. Writes take a token in a header (`api.endpoint`), never a cookie.
"""

import logging
import secrets
from pathlib import Path

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from pydantic import BaseModel
from tornado.routing import URLSpec
from tornado.web import HTTPError

from jupyter_gq.client import models
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import NotLeading

from . import errors
from .access import Access
from .call import Requester
from .claim import claim_connection, peer_of
from .endpoint import SECURITY_HEADERS, permitted_caller
from .errors import ApiRefusal
from .incident import LogsIncidents
from .wiring import Wiring

log = logging.getLogger(__name__)

TEMPLATE = (Path(__file__).parent / "page.html").read_text("utf-8")
#: Jobs on the page: first those that have not ended.
MOST_JOBS = 50
#: Seconds for which the Hub's answer about a cookie is cached.
_COOKIE_LIFETIME = 30


class PageContent(BaseModel):
    """The data that the service's web page shows."""

    me: models.Me
    devices: list[models.DeviceView]
    queues: list[models.QueueView]
    notebooks: list[models.NotebookView]
    jobs: list[models.JobSummary]
    #: Whether there are other jobs.
    more_jobs: bool
    #: Disk space of the files of the jobs; see `JobList.disk`.
    disk: str
    #: What the database keeps of the jobs; see `JobList.database`.
    database: str
    policy: str
    runs: str
    #: A sentence for admins about each workload that was set aside.
    set_aside: list[str]


def page_routes(prefix: str, wiring: Wiring) -> list[URLSpec]:
    """Return the routes of the page at the prefix itself, of its data, and of the end of the login.

    The Hub's address and the service's token come from the environment that the Hub gives to its services.
    """
    hub_auth = HubOAuth(cache_max_age=_COOKIE_LIFETIME)
    given: dict[str, object] = {"wiring": wiring, "hub_auth": hub_auth}
    return [
        URLSpec(f"{prefix}?", Page, given),
        URLSpec(f"{prefix}overview", PageData, given),
        URLSpec(f"{prefix}oauth_callback", LoginEnd, {"hub_auth": hub_auth}),
    ]


class _Browser(HubOAuthenticated, LogsIncidents):  # type: ignore[misc]  # jupyterhub has no types
    """A handler that knows the user in front of the browser."""

    def initialize(self, wiring: Wiring, hub_auth: HubOAuth) -> None:
        """Store the objects behind the page, which all its requests share."""
        self._wiring, self.hub_auth = wiring, hub_auth

    def set_default_headers(self) -> None:
        """Set the security headers of the API on every answer."""
        for name, value in SECURITY_HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    async def caller(self) -> Caller | None:
        """Return the user whom the browser's cookie names; None if the browser is not, or no longer, logged in.

        Raises an `ApiRefusal`: 403 for a user who may not read, 429 for a user with too many requests under way, and
        503 if the Hub cannot be asked or no connection is left.
        """
        # Set here, because tornado's way to it would ask the Hub from another thread while this one waits.
        self.current_user = await self.hub_auth.get_user(self, sync=False)
        if self.current_user is None:
            return None
        token = self.hub_auth.get_token(self)
        try:
            peer = peer_of(self.request)
            caller = await permitted_caller(self._wiring.authenticator, token or "", Access.READ, peer)
        except ApiRefusal as refused:
            if refused.status == 401:  # the login was revoked a moment ago
                return None
            raise
        claim_connection(self.request, Requester(caller=caller), {})
        return caller


class Page(_Browser):
    """The page itself."""

    async def get(self) -> None:
        """Send the page to a logged-in user who may read; redirect any other browser to the Hub's login.

        A path without its final slash is redirected first. Raises an `ApiRefusal` of 403 for a user who may not read,
        and of 503 if the Hub cannot be asked.
        """
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
        """Send one sentence as plain text: the refusal, that the Hub does not answer, or the id of an error."""
        error = errors.raised_error(kwargs)
        refused = self.refusal_for(error)
        # The client of the Hub raises only errors of 500 and more, and tornado only others.
        from_hub = isinstance(error, HTTPError) and status_code >= 500
        self.set_status(status_code if from_hub else refused.status)
        told = "JupyterHub could not be asked who you are." if from_hub else refused.problem.message
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{told}\n")


class PageData(_Browser):
    """The data of the page."""

    async def get(self) -> None:
        """Send the caller's data as JSON; an admin's data have the jobs and notebooks of all users.

        Raises a refusal of 401 without a login or the page's XSRF token, and `NotLeading` if another service leads.
        """
        caller = await self.caller()
        if caller is None or not self._has_page_token():
            raise errors.no_token()
        services = self._wiring.services
        if services is None:
            raise NotLeading(self._wiring.status.explain_unready())
        owner = "*" if caller.admin else None
        health = self._wiring.status.check_health()
        jobs = services.job_lists.list_newest(caller, limit=MOST_JOBS, owner=owner)
        content = PageContent(
            me=services.overview.describe_user(caller),
            devices=services.overview.list_devices(caller).devices,
            queues=services.overview.list_queues(caller).queues,
            notebooks=services.tickets.list_notebooks(caller, owner).notebooks,
            jobs=jobs.jobs,
            more_jobs=jobs.next is not None,
            disk=jobs.disk,
            database=jobs.database,
            policy=health.policy if caller.admin else "ok",
            runs=health.runs,
            set_aside=health.set_aside if caller.admin else [],
        )
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(services.mentions.render(content.model_dump_json(), caller))

    def _has_page_token(self) -> bool:
        """Return whether the request carries the XSRF token of the page, so that it comes from the page itself.

        The Hub's own check skips the token for some kinds of fetch, by the header Sec-Fetch-Mode.
        """
        given = self.request.headers.get("X-XSRFToken", "").encode("utf-8", "replace")
        return secrets.compare_digest(given, self.xsrf_token)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Send the error as a `Problem`, with the status of its refusal; for an unexpected error, 500 and its id."""
        refused = self.refusal_for(errors.raised_error(kwargs))
        self.set_status(refused.status)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(refused.problem.model_dump_json())


class LoginEnd(HubOAuthCallbackHandler):  # type: ignore[misc]  # jupyterhub has no types
    """The page to which the Hub sends the browser after the login."""

    def initialize(self, hub_auth: HubOAuth) -> None:
        """Store the page's own `HubOAuth`, because that object remembers the state of the login."""
        self.hub_auth = hub_auth


def _attribute(value: str | bytes) -> str:
    text = value.decode() if isinstance(value, bytes) else value
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
