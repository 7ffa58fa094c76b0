"""What process 1 of a pod asks of the service: its token, its files, a place for its log. Standard library only."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from jupyter_gq.client.devices import Look
from jupyter_gq.runner.clock import steady
from jupyter_gq.runner.problems import RunError

log = logging.getLogger(__name__)

#: Seconds that one answer may take.
TIMEOUT = 20.0
#: Seconds to wait after a failure: first, most.
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
_MIB = 1024 * 1024
_Result = TypeVar("_Result")


class ServiceAway(Exception):
    """Nobody who knows us answers; the text says what came instead."""


class Refused(Exception):
    """The service itself says no; the text is its sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NeverReached(Exception):
    """The service was away for too long; another run may find it. The text is a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """What came for the pod's own token."""

    #: Secret of this task in this run.
    token: str
    run: int
    task: int
    #: Highest stored piece of output.
    last_seq: int


class PodService:
    """The service as one pod of a job sees it."""

    def __init__(self, url: str, job: str, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise RunError("GQ_SERVICE_URL is no http or https address: the administrator's service_url is wrong.")
        self._secure, self._address = parts.scheme == "https", parts.netloc
        self._base = f"{parts.path.rstrip('/')}/api/v1/jobs/{quote(job, safe='')}/"
        self._timeout = timeout

    def exchange(self, token_file: Path) -> Granted:
        """The token of our task for the one that is projected into the pod; the file is read anew each time."""
        try:
            token = token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise RunError(f"The pod's token cannot be read from {token_file}: {error}.") from error
        answer = _document(self._ask("POST", "token", f"Bearer {token}"))
        try:
            return Granted(
                token=str(answer["token"]),
                run=int(answer["run"]),
                task=int(answer["task"]),
                last_seq=int(answer["last_seq"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceAway("an answer without a token") from error

    def bundle(self, token: str, limit: int) -> dict[str, Any]:
        """The job's bundle with what earlier runs have shown; `RunError` when it has more than `limit` bytes."""
        return _document(self._ask("GET", "bundle", f"token {token}", limit=limit))

    def devices(self, token: str, wait: float) -> Look | None:
        """Whether this container sees just its own devices, known within `wait` seconds; None: it does not tell."""
        try:
            answer = _document(self._ask("GET", f"devices?wait={int(wait)}", f"token {token}"))
        except Refused as error:
            if error.status == 404:  # an older one
                return None
            raise
        try:
            return Look(sight=str(answer["sight"]), required=bool(answer["required"]), sentence=str(answer["sentence"]))
        except KeyError as error:
            raise ServiceAway("an answer without a look at the devices") from error

    def put_log(self, token: str, text: bytes, timeout: float) -> None:
        """Replace what the service has of our log."""
        self._ask("PUT", "log", f"token {token}", body=text, timeout=timeout)

    def _ask(
        self,
        method: str,
        what: str,
        authorization: str,
        *,
        body: bytes | None = None,
        limit: int = _MIB,
        timeout: float | None = None,
    ) -> bytes:
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._address, timeout=timeout or self._timeout)
        headers = {"Authorization": authorization, "Content-Type": "text/plain; charset=utf-8"}
        try:
            connection.request(method, self._base + what, body=body, headers=headers)
            response = connection.getresponse()
            content = _content(response, limit if response.status < 300 else _MIB)
        except (OSError, HTTPException) as error:
            raise ServiceAway(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return content
        message = _sentence(content)
        if message is None or response.status >= 500:
            raise ServiceAway(f"status {response.status}{f': {message}' if message else ''}")
        raise Refused(response.status, message)


def persist(what: str, ask: Callable[[], _Result], patience: float, settle: float) -> _Result:
    """Ask until there is an answer; `what` is for the log.

    A service that is away is waited for, `patience` seconds in all (`NeverReached`); a refusal that stays for
    `settle` seconds is one (`Refused`).
    """
    began = steady()
    wait, told = FIRST_WAIT, ""
    while True:
        try:
            return ask()
        except ServiceAway as error:
            why, left = f"The service cannot be reached ({error})", began + patience - steady()
            if left <= 0:
                raise NeverReached(f"{why} for {patience:.0f} s, so {what} could not be fetched.") from error
        except Refused as error:
            why, left = f"The service refuses {what}: {error}", began + settle - steady()
            if left <= 0 or error.status in {404, 409}:
                raise
        if why != told:
            log.warning("%s Trying again.", why)
            told = why
        time.sleep(min(wait, max(0.0, left)))
        wait = min(LONGEST_WAIT, 2 * wait)


def _content(response: HTTPResponse, limit: int) -> bytes:
    declared = response.getheader("Content-Length", "")
    size = int(declared) if declared.isdecimal() else 0
    content = b"" if size > limit else response.read(limit + 1)
    if max(size, len(content)) > limit:
        told = f"{size / _MIB:.1f} MiB" if size else f"more than {limit / _MIB:.1f} MiB"
        raise RunError(
            f"What the service sends for this job is {told}, and the pod takes {limit / _MIB:.1f} MiB: the bundle and "
            "what earlier runs have shown are too large together. Show less in the cells, and send them again."
        )
    return content


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise ServiceAway("an answer that is not JSON") from error
    if not isinstance(document, dict):
        raise ServiceAway("an answer that is not an object")
    return document


def _sentence(content: bytes) -> str | None:
    """The service's own words; None when somebody else answered."""
    try:
        problem = json.loads(content)
        return f"{problem['message']}" if problem["code"] else None
    except (ValueError, KeyError, TypeError):
        return None
