"""Answers and events that this server makes itself, beside those of the service that it passes on.

Plain dataclasses, so that a server starts without loading pydantic. The OpenAPI document of the lab extension
describes them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The answer of GET status. If the service cannot be used, `message` says why and what to do."""

    available: bool
    message: str
    #: Name of the user on the Hub; None without a Hub.
    user: str | None
    #: Name of this server on the Hub; empty for the default server.
    server: str
    #: Whether this server runs on a JupyterHub that has the service.
    hub: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPath:
    """The answer of POST open-result: the place of the executed notebook, relative to the root folder."""

    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionNotice:
    """The data of an event of kind `connection`: the service was lost or can be reached again."""

    available: bool
    message: str
