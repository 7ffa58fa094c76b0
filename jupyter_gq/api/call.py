"""The argument and the result of a route's function. Neither of them knows tornado."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from jupyter_gq.connections.limits import ConnectionCounts
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import NotLeading
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonMapping

from .services import Services, Status

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requester:
    """The sender of a request, by the proof that the route demands; empty on public routes."""

    #: Holder of a Hub token.
    caller: Caller | None = None
    #: The pod, if the token is a pod's.
    pod: PodIdentity | None = None
    #: The number of the task, if the token is a job's.
    task: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request that passed authorisation and validation."""

    status: Status
    #: The objects that answer; None while another service leads. Routes use `services`.
    leading: Services | None = None
    requester: Requester
    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    #: The declared query parameters that were given, and the defaults of the others.
    query: Mapping[str, str | int | None]
    #: The declared request headers that were given, by their name in lower case.
    headers: Mapping[str, str]
    #: An instance of the route's request model, or text; None when the route has no body.
    body: BaseModel | str | None = None
    #: Returns the requester as the token shows them now; None if the token does not open this route any more. Long
    #: answers ask now and then.
    current_caller: Callable[[], Awaitable[Caller | None]]
    #: Returns the numbers of open, closed and refused connections of the server.
    count_connections: Callable[[], ConnectionCounts] = ConnectionCounts

    @property
    def services(self) -> Services:
        """The objects that answer requests. Raises `NotLeading`, which says why, if another service leads."""
        if self.leading is None:
            raise NotLeading(self.status.explain_unready())
        return self.leading

    def model(self, kind: type[Model]) -> Model:
        """Return the body of the request as a `kind`; raise `TypeError` if the route does not declare that body."""
        if not isinstance(self.body, kind):
            raise TypeError(f"this route is not declared with a body of the kind {kind.__name__}")
        return self.body

    @property
    def plain_text(self) -> str:
        """The body of the request; raises `TypeError` if the route does not declare a body of text."""
        if not isinstance(self.body, str):
            raise TypeError("this route is not declared with a body of text")
        return self.body

    def integer(self, name: str) -> int:
        """Return the integer in a query parameter, given or by default.

        Raises `LookupError` if the parameter is declared without a default, and `TypeError` if it is declared as text.
        """
        value = self.optional_integer(name)
        if value is None:
            raise LookupError(f"the parameter {name} is declared without a default")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return the integer in a query parameter; None if it is not given.

        Raises `TypeError` if it is declared as text.
        """
        value = self.query[name]
        if isinstance(value, str):
            raise TypeError(f"the parameter {name} is declared as text")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return the text in a query parameter; None if it is not given.

        Raises `TypeError` if it is declared as an integer.
        """
        value = self.query[name]
        if isinstance(value, int):
            raise TypeError(f"the parameter {name} is declared as an integer")
        return value

    @property
    def caller(self) -> Caller:
        """The user or service that asks; raises `LookupError` if the request showed no Hub token."""
        if self.requester.caller is None:
            raise LookupError("this route is declared without a scope and has no caller")
        return self.requester.caller

    @property
    def pod(self) -> PodIdentity:
        """The pod that asks; raises `LookupError` on a route that is not for pods."""
        if self.requester.pod is None:
            raise LookupError("this route is not declared for pods")
        return self.requester.pod

    @property
    def task(self) -> int:
        """The number of the job's task that asks; raises `LookupError` on a route that is not for job tokens."""
        if self.requester.task is None:
            raise LookupError("this route is not declared for job tokens")
        return self.requester.task


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The answer to a request."""

    #: A model or a JSON document; None = no body.
    body: BaseModel | JsonMapping | None = None
    status: int = 200
    #: Sent instead of `body`, as `media`.
    text: str | None = None
    #: Sent instead of `body`, as `media`, unchanged.
    content: bytes | None = None
    #: Sent piece by piece instead of `body`, as `media`, until it ends or the reader goes away.
    stream: AsyncGenerator[bytes, None] | None = None
    media: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT = Reply(status=204)
