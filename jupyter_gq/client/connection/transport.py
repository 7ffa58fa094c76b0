"""Requests to the service, their answers and errors. Without pydantic: the runner uses this too."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from tornado.httpclient import HTTPClientError, HTTPRequest, HTTPResponse
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gq.client.problems import PlainProblem, ServiceError, ServiceUnavailable
from jupyter_gq.domain.json_types import JsonValue

from .service_address import ServiceAddress

API = "api/v1/"
#: Executed notebooks with images are the largest answers, in bytes.
LARGEST_ANSWER = 256 * 1024 * 1024
UNAVAILABLE = frozenset({502, 503, 504})


def join_path(*parts: str) -> str:
    """Return the URL path of these segments; each is quoted, so that an id with a slash stays one segment."""
    return "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A response with a status from 200 to 299."""

    #: HTTP status.
    status: int
    body: bytes

    def json(self) -> JsonValue:
        """Return the body parsed as JSON; raise `ValueError` if the body is not JSON, or nested too deep."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("the answer is nested too deep") from error


class Transport:
    """The connection to the service at `url` (with its prefix), with the token of its user.

    See `service_address` for the forms of `url`, and for the checks before anything is sent to a Unix socket.
    """

    def __init__(self, url: str, token: str, timeout: float = 20.0) -> None:
        self.service = ServiceAddress.parse(url)
        self._token = token
        self._timeout = timeout
        self._client: SimpleAsyncHTTPClient | None = None

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    @property
    def url(self) -> str:
        """The place of the service for people: its URL, or the path of its socket."""
        return self.service.shown

    def address(self, path: str, query: Mapping[str, object] | None = None) -> str:
        """Return the full URL of an API path; query parameters that are None are left out."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self.service.http + API + path + (f"?{urlencode(given)}" if given else "")

    def authorization(self) -> dict[str, str]:
        """Return the request header that carries the token."""
        return {"Authorization": f"token {self._token}"}

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request to an API path, and return the answer if its status is 2xx.

        `body` is JSON. Redirects are not followed. Raises `ServiceUnavailable` if no answer comes within the timeout,
        or for a status of 502, 503 or 504, and `ServiceError` for every other status, or if HTTP cannot carry the
        request, such as a token with a line break.
        """
        sent = {**self.authorization(), **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        request = HTTPRequest(
            self.address(path, query),
            method=method,
            headers=sent,
            body=body,
            allow_nonstandard_methods=True,  # a POST without a body, which tornado suspects
            connect_timeout=min(5.0, self._timeout),
            request_timeout=self._timeout,
            follow_redirects=False,
        )
        response = await self._fetch(request)
        if not 200 <= response.code < 300:
            raise read_error(response.code, response.body or b"", self.url, response.headers.get("Location", ""))
        return Answer(status=response.code, body=response.body or b"")

    async def _fetch(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request, and return the response of any status.

        Raises `ServiceUnavailable` if none comes in time, and `ServiceError` if the request cannot be sent.
        """
        if self._client is None:  # made here, because it belongs to the event loop that runs now
            # Tornado's own client, whatever is configured: no other one can connect to a Unix socket.
            client = SimpleAsyncHTTPClient(force_instance=True, max_clients=20, max_body_size=LARGEST_ANSWER)
            client.tcp_client = self.service.make_client()
            self._client = client
        try:
            return await self._client.fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise ServiceUnavailable.no_connection(self.url, error) from error
        except (ValueError, OverflowError):
            raise refuse_request(self.url) from None  # the error of tornado repeats the token

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None


def refuse_request(url: str) -> ServiceError:
    """Return the error, with status 400, for a request to the service at `url` that HTTP cannot carry."""
    return ServiceError(
        400,
        PlainProblem(
            code="invalid_request",
            message=f"Nothing was sent to the GPU scheduler service at {url}: its address or the token holds "
            "characters that a request cannot carry. Check both.",
        ),
    )


def read_error(status: int, body: bytes, url: str, elsewhere: str = "") -> ServiceError:
    """Return the error for an answer whose status is not 2xx: `ServiceUnavailable` for 502, 503 and 504.

    A body that is not in the service's form is described, not shown. `elsewhere` is the target of a redirect. Redirects
    are not followed, since the token would go to whoever answers there.
    """
    problem = _problem_in(body)
    if problem is None and elsewhere and 300 <= status < 400:
        problem = PlainProblem(code="unexpected_answer", message=_describe_redirect(url, elsewhere.partition("?")[0]))
    if problem is None and status in UNAVAILABLE:
        problem = PlainProblem(
            code="service_unavailable",
            message=f"The GPU scheduler service at {url} does not answer; a proxy did, with status {status}. The "
            "service may be restarting; try again in a moment. If it stays so, tell your administrator.",
        )
    if problem is None:
        problem = PlainProblem(
            code="unexpected_answer",
            message=f"The GPU scheduler service at {url} answered with status {status} and no explanation: "
            "probably a proxy answered instead. Try again; if it stays, tell your administrator.",
        )
    return (ServiceUnavailable if status in UNAVAILABLE else ServiceError)(status, problem)


def _describe_redirect(url: str, elsewhere: str) -> str:
    """Return what is wrong with an address of the service that redirects: it is that of a page, or without HTTPS."""
    if not (url.startswith("http:") and elsewhere.startswith("https:")):
        return (
            f"The address {url} is not that of the GPU scheduler service: it leads to {elsewhere}. The address of the "
            "service is that of the Hub and /services/jupyter-gq."
        )
    return (
        f"The address {url} of the GPU scheduler service redirects to {elsewhere}: probably the hub's proxy, which "
        "takes only HTTPS. Your administrator has to set an address that answers by itself: hub.notebookUrl in the "
        "values of the chart, or c.GPUShareMixin.server_service_url."
    )


def _problem_in(body: bytes) -> PlainProblem | None:
    """Return the problem in the body of an answer; None if the body is not in the service's form."""
    try:
        document = json.loads(body)
        field = document.get("field")
        return PlainProblem(
            code=str(document["code"]),
            message=str(document["message"]),
            field=None if field is None else str(field),
        )
    except (ValueError, KeyError, AttributeError):
        return None
