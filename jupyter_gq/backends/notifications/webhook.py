"""Notifications as HTTP requests to one address, as chat systems and automation accept them."""

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_gq.domain.errors import BackendError

from .notifier import Notice
from .text import describe

_TIMEOUT = 15.0


class Webhook:
    """An address that gets a POST request with a JSON document for each notice.

    The document has `text`, which chat systems show, and the fields of the job.
    """

    name = "webhook"

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """Create a webhook at `url`, which is never shown or logged, as it may hold a secret."""
        self._url, self._headers = url, dict(headers)

    async def send(self, notice: Notice) -> None:
        """Send the request; raise `BackendError` if the address refuses or does not answer. Redirects are refused."""
        document = {
            "text": f"{notice.subject}. {describe(notice)}",
            "job": notice.job,
            "name": notice.name,
            "owner": notice.owner,
            "queue": notice.queue,
            "phase": notice.phase,
            "sentence": notice.sentence,
            "finished_at": notice.finished_at,
            "group": notice.group,
        }
        request = HTTPRequest(
            self._url,
            method="POST",
            headers={"Content-Type": "application/json", **self._headers},
            body=json.dumps(document),
            request_timeout=_TIMEOUT,
            follow_redirects=False,
        )
        host = urlsplit(self._url).hostname
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (OSError, HTTPClientError, ValueError) as error:
            raise BackendError(f"The webhook at {host} could not be reached: {type(error).__name__}.") from None
        if not 200 <= response.code < 300:
            raise BackendError(f"The webhook at {host} refused a notification: {response.code} {response.reason}.")
