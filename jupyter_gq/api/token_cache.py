"""The holders of tokens, cached for a while, so that not every request asks the Hub or the cluster.

Rules
-----
- No token is stored: an answer is found by the hash of its token.
- One question: many simultaneous requests with one token ask once.
- Turns: an asker has few questions about new tokens under way, so that tokens which nobody knows keep nobody else
  waiting. Renewals wait for no turn. See docs/decisions/0380-ask-about-the-new-tokens-of-an-address-in-turns.md.
- No failure is remembered. An answer outlives its lifetime while nobody can be asked only if the policy has an
  `outage_lifetime`.
- Early renewal: with a policy that renews early, a frequent requester never waits, and a token that has lost its right
  is forgotten at once. Renewals of many tokens are spread, so that tokens which came together are not renewed together
  for ever.
"""

import asyncio
import hashlib
import math
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from jupyter_gq.controller.clock import SystemClock

from .errors import ApiRefusal, too_many_new_tokens

Holder = TypeVar("Holder")

_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
#: Questions about new tokens of one asker that are under way at one time at most.
MOST_QUESTIONS = 8
#: For how many seconds the question about a new token waits for its turn.
_TURN_TIMEOUT = 5.0


def has_token_form(token: str) -> bool:
    """Return whether the text could be a token: 1 to 4096 printable ASCII characters without spaces.

    Such a text can be sent on in a header.
    """
    return _TOKEN.fullmatch(token) is not None


@dataclass(slots=True)
class _Entry(Generic[Holder]):
    """An answer, or the pending question for it. All times are those of the cache's clock."""

    answer: asyncio.Future[Holder]
    #: The answer serves until then.
    expires_at: float
    #: From then on a request starts a renewal, while this answer still serves.
    renew_at: float
    #: The last moment to which `expires_at` is moved while nobody can be asked.
    outage_ends_at: float
    renewal: asyncio.Task[None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy:
    """How long an answer serves. All times are in seconds."""

    #: How long an answer serves as long as renewals can ask.
    lifetime: float
    #: Part of the lifetime after which a request starts a renewal without waiting for it; 1 = never.
    renew_after: float = 1.0
    #: Renewals begin earlier by up to this part of the lifetime, by a different amount for each token.
    spread: float = 0.0
    #: How long an answer serves, since the last one, while nobody can be asked. Applies to early renewals only.
    outage_lifetime: float = 0.0
    #: The time between two renewals while nobody can be asked.
    retry_pause: float = 2.0


@dataclass(slots=True)
class _Asker:
    """The questions of one address, of which at most `MOST_QUESTIONS` are under way at a time."""

    #: Number of questions that wait or are under way.
    questions: int = 0
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_QUESTIONS))


