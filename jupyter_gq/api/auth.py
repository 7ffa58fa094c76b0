"""The holders of Hub tokens, as the Hub names them."""

import json
import logging
from collections.abc import Callable
from typing import Protocol
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

from jupyter_gq.domain.json_types import JsonObject

from .access import Identity
from .errors import hub_unreachable, invalid_token, refused_by_hub
from .token_cache import CachePolicy, TokenCache, has_token_form

log = logging.getLogger(__name__)

#: The longest time for which a revoked token or a changed group goes unnoticed, in seconds.
MAX_CACHE = 30.0
#: Part of this time after which a request starts a renewal without waiting for it.
RENEW_AFTER = 0.6
MOST_CACHED = 10_000


class Authenticator(Protocol):
    """The interface through which requests learn which user or service holds a Hub token."""

    #: The name of this service in the Hub's scopes.
    service: str

    async def identify(self, token: str, peer: str) -> Identity:
        """Return the holder of a Hub token, which came from the address `peer`.

        Raises an `ApiRefusal` of 401 if the token is invalid, and of 503 if the Hub cannot be asked now.
        """
        ...


class HubAuthenticator:
    """An authenticator that asks the Hub at `api_url`, and caches each answer for `cache_seconds` (at most 30).

    Answers are renewed early; see `token_cache`. If the Hub cannot be asked, requests with new tokens get 503.
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
        """Prepare to ask the Hub; `api_token` is the service's own token, which shows the groups of users.

        `service` is the name of this service at the Hub, `timeout` the seconds for one answer, and `clock` counts
        seconds.
        """
        self.service = service
        self._api_url = api_url.rstrip("/")
        self._api_token = api_token
        self._timeout = timeout
        self._client: AsyncHTTPClient | None = None
        policy = CachePolicy(lifetime=min(cache_seconds, MAX_CACHE), renew_after=RENEW_AFTER)
        self._cache = TokenCache(self._ask, policy, most=MOST_CACHED, clock=clock)

    async def identify(self, token: str, peer: str) -> Identity:
        """Return the holder of the token, from the cache or from the Hub.

        New tokens from one address `peer` are looked up in turns. Raises an `ApiRefusal` of 401 if the token is
        invalid, and of 503 if the Hub cannot be asked, or if no turn comes in time.
        """
        if not has_token_form(token):
            raise invalid_token()
        return await self._cache.find_holder(token, peer)

    def close(self) -> None:
        """Close the connections to the Hub; the next question opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def _ask(self, token: str) -> Identity:
        """Ask the Hub for the holder of a token, with groups and scopes.

        Raises an `ApiRefusal` of 401 if the Hub refuses the token, and of 503 if the Hub gives no usable answer.
        """
        response = await self._get("/user", token)
        if response.code in {401, 403}:
            raise refused_by_hub()
        model = _document(response)
        is_service = model.get("kind") == "service"
        groups = model.get("groups")
        if groups is None and not is_service:
            groups = await self._ask_groups(str(model["name"]))
        return Identity(
            name=str(model["name"]),
            is_service=is_service,
            groups=frozenset(str(group) for group in groups or ()),
            scopes=frozenset(str(scope) for scope in model.get("scopes", ())),
        )

    async def _ask_groups(self, user: str) -> list[str]:
        """Return the groups of a user, asked with the service's own token; [] with a warning if the Hub refuses.

        A narrow token of the user does not show the groups.
        """
        response = await self._get(f"/users/{quote(user, safe='')}", self._api_token)
        if response.code in {401, 403, 404}:
            log.warning(
                "groups_unknown user=%s status=%d: treated as in no group", user, response.code, extra={"user": user}
            )
            return []
        return list(_document(response, needed=()).get("groups") or ())

    async def _get(self, path: str, token: str) -> HTTPResponse:
        """Send a GET request to the Hub's API, and return the response of any status.

        Raises an `ApiRefusal` of 503 if the Hub does not answer in time.
        """
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


def _document(response: HTTPResponse, needed: tuple[str, ...] = ("name",)) -> JsonObject:
    """Return the JSON object in an answer of the Hub.

    Raises an `ApiRefusal` of 503 if the status is not 200, or if the object lacks one of the names in `needed`.
    """
    if response.code != 200:
        raise hub_unreachable(f"it answered with status {response.code}")
    try:
        document = json.loads(response.body)
    except ValueError as error:
        raise hub_unreachable("its answer is not JSON") from error
    if not isinstance(document, dict) or any(name not in document for name in needed):
        raise hub_unreachable("its answer is not a user")
    return document
