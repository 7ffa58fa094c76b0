"""Controllers that fail, named by how. What works is tested with the real one."""

import asyncio
from typing import Any

from jupyter_gq.client import models
from jupyter_gq.controller.caller import Caller

JOB_TOKEN = "token-of-job-1"


class Raises:
    """Every act ends with this error. Knows the token of job-1 and nothing else."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.acts: list[tuple[str, tuple[Any, ...]]] = []

    def authorise_job_token(self, job_id: str, token: str) -> bool:
        return (job_id, token) == ("job-1", JOB_TOKEN)

    def __getattr__(self, act: str) -> Any:
        def fail(*given: Any, **named: Any) -> Any:
            self.acts.append((act, given))
            raise self.error

        return fail


class Streams:
    """Its event stream says what the test says; remembers who listened and from where."""

    def __init__(self) -> None:
        self.listeners: list[ScriptedSubscription] = []

    def subscribe(self, caller: Caller, after: int | None) -> "ScriptedSubscription":
        self.listeners.append(ScriptedSubscription(caller, after))
        return self.listeners[-1]


class ScriptedSubscription:
    """Yields what is put; None ends it."""

    def __init__(self, caller: Caller, after: int | None) -> None:
        self.caller, self.after = caller, after
        self.closed = asyncio.Event()
        self._events: asyncio.Queue[models.ServiceEvent | None] = asyncio.Queue()

    def put(self, event: models.ServiceEvent | None) -> None:
        self._events.put_nowait(event)

    def __aiter__(self) -> "ScriptedSubscription":
        return self

    async def __anext__(self) -> models.ServiceEvent:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        self.closed.set()
