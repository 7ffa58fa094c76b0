"""The tornado handler of a path: authorise, read, validate, run, answer. Routes decide none of these steps."""

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Mapping

from pydantic import BaseModel
from tornado.iostream import StreamClosedError
from tornado.web import stream_request_body

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import JupyterGQError, NotLeading

from . import errors
from .access import Access
from .auth import Authenticator
from .call import Call, Reply, Requester
from .claim import begin_stream, claim_connection, peer_of
from .errors import ApiRefusal, refusal
from .incident import LogsIncidents
from .parse import parse_count, parse_model, parse_parameter
from .pods import no_pods
from .route import PATH_PARTS, Media, Parameter, Route
from .wiring import SMALL_BODY, Wiring

log = logging.getLogger(__name__)

#: A refused body is still read and thrown away up to this many bytes: a client that is cut off while it sends sees no
#: answer.
DRAINED = 256 * 1024 * 1024

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


@stream_request_body
class Endpoint(LogsIncidents):
    """The handler of all methods of one path. The body is read only after the requester was authorised to send it."""

    def initialize(self, wiring: Wiring, routes: Mapping[str, Route]) -> None:
        """Store the routes of this path, by method; `routes` is empty for a path that does not exist."""
        self._wiring, self._routes = wiring, routes
        self._route: Route | None = None
        self._requester = Requester()
        self._refused: Exception | None = None
        self._body = bytearray()
        self._limit = SMALL_BODY
        self._pump: asyncio.Future[Reply] | asyncio.Future[None] | None = None
        #: Refuses a body that does not come in time.
        self._body_timer: asyncio.TimerHandle | None = None

    @property
    def user(self) -> str:
        """Name of the user or service that asks; "" = unknown, or a pod."""
        return "" if self._requester.caller is None else self._requester.caller.user

    def set_default_headers(self) -> None:
        """Set the security headers on every answer, also on errors."""
        for name, value in SECURITY_HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Return a part of the path as text; raise a refusal of 404 if it is not UTF-8, since nothing has such a name.

        Parts of the query are not read here; see `_parameter`.
        """
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._no_such_path() from error

    def check_xsrf_cookie(self) -> None:
        """Do nothing: only a token in a header authorises here, and other sites cannot make a browser send that."""

    async def prepare(self) -> None:
        """Find the route, and authorise the requester, before the body is read.

        Raises the refusal at once, or if a body of acceptable length follows, keeps the refusal until the body is read.
        """
        self.request.connection.set_max_body_size(DRAINED)  # type: ignore[union-attr]
        try:
            self._route = self._find()
            self._limit = self._wiring.body_limit(self._route.size)
            self._requester = await self._authorise(self._route)
            claim_connection(self.request, self._requester, self.path_kwargs)
            if self._declared_length() > self._limit:
                raise errors.body_too_large(self._limit)
        except JupyterGQError as error:
            if not self._has_body() or self._declared_length() > DRAINED:
                raise
            self._refused = error
        if self._has_body():
            timeout = self._wiring.connections.limits.body_timeout
            self._body_timer = asyncio.get_running_loop().call_later(timeout, self._refuse_slow_body, timeout)

    def _refuse_slow_body(self, timeout: float) -> None:
        """Refuse a request whose body is not complete after `timeout` seconds, and close the connection.

        A request that was refused already gets that earlier refusal.
        """
        error = self._refused or errors.body_too_slow(timeout)
        self.send_error(exc_info=(type(error), error, None))

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()

    def data_received(self, chunk: bytes) -> None:
        """Collect a chunk of the body; throw the body away once the request is refused or exceeds its limit."""
        if self._refused is None:
            self._body += chunk
            if len(self._body) > self._limit:  # sent in chunks, or unpacked
                self._refused = errors.body_too_large(self._limit)
        if self._refused is not None:
            self._body.clear()

    async def _respond(self, **_path: str) -> None:
        """Validate the request, run the function of its route, and send the answer.

        Raises the refusal that `prepare` or `data_received` has kept, and a refusal of 400 or 422 for invalid input.
        """
        self._stop_body_timer()
        if self._refused is not None:
            raise self._refused
        route = self._find()
        if route.access is Access.JOB_TOKEN:  # the run may have ended while the body came
            self._requester = await self._authorise(route)
        self._require_known_parameters(route)
        call = Call(
            status=self._wiring.status,
            leading=self._wiring.services,
            requester=self._requester,
            path={name: str(value) for name, value in self.path_kwargs.items()},
            query={parameter.name: self._parameter(parameter) for parameter in route.query},
            headers=self._declared_headers(route),
            body=self._parsed(route),
            current_caller=self._current_caller,
            count_connections=self._wiring.connections.counts,
        )
        self._body.clear()
        reply = route.run(call)
        await self._send(reply if isinstance(reply, Reply) else await self._awaited(reply))

    get = post = put = delete = head = patch = options = _respond  # the table of routes says which exist

    # The requester

    def _find(self) -> Route:
        """Return the route of this path and method; HEAD uses the route of GET.

        Raises a refusal of 404 if the path does not exist or has an invalid part, and of 405 if the method does not.
        """
        if not self._routes or not self._has_valid_path():
            raise self._no_such_path()
        method = "GET" if self.request.method == "HEAD" else self.request.method
        route = self._routes.get(method or "")
        if route is None:
            raise self.refuse_method()
        return route

    def refuse_method(self) -> ApiRefusal:
        """Return the refusal of the request's method: 405 with the methods of this path, or 404 if it has none."""
        return errors.method_not_allowed(self.request.method, self._routes) if self._routes else self._no_such_path()

    def _no_such_path(self) -> ApiRefusal:
        return refusal(404, "not_found", f"There is nothing at {self.request.path}.")

    def _has_valid_path(self) -> bool:
        return all(re.fullmatch(PATH_PARTS[name], str(part)) for name, part in self.path_kwargs.items())

    async def _authorise(self, route: Route) -> Requester:
        """Return the requester, by the proof that the route demands.

        The result is nobody for a public route, for an open route without a valid token, and for the metrics of a
        service that does not lead. Raises an `ApiRefusal` if the proof is missing or not sufficient, and `NotLeading`
        for other routes of such a service.
        """
        if route.access is Access.PUBLIC:
            return Requester()
        services = self._wiring.services
        if route.access is Access.OPEN:
            return Requester() if services is None else await self._recognise()
        if services is None:
            if route.access is Access.MONITOR:  # the answer says no more than `ready` says to everybody
                return Requester()
            raise NotLeading(self._wiring.status.explain_unready())
        token = self._token()
        if route.access is Access.JOB_TOKEN:
            task = services.pods.find_task(str(self.path_kwargs["job"]), token)
            if task is None:
                raise errors.invalid_token()
            return Requester(task=task)
        if route.access in {Access.POD, Access.AGENT}:
            if self._wiring.pods is None:
                raise no_pods()
            node, peer = self.path_kwargs.get("node"), peer_of(self.request)
            return Requester(pod=await self._wiring.pods.permitted_pod(token, route.access, node, peer=peer))
        return Requester(caller=await self._find_caller(token, route.access))

    async def _find_caller(self, token: str, access: Access) -> Caller:
        return await permitted_caller(self._wiring.authenticator, token, access, peer_of(self.request))

    async def _recognise(self) -> Requester:
        """Return the holder of the request's Hub token.

        The result is nobody if there is no token, if the token may not read, or if the Hub cannot be asked.
        """
        try:
            return Requester(caller=await self._find_caller(self._token(), Access.READ))
        except ApiRefusal:
            return Requester()

    def _token(self) -> str:
        """Return the token in the header Authorization; raise a refusal of 401 if there is none."""
        kind, _, token = self.request.headers.get("Authorization", "").strip().partition(" ")
        if kind.lower() not in {"token", "bearer"} or not token.strip():
            raise errors.no_token()
        return token.strip()

    async def _current_caller(self) -> Caller | None:
        """Return the caller as their token shows them now; None if the token no longer opens this route.

        If the Hub cannot be asked, the caller from the start of the request is returned: an outage ends no allowed
        stream.
        """
        try:
            return (await self._authorise(self._find())).caller
        except ApiRefusal as refused:
            # Nobody can be asked now: no reason to end what was allowed.
            return self._requester.caller if refused.status == 503 else None

    # The request

    def _has_body(self) -> bool:
        """Return whether the headers announce a body."""
        headers = self.request.headers
        return bool(headers.get("Transfer-Encoding")) or headers.get("Content-Length", "0") != "0"

    def _declared_length(self) -> int:
        """Return the length of the body that the header declares, in bytes.

        A length that is not a number of 64 bits counts as the largest number.
        """
        length = parse_count(self.request.headers.get("Content-Length", "0"))
        return sys.maxsize if length is None else length

    def _parsed(self, route: Route) -> BaseModel | str | None:
        """Return the body as the route's model, or as text; None for a route without a body.

        Raises a refusal of 400 or 422 for a body that is not of the model.
        """
        if route.request is None:
            return None
        if isinstance(route.request, Media):
            return self._body.decode("utf-8", "replace")
        return parse_model(route.request, bytes(self._body), self._wiring.most_values(route.size))

    def _require_known_parameters(self, route: Route) -> None:
        """Raise a refusal of 422 if the query has a parameter that the route does not have, which may be misspelt."""
        known = [parameter.name for parameter in route.query]
        unknown = next((name for name in self.request.query_arguments if name not in known), None)
        if unknown is None:
            return
        there = f"use {', '.join(known)}" if known else "leave it out: there are none here"
        written = unknown.encode("latin-1", "replace").decode("utf-8", "replace")[:60]  # tornado reads names as bytes
        message = f"There is no query parameter {written!r} at {route.path}; {there}."
        raise refusal(422, "invalid_request", message)

    def _parameter(self, parameter: Parameter) -> str | int | None:
        """Return the value of a query parameter, or its default if it is not given. The last of several values counts.

        Raises a refusal of 422 if the value is not what the parameter declares.
        """
        # Not `get_query_argument`, which leaves out spaces and control characters without a word.
        given = self.request.query_arguments.get(parameter.name)
        return parse_parameter(parameter, given[-1]) if given else parameter.default

    def _declared_headers(self, route: Route) -> dict[str, str]:
        """Return the headers of the request that the route declares, by their name in lower case."""
        found = ((header.name, self.request.headers.get(header.name)) for header in route.headers)
        return {name.lower(): value for name, value in found if value is not None}

    # The answer

    async def _send(self, reply: Reply) -> None:
        """Send the reply: status, headers, and the body, which is a stream, a text, a model or a JSON document."""
        self.set_status(reply.status)
        for name, value in reply.headers.items():
            self.set_header(name, value)
        if reply.status == 204:
            self.clear_header("Content-Type")
            return
        self.set_header("Content-Type", reply.media)
        if reply.stream is not None:
            await self._follow(reply.stream)
        elif reply.text is not None:
            self.finish(reply.text)
        elif reply.content is not None:
            self.finish(reply.content)
        elif isinstance(reply.body, BaseModel):
            document = reply.body.model_dump_json()
            self.finish(document if self._find().verbatim else self._with_names(document))
        else:
            self.finish(json.dumps(reply.body))

    async def _awaited(self, answer: Awaitable[Reply]) -> Reply:
        """Return the result of a route's awaitable. If the requester disconnects, the awaitable is cancelled.

        Raises `StreamClosedError` after such a cancellation, and otherwise the error of the awaitable.
        """
        pending = asyncio.ensure_future(answer)
        self._pump = pending
        await asyncio.wait({pending})
        if pending.cancelled():
            raise StreamClosedError
        return pending.result()

    async def _follow(self, stream: AsyncGenerator[bytes, None]) -> None:
        """Send a stream until it ends or the reader disconnects; on HEAD, close the stream and send none of it."""
        if self.request.method == "HEAD":
            await stream.aclose()
            return
        begin_stream(self.request)
        self._pump = asyncio.create_task(self._copy(stream))
        await asyncio.wait({self._pump})
        if not self._pump.cancelled():
            self._pump.result()

    async def _copy(self, stream: AsyncGenerator[bytes, None]) -> None:
        """Write each piece of a stream to the connection, and close the stream in the end.

        The next piece is made once the reader has taken the last one. A reader who takes nothing for too long is
        disconnected by the server; see `connections`.
        """
        try:
            async for piece in stream:
                self.write(piece)
                await self.flush()
        except StreamClosedError:
            log.debug("stream_ended path=%s: the reader is gone or too slow", self.request.path)
        finally:
            await stream.aclose()

    def on_connection_close(self) -> None:
        """Cancel the pending answer or stream, because the requester has disconnected."""
        super().on_connection_close()
        self._stop_body_timer()
        if self._pump is not None:
            self._pump.cancel()

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Send the error of this request as a `Problem`, with the status and headers of its refusal.

        An unexpected error is answered with 500 and the id under which it is logged, never with a traceback.
        """
        refused = self.refusal_for(errors.raised_error(kwargs))
        self.set_status(refused.status)
        if refused.status == 429:
            self._wiring.connections.refused += 1
        for name, value in refused.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(self._with_names(refused.problem.model_dump_json()))

    def _with_names(self, document: str) -> str:
        """Return a JSON document with the names of users and their work that the requester may see.

        The document is unchanged while another service leads.
        """
        services = self._wiring.services
        return document if services is None else services.mentions.render(document, self._requester.caller)


async def permitted_caller(authenticator: Authenticator, token: str, access: Access, peer: str) -> Caller:
    """Return the holder of a Hub token as a caller, if the token opens this service and this kind of route.

    `peer` is the address from which the token comes.

    Raises an `ApiRefusal`: 401 for an invalid token, 403 for a missing scope, 503 if the Hub cannot be asked.
    """
    identity = await authenticator.identify(token, peer)
    if not identity.may_access(authenticator.service):
        raise errors.missing_scope(f"access:services!service={authenticator.service}")
    missing = identity.missing_scope(access)
    if missing is not None:
        raise errors.missing_scope(missing)
    return identity.as_caller()
