"""What a starting server is doing, for everybody who watches.

Rules
-----
1. This is state, not a queue of messages: every open page reads it for itself, so ten viewers see the same.
2. A viewer that was slow misses intermediate sentences, never the last one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from jupyter_gq.domain.json_types import JsonObject

Step = Literal["idle", "asking", "waiting", "starting", "ended"]

_PROGRESS: dict[Step, int] = {"idle": 0, "asking": 2, "waiting": 5, "starting": 50, "ended": 100}
_WAITING_AT_MOST = 45


@dataclass(frozen=True, kw_only=True, slots=True)
class SpawnStatus:
    """One moment of a start."""

    #: Where the start is.
    step: Step = "idle"
    #: The share asked for, "0" for CPU only.
    gpus: str = "0"
    #: What happens and why, one sentence.
    sentence: str = ""
    #: Place in line, from 1; None while it is not in line or unknown.
    position: int | None = None
    #: How many wait before it; None when unknown.
    ahead: int | None = None
    #: Loop time at which the wait began; None before.
    since: float | None = None

    @property
    def event(self) -> JsonObject:
        """The form that the Hub's progress stream wants."""
        return {"progress": self.progress, "message": self.text, "html_message": escape(self.text)}

    @property
    def text(self) -> str:
        """The sentence, with the place in line when there is one."""
        if self.step == "waiting" and self.position is not None:
            return f"In line for {self.gpus} GPU, place {self.position}. {self.sentence}".rstrip()
        return self.sentence

    @property
    def progress(self) -> int:
        """0 to 100; moves on as those before it get their turn."""
        start = _PROGRESS[self.step]
        if self.step != "waiting" or self.ahead is None:
            return start
        return max(start, _WAITING_AT_MOST - 5 * self.ahead)


class StatusBoard:
    """Holds the present status and wakes those who wait for the next one."""

    def __init__(self) -> None:
        self.now = SpawnStatus()
        self._changed = asyncio.Event()

    def show(self, status: SpawnStatus) -> None:
        """Replace the status; nothing happens when it is the same."""
        if status == self.now:
            return
        self.now = status
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncGenerator[SpawnStatus, None]:
        """The present status, then each new one that this viewer is quick enough to see. Never ends by itself."""
        while True:
            changed, status = self._changed, self.now
            yield status
            await changed.wait()

    async def during(self, step: Step, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        """These events, for as long as the start is at this step: a viewer hears at once that it went on, or back."""
        left = asyncio.create_task(self._left(step))
        try:
            while self.now.step == step:
                following = asyncio.create_task(_next(events))
                await asyncio.wait({following, left}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    await asyncio.wait({following})
                    return
                try:
                    event = following.result()
                except StopAsyncIteration:
                    return
                yield event
        finally:
            left.cancel()

    async def _left(self, step: Step) -> None:
        while self.now.step == step:
            await self._changed.wait()


async def _next(events: AsyncIterator[Any]) -> Any:
    return await anext(events)
