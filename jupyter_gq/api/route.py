"""What a route is: one row of the table in `api.routes`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from .access import Access
from .call import Call, Reply

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Size(StrEnum):
    """How large the body of a request may be; `api.endpoint` knows the bytes."""

    SMALL = "small"
    LOG = "log"
    OUTPUTS = "outputs"
    BUNDLE = "bundle"


class Media(StrEnum):
    """Bodies and answers that are not one of our models."""

    JSON = "application/json"
    TEXT = "text/plain"
    EVENTS = "text/event-stream"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter in the query or in a header."""

    name: str
    help: str
    #: "integer" or "string".
    type: Literal["integer", "string"] = "string"
    #: Smallest and largest value of an integer.
    minimum: int = 0
    maximum: int = 2**63 - 1
    #: Used when the parameter is not given.
    default: str | int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A method on a path. `access` has no default: a route that nobody authorised cannot be written."""

    method: Method
    #: Relative to `{prefix}api/v1/`; variable parts in braces.
    path: str
    access: Access
    #: One sentence for the reference.
    summary: str
    #: An answer that is not ready at once is awaited; it is cancelled when the asker goes away.
    run: Callable[[Call], Reply | Awaitable[Reply]]
    #: What the body must be; None = the body is not read.
    request: type[BaseModel] | Media | None = None
    #: What is answered; None = nothing but a status.
    response: type[BaseModel] | Media | None = None
    #: What each status of success means.
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "As asked."})
    #: Statuses of refusal beyond those that every route of its kind has.
    refusals: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    size: Size = Size.SMALL
