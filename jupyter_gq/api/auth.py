"""Who a token belongs to, asked of the Hub. Tokens are kept nowhere: the cache knows only their hash."""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

from .access import Identity
from .errors import Refusal, hub_unreachable, invalid_token

log = logging.getLogger(__name__)

#: The longest that a revoked token or a changed group goes unnoticed, in seconds.
MAX_CACHE = 30.0
#: From this part of that time on, a request has the Hub asked again without waiting for it.
EARLY = 0.6
#: Seconds between such questions while the Hub cannot answer.
PAUSE = 2.0
MOST_CACHED = 10_000
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


def acceptable(token: str) -> bool:
    """It has the form of a token, so that it may be passed on in a header."""
    return _TOKEN.fullmatch(token) is not None


class Authenticator(Protocol):
    """Tells whom a token belongs to."""

    #: Name of this service in the Hub's scopes.
    service: str

    async def identify(self, token: str) -> Identity:
        """The holder; raises a `Refusal` of 401 (no valid token) or 503 (nobody to ask)."""
        ...


@dataclass(slots=True)
class _Known:
    """An answer of the Hub, or the question while it is asked."""

    question: asyncio.Future[Identity]
    #: Until when the answer is believed.
    until: float
    #: From when on the next question is asked, while this answer still serves.
    ask_again: float
    asking: asyncio.Task[None] | None = None


class HubAuthenticator:
    """Asks the Hub at `api_url`, and believes its answer for `cache_seconds` (at most 30).

    Many requests with one token at a time ask once. Who asks often never waits for the Hub: his answer is renewed
    before it has aged. A failure to reach the Hub is never remembered, and an old answer never outlives its time
    because the Hub is away: who cannot be checked gets 503.
    """

    def __init__(
        self,
        api_url: str,
        api_token: str,
        *,
        service: str = "jupyter-gq",
        cache_seconds: float = MAX_CACHE,
        timeout: float = 5.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.service = service
        self._api_url = api_url.rstrip("/")
        self._api_token = api_token
        self._cache_seconds = min(cache_seconds, MAX_CACHE)
        self._timeout = timeout
        self._clock = clock
        self._client: AsyncHTTPClient | None = None
        #: By the hash of the token.
        self._known: dict[bytes, _Known] = {}

    async def identify(self, token: str) -> Identity:
        """Whom this token belongs to."""
        if not acceptable(token):
            raise invalid_token()
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

    def close(self) -> None:
        """Release the HTTP client."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    def _remember(self, key: bytes, question: asyncio.Future[Identity], asked_at: float) -> _Known:
        known = _Known(
            question=question,
            until=asked_at + self._cache_seconds,
            ask_again=asked_at + EARLY * self._cache_seconds,
        )
        self._known[key] = known
        return known

    def _forget_failure(self, key: bytes, question: asyncio.Task[Identity]) -> None:
        failed = question.cancelled() or question.exception() is not None
        known = self._known.get(key)
        if failed and known is not None and known.question is question:
            del self._known[key]

    async def _renew(self, key: bytes, token: str, known: _Known) -> None:
        """Replace an answer by a newer one; forget it at once when the Hub has revoked the token."""
        asked_at = self._now()
        try:
            identity = await self._ask(token)
        except Refusal as refused:
            known.asking, known.ask_again = None, asked_at + PAUSE
            if refused.status == 401 and self._known.get(key) is known:
                del self._known[key]
            return
        answer: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
        answer.set_result(identity)
        self._remember(key, answer, asked_at)

    def _make_room(self, now: float) -> None:
        if len(self._known) < MOST_CACHED:
            return
        self._known = {key: known for key, known in self._known.items() if known.until > now}
        while len(self._known) >= MOST_CACHED:
            del self._known[next(iter(self._known))]

    async def _ask(self, token: str) -> Identity:
        response = await self._get("/user", token)
        if response.code in {401, 403}:
            raise invalid_token()
        model = _document(response)
        is_service = model.get("kind") == "service"
        groups = model.get("groups")
        if groups is None and not is_service:
            groups = await self._groups_of(str(model["name"]))
        return Identity(
            name=str(model["name"]),
            is_service=is_service,
            groups=frozenset(str(group) for group in groups or ()),
            scopes=frozenset(str(scope) for scope in model.get("scopes", ())),
        )

    async def _groups_of(self, user: str) -> list[str]:
        """Asked with the service's own token, because a narrow token of the user does not show them."""
        response = await self._get(f"/users/{quote(user, safe='')}", self._api_token)
        if response.code in {401, 403, 404}:
            log.warning("groups_unknown user=%s status=%d: treated as in no group", user, response.code)
            return []
        return list(_document(response, needed=()).get("groups") or ())

    async def _get(self, path: str, token: str) -> HTTPResponse:
        if self._client is None:
            self._client = AsyncHTTPClient(force_instance=True, max_clients=50)
        request = HTTPRequest(
            self._api_url + path,
            headers={"Authorization": f"token {token}", "Accept": "application/json"},
            connect_timeout=self._timeout,
            request_timeout=self._timeout,
            follow_redirects=False,
        )
        try:
            return await self._client.fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise hub_unreachable("it does not answer") from error


def _document(response: HTTPResponse, needed: tuple[str, ...] = ("name",)) -> dict[str, Any]:
    if response.code != 200:
        raise hub_unreachable(f"it answered with status {response.code}")
    try:
        document = json.loads(response.body)
    except ValueError as error:
        raise hub_unreachable("its answer is not JSON") from error
    if not isinstance(document, dict) or any(name not in document for name in needed):
        raise hub_unreachable("its answer is not a user")
    return document
