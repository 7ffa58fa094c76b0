"""Ends notebook servers through the Hub."""

from typing import Protocol
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_gq.domain.errors import BackendError

#: The server stops, has stopped, or does not exist.
_DONE = frozenset({202, 204, 404})
#: The Hub answers 202 after 10 s at the latest.
_TIMEOUT = 30.0


class ServerStopper(Protocol):
    """Asks whoever started a notebook server to end it."""

    async def stop(self, user: str, server: str) -> None:
        """Ask for its end ("" = the default server). No error if there is none; `BackendError` if it was not heard."""
        ...


class HubServerStopper:
    """Asks the Hub, by its API, with a token that has the scope `delete:servers`."""

    def __init__(self, api_url: str, token: str) -> None:
        """`api_url` ends in `/hub/api`."""
        self._api_url = api_url.rstrip("/")
        self._token = token

    async def stop(self, user: str, server: str) -> None:
        """Ask for its end; `BackendError` if the Hub cannot be reached or refuses."""
        place = f"servers/{quote(server, safe='')}" if server else "server"
        request = HTTPRequest(
            f"{self._api_url}/users/{quote(user, safe='')}/{place}",
            method="DELETE",
            headers={"Authorization": f"token {self._token}"},
            request_timeout=_TIMEOUT,
        )
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:
            raise BackendError(f"The Hub could not be asked to stop a server: {error}.") from error
        if response.code not in _DONE:
            raise BackendError(f"The Hub refused to stop a server: {response.code} {response.reason}.")
