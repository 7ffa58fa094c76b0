"""The status of a starting server, for any number of viewers.

Rules
-----
- State, not messages: each open page reads the state for itself, so ten viewers see the same.
- The last status is never missed: a slow viewer may miss statuses in between.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from html import escape
from typing import Literal

from jupyter_gq.domain.json_types import JsonObject

Step = Literal["idle", "asking", "waiting", "starting", "ended"]

_PROGRESS: dict[Step, int] = {"idle": 0, "asking": 2, "waiting": 5, "starting": 50, "ended": 100}
_WAITING_AT_MOST = 45


@dataclass(frozen=True, kw_only=True, slots=True)
class SpawnStatus:
    """The status of a start at one moment."""

    #: Present step of the start.
    step: Step = "idle"
    #: Requested share, "0" for CPU only.
    gpus: str = "0"
    #: Sentence that says what happens and why.
    sentence: str = ""
    #: Place in line, from 1; None if the server does not wait or the place is unknown.
    position: int | None = None
    #: Number of servers before this one; None if unknown.
    ahead: int | None = None
    #: Loop time at which the wait began; None before it.
    since: float | None = None

    @property
    def event(self) -> JsonObject:
        """The status as an event of the Hub's progress stream: progress, message, and message as HTML."""
        return {"progress": self.progress, "message": self.text, "html_message": escape(self.text)}

    @property
    def text(self) -> str:
        """The sentence, with the place in line if there is one."""
        if self.step == "waiting" and self.position is not None:
            return f"In line for {self.gpus} GPU, place {self.position}. {self.sentence}".rstrip()
        return self.sentence

    @property
    def progress(self) -> int:
        """The progress from 0 to 100, by step; in line, the value grows while servers before this one are admitted."""
        start = _PROGRESS[self.step]
        if self.step != "waiting" or self.ahead is None:
            return start
        return max(start, _WAITING_AT_MOST - 5 * self.ahead)


class StatusBoard:
    """The present status of a start, and notice of each new one."""

    def __init__(self) -> None:
        self.now = SpawnStatus()
        self._changed = asyncio.Event()

    def show(self, status: SpawnStatus) -> None:
        """Replace the status and wake the viewers; do nothing if the status is the same."""
        if status == self.now:
            return
        self.now = status
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncGenerator[SpawnStatus, None]:
        """Yield the present status, then each later one that this viewer is fast enough to see. Never end by itself."""
        while True:
            changed, status = self._changed, self.now
            yield status
            await changed.wait()

    async def relay_during(self, step: Step, events: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
        """Yield the items of `events` while the start is at `step`; end once the step changes or `events` ends.

        Once this iterator has ended or was cancelled, nothing waits for `events`, so that the caller can close them.
        """
        left = asyncio.create_task(self._wait_until_left(step))
        tasks: list[asyncio.Task[None] | asyncio.Task[JsonObject]] = [left]
        try:
            while self.now.step == step:
                following = asyncio.create_task(_next(events))
                tasks = [left, following]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    return
                try:
                    event = following.result()
                except StopAsyncIteration:
                    return
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_until_left(self, step: Step) -> None:
        """Wait until the start is at another step."""
        while self.now.step == step:
            await self._changed.wait()


async def _next(events: AsyncIterator[JsonObject]) -> JsonObject:
    return await anext(events)
