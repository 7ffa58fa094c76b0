"""Whom tokens belong to: who is asked is believed for a while, so that not every request asks.

Rules
-----
1. Tokens are kept nowhere: an answer is known by the hash of its token.
2. Many requests with one token at a time ask once.
3. A failure is never remembered, and an old answer never outlives its time because nobody can be asked.
4. Where answers are renewed early, who asks often never waits; one who has lost his right meanwhile is forgotten at
   once.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .errors import Refusal

Holder = TypeVar("Holder")

#: Seconds between early questions while nobody can answer.
PAUSE = 2.0
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


def acceptable(token: str) -> bool:
    """It has the form of a token, so that it may be passed on in a header."""
    return _TOKEN.fullmatch(token) is not None


@dataclass(slots=True)
class _Known(Generic[Holder]):
    """An answer, or the question while it is asked."""

    question: asyncio.Future[Holder]
    #: Until when the answer is believed.
    until: float
    #: From when on the next question is asked, while this answer still serves.
    ask_again: float
    asking: asyncio.Task[None] | None = None


class Holders(Generic[Holder]):
    """The holders of tokens, as `ask` says; it raises a `Refusal` for a token that is nobody's."""

    def __init__(
        self,
        ask: Callable[[str], Coroutine[Any, Any, Holder]],
        *,
        seconds: float,
        most: int,
        early: float = 1.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Believe an answer for so many `seconds`, and keep so many at the `most`.

        `early`: from this part of that time on, a request has the answer renewed without waiting for it; 1 = never.
        """
        self._ask = ask
        self._seconds, self._most, self._early = seconds, most, early
        self._clock = clock
        #: By the hash of the token.
        self._known: dict[bytes, _Known[Holder]] = {}

    async def of(self, token: str) -> Holder:
        """Whom this token belongs to."""
        key = hashlib.sha256(token.encode()).digest()
        now = self._now()
        known = self._known.get(key)
        if known is None or now >= known.until:
            self._make_room(now)
            question = asyncio.create_task(self._ask(token))
            question.add_done_callback(lambda task: self._forget_failure(key, task))
            known = self._remember(key, question, now)
        elif now >= known.ask_again and known.asking is None:
            known.asking = asyncio.create_task(self._renew(key, token, known))
        return await asyncio.shield(known.question)

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    def _remember(self, key: bytes, question: asyncio.Future[Holder], asked_at: float) -> _Known[Holder]:
        known = _Known(
            question=question, until=asked_at + self._seconds, ask_again=asked_at + self._early * self._seconds
        )
        self._known[key] = known
        return known

    def _forget_failure(self, key: bytes, question: asyncio.Task[Holder]) -> None:
        failed = question.cancelled() or question.exception() is not None
        known = self._known.get(key)
        if failed and known is not None and known.question is question:
            del self._known[key]

    async def _renew(self, key: bytes, token: str, known: _Known[Holder]) -> None:
        """Replace an answer by a newer one; forget it at once when the token is nobody's any more."""
        asked_at = self._now()
        try:
            holder = await self._ask(token)
        except Refusal as refused:
            known.asking, known.ask_again = None, asked_at + PAUSE
            if refused.status == 401 and self._known.get(key) is known:
                del self._known[key]
            return
        answer: asyncio.Future[Holder] = asyncio.get_running_loop().create_future()
        answer.set_result(holder)
        self._remember(key, answer, asked_at)

    def _make_room(self, now: float) -> None:
        if len(self._known) < self._most:
            return
        self._known = {key: known for key, known in self._known.items() if known.until > now}
        while len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
