"""The stop of notebook servers through the Hub."""

from typing import Protocol
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_gq.domain.errors import BackendError

#: HTTP statuses of a success: the server stops, has stopped, or does not exist.
_SUCCESS = frozenset({202, 204, 404})
#: Timeout in seconds: the Hub answers after 10 s at the latest, with 202 if the server still stops.
_TIMEOUT = 30.0


class ServerStopper(Protocol):
    """A way to stop notebook servers that another program started."""

    async def stop(self, user: str, server: str) -> None:
        """Request the stop of a user's server ("" = the default server); do nothing if there is none.

        Raise `BackendError` with a sentence if the request failed.
        """
        ...


class HubServerStopper:
    """A stopper that uses the Hub's API with a token that has the scope `delete:servers`."""

    def __init__(self, api_url: str, token: str) -> None:
        """Create a client of the Hub's API at `api_url`, which ends in `/hub/api`, with this token."""
        self._api_url = api_url.rstrip("/")
        self._token = token

    async def stop(self, user: str, server: str) -> None:
        """Request the stop of a server from the Hub; raise `BackendError` if the Hub cannot be reached or refuses."""
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
        if response.code not in _SUCCESS:
            raise BackendError(f"The Hub refused to stop a server: {response.code} {response.reason}.")
