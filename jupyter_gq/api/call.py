"""What a route's function is given, and what it gives back; neither knows tornado."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonMapping

from .facade import Facade


@dataclass(frozen=True, kw_only=True, slots=True)
class Speaker:
    """Who asks, by the proof that the route demands; nothing on public routes."""

    #: Holder of a Hub token.
    caller: Caller | None = None
    #: Where the token is a pod's.
    pod: PodIdentity | None = None
    #: Where the token is a job's: the number of the task.
    task: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request that passed authorisation and validation."""

    controller: Facade
    speaker: Speaker
    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    #: The declared query parameters that were given, and the defaults of the others.
    query: JsonMapping
    #: The declared request headers that were given, by their name in lower case.
    headers: Mapping[str, str]
    #: An instance of the route's request model, or text; None when it has none.
    body: Any = None
    #: Tells whether the caller's token is still good for this route; long answers ask now and then.
    still_permitted: Callable[[], Awaitable[bool]]

    @property
    def caller(self) -> Caller:
        """Who asks, on a route that demands a scope."""
        if self.speaker.caller is None:
            raise LookupError("this route is declared without a scope and has no caller")
        return self.speaker.caller

    @property
    def pod(self) -> PodIdentity:
        """Which pod asks, on a route for pods."""
        if self.speaker.pod is None:
            raise LookupError("this route is not declared for pods")
        return self.speaker.pod

    @property
    def task(self) -> int:
        """Which task of the job asks, on a route of a job token."""
        if self.speaker.task is None:
            raise LookupError("this route is not declared for job tokens")
        return self.speaker.task


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What to answer."""

    #: A model or a JSON document; None = no body.
    body: BaseModel | JsonMapping | None = None
    #: 204 is chosen by itself where there is no body at all.
    status: int = 200
    #: Sent instead of `body`, as `media`.
    text: str | None = None
    #: Sent piece by piece instead of `body`, as `media`, until it ends or the reader goes away.
    stream: AsyncGenerator[bytes, None] | None = None
    media: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT = Reply(status=204)
