"""The claim of an authorised request on its connection: the connection is not evicted, and the request is counted."""

from collections.abc import Mapping

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest

from jupyter_gq.connections.connection import Connection

from .call import Requester
from .errors import no_connection_left, too_many_requests

#: Callers whose names begin like this are services of the Hub.
_SERVICE = "service/"


def claim_connection(request: HTTPServerRequest, requester: Requester, path: Mapping[str, str]) -> None:
    """Protect the connection of an authorised request, and count the request; does nothing without a requester.

    `path` holds the variable parts of the request's path. Raises a refusal of 429 if the requester has too many
    requests under way, and of 503 if requests and streams hold all connections that they may hold.
    """
    connection = _connection_of(request)
    if connection is None or requester == Requester():
        return
    registry, name = connection.registry, count_as(requester, path)
    if name is not None and registry.is_full:
        raise no_connection_left()
    if not registry.claim(connection, name):
        raise too_many_requests(registry.limits.requests_per_user)


def begin_stream(request: HTTPServerRequest) -> None:
    """Note that the connection of a request carries a stream from now on."""
    connection = _connection_of(request)
    if connection is not None:
        connection.registry.begin_stream(connection)


def peer_of(request: HTTPServerRequest) -> str:
    """Return the name of the other end of a request's connection, see `connections.connection.find_peer`."""
    connection = _connection_of(request)
    return str(request.remote_ip) if connection is None else connection.peer


def count_as(requester: Requester, path: Mapping[str, str]) -> str | None:
    """Return the name under which a request is counted: that of a user, a pod, or a task of the job in the path.

    Returns None for services of the Hub: administrators install them, and their requests are those of many users.
    """
    if requester.caller is not None:
        return None if requester.caller.user.startswith(_SERVICE) else f"user {requester.caller.user}"
    if requester.pod is not None:
        return f"pod {requester.pod.uid}"
    return f"task {requester.task} of {path.get('job')}"


def _connection_of(request: HTTPServerRequest) -> Connection | None:
    """Return the connection of a request; None if the connection has no registry."""
    stream = request.connection.stream if isinstance(request.connection, HTTP1Connection) else None
    return stream if isinstance(stream, Connection) else None
