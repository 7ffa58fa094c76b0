"""The users of the Hub with their groups."""

import json
from collections.abc import Mapping
from typing import Protocol

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.json_types import JsonObject

#: Users in one answer; the Hub may send fewer.
_PAGE = 200
_TIMEOUT = 10.0


class Directory(Protocol):
    """The source of the users who may log in."""

    async def groups_by_user(self) -> Mapping[str, frozenset[str]]:
        """Return the groups of every user by name; raise `BackendError` if that is not known now."""
        ...


class HubDirectory:
    """The users of the Hub, by its API; the token needs the scopes `list:users` and `read:users:groups`."""

    def __init__(self, api_url: str, token: str) -> None:
        """Create a client of the Hub's API at `api_url`, which ends in `/hub/api`, with this token."""
        self._api_url, self._token = api_url.rstrip("/"), token

    async def groups_by_user(self) -> Mapping[str, frozenset[str]]:
        """Return the groups of every user by name; raise `BackendError` if the Hub refuses or does not answer."""
        found: dict[str, frozenset[str]] = {}
        while page := await self._page(len(found)):
            before = len(found)
            found.update(map(_read_user, page))
            if len(found) == before:
                break  # a Hub that ignores the offset would send the same users for ever
        return found

    async def _page(self, offset: int) -> list[JsonObject]:
        request = HTTPRequest(
            f"{self._api_url}/users?offset={offset}&limit={_PAGE}",
            headers={"Authorization": f"token {self._token}", "Accept": "application/json"},
            request_timeout=_TIMEOUT,
        )
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
            users = json.loads(response.body) if response.code == 200 else None
        except (OSError, HTTPClientError, ValueError) as error:
            raise BackendError(f"The Hub could not be asked for its users: {error}.") from error
        if not isinstance(users, list):
            raise BackendError(f"The Hub refused to list its users: {response.code} {response.reason}.")
        return users


def _read_user(entry: object) -> tuple[str, frozenset[str]]:
    """Return the name and the groups in an entry of the Hub's list; raise `BackendError` if they cannot be read."""
    groups = entry.get("groups") or () if isinstance(entry, dict) else ()
    if not isinstance(entry, dict) or "name" not in entry or not isinstance(groups, list | tuple):
        raise BackendError("The Hub's list of users cannot be read: an entry has no name, or no list of groups.")
    return str(entry["name"]), frozenset(map(str, groups))
