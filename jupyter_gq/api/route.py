"""The definition of a route: one row of the table in `api.routes`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from jupyter_gq.client.bounds import NAME_CHARACTER

from .access import Access
from .call import Call, Reply

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Size(StrEnum):
    """The size class of a request's body; `api.wiring` knows the bytes."""

    SMALL = "small"
    LOG = "log"
    OUTPUTS = "outputs"
    BUNDLE = "bundle"
    FILES = "files"
    DIGESTS = "digests"


class Media(StrEnum):
    """The media type of a body or an answer that is none of the wire models."""

    JSON = "application/json"
    TEXT = "text/plain"
    BYTES = "application/octet-stream"
    EVENTS = "text/event-stream"


#: The statuses of a route without an answer.
DONE: Mapping[int, str] = {204: "Done."}

#: Names of people, servers and nodes come in any script.
_NAME = rf"{NAME_CHARACTER}{{1,255}}"
#: The form of a text in the query.
QUERY_TEXT = rf"^{NAME_CHARACTER}*$"
_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
#: The form of each variable part of a path. A request with another form is refused before its token is looked at.
PATH_PARTS: Mapping[str, str] = {
    "job": _ID,
    "ticket": _ID,
    "node": _NAME,
    "server": _NAME,
    "drain": _NAME,
    "queue": _NAME,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter in the query or in a header of a request."""

    name: str
    help: str
    type: Literal["integer", "string"] = "string"
    #: Smallest and largest value of an integer.
    minimum: int = 0
    maximum: int = 2**63 - 1
    #: Most characters of a text.
    max_length: int = 255
    #: Used when the parameter is not given.
    default: str | int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A method on a path. `access` has no default, so that no route can be written without a decision on access."""

    method: Method
    #: Relative to `{prefix}api/v1/`; variable parts in braces.
    path: str
    access: Access
    #: One sentence for the reference.
    summary: str
    #: Computes the answer. An answer that is not ready at once is awaited, and cancelled if the requester disconnects.
    run: Callable[[Call], Reply | Awaitable[Reply]]
    #: The model or media type of the body; None = the body is not read.
    request: type[BaseModel] | Media | None = None
    #: The model or media type of the answer; None = the answer has only a status.
    response: type[BaseModel] | Media | None = None
    #: The meaning of each status of success.
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "Done as asked."})
    #: Statuses of refusals beyond those that every route of this kind of access has.
    refusals: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    size: Size = Size.SMALL
    #: The answer is what a job wrote, and is passed on unchanged.
    verbatim: bool = False
