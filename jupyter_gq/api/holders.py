"""Whom tokens belong to: who is asked is believed for a while, so that not every request asks.

Rules
-----
1. Tokens are kept nowhere: an answer is known by the hash of its token.
2. Many requests with one token at a time ask once.
3. A failure is never remembered. Whether an old answer outlives its time because nobody can be asked, and for how long,
   says who uses this: without `outlast` it never does.
4. Where answers are renewed early, who asks often never waits; one who has lost his right meanwhile is forgotten at
   once. The renewals of many are spread, so that those who came together are not asked about together for ever.
"""

import asyncio
import hashlib
import math
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Generic, TypeVar

from jupyter_gq.controller.clock import SystemClock

from .errors import ApiRefusal

Holder = TypeVar("Holder")

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
    #: Until when it is believed at the most while nobody can be asked.
    last: float
    asking: asyncio.Task[None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """How long an answer is believed. All times are in seconds."""

    #: Where somebody can be asked.
    seconds: float
    #: From this part of that time on, a request has the answer renewed without waiting for it; 1 = never.
    early: float = 1.0
    #: By up to this part of that time sooner, each token at a moment of its own.
    spread: float = 0.0
    #: While nobody can be asked: since somebody last answered. Only for those that are renewed early.
    outlast: float = 0.0
    #: Between early questions while nobody can answer.
    pause: float = 2.0


class Holders(Generic[Holder]):
    """The holders of tokens, as `ask` says; it raises a `ApiRefusal` for a token that is nobody's."""

    def __init__(
        self,
        ask: Callable[[str], Coroutine[object, None, Holder]],
        belief: Belief,
        *,
        most: int,
        left: Callable[[Holder], float] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Keep so many answers at the `most`. `left`: seconds for which one may be believed, whatever `belief` says."""
        self._ask, self._belief, self._most, self._left = ask, belief, most, left
        self._clock = clock or SystemClock().elapsed
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
            known = self._known[key] = _Known(
                question=question, until=now + self._belief.seconds, ask_again=math.inf, last=now
            )
            question.add_done_callback(lambda task: self._settle(key, task, now))
        elif now >= known.ask_again and known.asking is None:
            known.asking = asyncio.create_task(self._renew(key, token, known))
        return await asyncio.shield(known.question)

    def _now(self) -> float:
        return self._clock()

    def _remember(self, key: bytes, question: asyncio.Future[Holder], asked_at: float) -> None:
        belief = self._belief
        left = self._left(question.result()) if self._left is not None else math.inf
        believed = min(belief.seconds, left)
        share = belief.early - belief.spread * int.from_bytes(key[:2], "big") / 2**16
        self._known[key] = _Known(
            question=question,
            until=asked_at + believed,
            ask_again=asked_at + share * believed,
            last=asked_at + min(belief.outlast, left),
        )

    def _settle(self, key: bytes, question: asyncio.Task[Holder], asked_at: float) -> None:
        """The question is answered, before anybody who waits for it goes on."""
        failed = question.cancelled() or question.exception() is not None
        known = self._known.get(key)
        if known is None or known.question is not question:
            return
        if failed:
            del self._known[key]
        else:
            self._remember(key, question, asked_at)

    async def _renew(self, key: bytes, token: str, known: _Known[Holder]) -> None:
        """Replace an answer by a newer one; forget it at once when the token is nobody's any more.

        Where nobody can be asked, the answer goes on for its time again, up to its last moment.
        """
        asked_at = self._now()
        try:
            holder = await self._ask(token)
        except ApiRefusal as refused:
            known.asking, known.ask_again = None, asked_at + self._belief.pause
            if refused.status != 401:
                known.until = max(known.until, min(asked_at + self._belief.seconds, known.last))
            elif self._known.get(key) is known:
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