class _Turns:
    """The turns of all askers. The questions of one asker are asked in the order in which they came."""

    def __init__(self) -> None:
        self._askers: dict[str, _Asker] = {}

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn of the asker, which lasts as long as the block; raise a refusal of 503 after the time-out."""
        state = self._askers.setdefault(asker, _Asker())
        state.questions += 1
        try:
            try:
                async with asyncio.timeout(_TURN_TIMEOUT):
                    await state.turns.acquire()
            except TimeoutError as error:
                raise too_many_new_tokens() from error
            try:
                yield
            finally:
                state.turns.release()
        finally:
            state.questions -= 1
            if not state.questions:
                del self._askers[asker]


class TokenCache(Generic[Holder]):
    """The holders of tokens, as `ask` finds them; `ask` raises an `ApiRefusal` for an invalid token."""

    def __init__(
        self,
        ask: Callable[[str], Coroutine[object, None, Holder]],
        policy: CachePolicy,
        *,
        most: int,
        seconds_left: Callable[[Holder], float] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make an empty cache for at most `most` answers.

        `seconds_left` returns for how long a holder's answer may serve at most, whatever the policy says.
        """
        self._ask, self._policy, self._most, self._seconds_left = ask, policy, most, seconds_left
        self._clock = clock or SystemClock().elapsed
        self._turns = _Turns()
        #: By the hash of the token.
        self._entries: dict[bytes, _Entry[Holder]] = {}

    async def find_holder(self, token: str, asker: str) -> Holder:
        """Return the holder of the token, from the cache or from `ask`; concurrent requests share one question.

        The question about a new token waits for a turn of `asker`, the address from which the token comes. An answer
        that is due for renewal is still returned, and its renewal starts in the background. Raises the `ApiRefusal` of
        `ask`, or one of 503 if no turn comes in time.
        """
        key = hashlib.sha256(token.encode()).digest()
        now = self._clock()
        entry = self._entries.get(key)
        if entry is None or now >= entry.expires_at:
            self._make_room(now)
            question = asyncio.create_task(self._ask_in_turn(token, asker))
            entry = self._entries[key] = _Entry(
                answer=question, expires_at=now + self._policy.lifetime, renew_at=math.inf, outage_ends_at=now
            )
            question.add_done_callback(lambda task: self._settle(key, task, now))
        elif now >= entry.renew_at and entry.renewal is None:
            entry.renewal = asyncio.create_task(self._renew(key, token, entry))
        return await asyncio.shield(entry.answer)

    async def _ask_in_turn(self, token: str, asker: str) -> Holder:
        async with self._turns.take(asker):
            return await self._ask(token)

    def _store(self, key: bytes, answer: asyncio.Future[Holder], asked_at: float) -> None:
        """Cache an answer that was asked for at `asked_at`, and compute when it expires and when it is renewed.

        The answer expires after the policy's lifetime, or earlier if `seconds_left` of its holder is less.
        """
        policy = self._policy
        left = self._seconds_left(answer.result()) if self._seconds_left is not None else math.inf
        lifetime = min(policy.lifetime, left)
        part = policy.renew_after - policy.spread * int.from_bytes(key[:2], "big") / 2**16
        self._entries[key] = _Entry(
            answer=answer,
            expires_at=asked_at + lifetime,
            renew_at=asked_at + part * lifetime,
            outage_ends_at=asked_at + min(policy.outage_lifetime, left),
        )

    def _settle(self, key: bytes, question: asyncio.Task[Holder], asked_at: float) -> None:
        """Cache the answer to a finished question, or forget the question if it failed.

        Does nothing if the cache has another question or answer for this key by now.
        """
        failed = question.cancelled() or question.exception() is not None
        entry = self._entries.get(key)
        if entry is None or entry.answer is not question:
            return
        if failed:
            del self._entries[key]
        else:
            self._store(key, question, asked_at)

    async def _renew(self, key: bytes, token: str, entry: _Entry[Holder]) -> None:
        """Ask for the holder again and replace the cached answer; forget the answer if the token has become invalid.

        If nobody can be asked, the old answer serves for another lifetime, until its outage ends at the latest.
        """
        asked_at = self._clock()
        try:
            holder = await self._ask(token)
        except ApiRefusal as refused:
            entry.renewal, entry.renew_at = None, asked_at + self._policy.retry_pause
            if refused.status != 401:
                entry.expires_at = max(entry.expires_at, min(asked_at + self._policy.lifetime, entry.outage_ends_at))
            elif self._entries.get(key) is entry:
                del self._entries[key]
            return
        answer: asyncio.Future[Holder] = asyncio.get_running_loop().create_future()
        answer.set_result(holder)
        self._store(key, answer, asked_at)

    def _make_room(self, now: float) -> None:
        """Delete expired answers from a full cache, and then the oldest ones until a new answer fits."""
        if len(self._entries) < self._most:
            return
        self._entries = {key: entry for key, entry in self._entries.items() if entry.expires_at > now}
        while len(self._entries) >= self._most:
            del self._entries[next(iter(self._entries))]
