"""The argument and the result of a route's function. Neither of them knows tornado."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import NotLeading
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonMapping

from .services import Services, Status


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
    """One request that passed authorisation and validation."""

    status: Status
    #: The objects that answer; None while another service leads. Routes use `services`.
    leading: Services | None = None
    requester: Requester
    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    #: The declared query parameters that were given, and the defaults of the others.
    query: JsonMapping
    #: The declared request headers that were given, by their name in lower case.
    headers: Mapping[str, str]
    #: An instance of the route's request model, or text; None when the route has no body.
    body: Any = None
    #: Tells whether the requester's token is still good for this route. Long answers ask now and then.
    still_permitted: Callable[[], Awaitable[bool]]

    @property
    def services(self) -> Services:
        """The objects that answer requests. Raises `NotLeading` while another service leads."""
        if self.leading is None:
            raise NotLeading(self.status.explain_unready())
        return self.leading

    @property
    def caller(self) -> Caller:
        """The user or service that asks, on a route that demands a scope."""
        if self.requester.caller is None:
            raise LookupError("this route is declared without a scope and has no caller")
        return self.requester.caller

    @property
    def pod(self) -> PodIdentity:
        """The pod that asks, on a route for pods."""
        if self.requester.pod is None:
            raise LookupError("this route is not declared for pods")
        return self.requester.pod

    @property
    def task(self) -> int:
        """The number of the job's task that asks, on a route of a job token."""
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
    #: Sent piece by piece instead of `body`, as `media`, until it ends or the reader goes away.
    stream: AsyncGenerator[bytes, None] | None = None
    media: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT = Reply(status=204)
