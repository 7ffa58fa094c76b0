"""The requests of process 1 of a pod to the service: token, bundle, device check, log. Standard library only."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.client.pods.device_check import DeviceCheckResult
from jupyter_gq.domain.errors import HttpRefusal, MachineError
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.problems import RunError

log = logging.getLogger(__name__)

#: Timeout of one answer, in seconds.
TIMEOUT = 20.0
#: Backoff after a failure, in seconds: first wait, longest wait.
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
_MIB = 1024 * 1024
_Result = TypeVar("_Result")


class ServiceUnreachable(MachineError):
    """A missing or foreign answer: the service cannot be reached. The text says what came instead."""


class RequestRefused(HttpRefusal):
    """A request that the service itself refused; the text is the service's sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RetriesExhausted(MachineError):
    """A failure after the last retry; another run may succeed. The text is a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskGrant:
    """The service's answer to the exchange of the pod's token."""

    #: Secret of this task in this run.
    token: str
    run: int
    task: int
    #: Number of the last output piece that the service has stored.
    last_seq: int
    #: Number of the first byte of this pod's log: earlier ones are of a task that had the same number and has left.
    log_start: int = 0


class PodService:
    """A client of the service for one pod of a job."""

    def __init__(self, url: str, job: str, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise RunError(
                "GQ_SERVICE_URL is no http or https address. Ask your administrator to correct KubernetesBackend's "
                "service_url."
            )
        self._secure, self._address = parts.scheme == "https", parts.netloc
        self._base = f"{parts.path.rstrip('/')}/api/v1/jobs/{quote(job, safe='')}/"
        self._timeout = timeout

    def exchange_token(self, token_file: Path) -> TaskGrant:
        """Exchange the token that is projected into the pod for the token of the task; read the file on each call.

        Raises `RunError` if the file cannot be read. Like all requests, raises `RequestRefused` or
        `ServiceUnreachable`.
        """
        try:
            token = token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise RunError(f"The pod's token cannot be read from {token_file}: {error}.") from error
        answer = _parse_object(self._request("POST", "token", f"Bearer {token}"))
        try:
            return TaskGrant(
                token=str(answer["token"]),
                run=int(answer["run"]),
                task=int(answer["task"]),
                last_seq=int(answer["last_seq"]),
                log_start=int(answer.get("log_start", 0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceUnreachable("an answer without a token") from error

    def fetch_bundle(self, token: str, limit: int) -> JsonObject:
        """Return the job's bundle with the outputs of earlier runs; raise `RunError` if it exceeds `limit` bytes.

        Also raises `RequestRefused` or `ServiceUnreachable`.
        """
        return _parse_object(self._request("GET", "bundle", f"token {token}", limit=limit))

    def fetch_files(self, token: str, start: int) -> bytes:
        """Return the next parts of the files that the job takes along, from the part number `start` on.

        Raises `RequestRefused` or `ServiceUnreachable`.
        """
        return self._request("GET", f"files?start={start}", f"token {token}", limit=2 * PART_SIZE)

    def check_devices(self, token: str, wait: float) -> DeviceCheckResult | None:
        """Return the result of the device check, which the service may await for up to `wait` seconds.

        Returns None if an older service does not know this request. Raises `RequestRefused` or `ServiceUnreachable`.
        """
        try:
            answer = _parse_object(self._request("GET", f"devices?wait={int(wait)}", f"token {token}"))
        except RequestRefused as error:
            if error.status == 404:  # an older service without this route
                return None
            raise
        try:
            return DeviceCheckResult(
                result=str(answer["result"]), required=bool(answer["required"]), sentence=str(answer["sentence"])
            )
        except KeyError as error:
            raise ServiceUnreachable("an answer without a device check") from error

    def fetch_size(self, token: str, timeout: float) -> bytes:
        """Return which tasks the job has now, as `SIZE_FILE` has it; wait up to `timeout` seconds for the answer.

        Raises `RequestRefused` or `ServiceUnreachable`.
        """
        return self._request("GET", "size", f"token {token}", timeout=timeout)

    def put_log(self, token: str, text: bytes, timeout: float) -> None:
        """Replace the end of this task's log at the service by `text`; wait up to `timeout` seconds for the answer."""
        self._request("PUT", "log", f"token {token}", body=text, timeout=timeout)

    def append_log(self, token: str, start: int, text: bytes, timeout: float) -> None:
        """Send the next part of this task's log, from byte `start` on; wait up to `timeout` seconds for the answer.

        Raises `RequestRefused` of status 422 if an older service does not know parts.
        """
        self._request("PUT", f"log?start={start}", f"token {token}", body=text, timeout=timeout)

    def put_result_parts(self, token: str, contents: Sequence[str]) -> None:
        """Send parts of what the job brings back, as base64."""
        self._send_json("POST", "results/parts", token, {"contents": list(contents)})

    def put_results(self, token: str, report: JsonObject) -> None:
        """Send the list of what the job brings back; its parts were sent before."""
        self._send_json("PUT", "results", token, report)

    def _send_json(self, method: str, what: str, token: str, body: JsonObject) -> None:
        self._request(method, what, f"token {token}", body=json.dumps(body).encode())

    def _request(
        self,
        method: str,
        what: str,
        authorization: str,
        *,
        body: bytes | None = None,
        limit: int = _MIB,
        timeout: float | None = None,
    ) -> bytes:
        """Send a request; return the body of the answer, or raise `RunError` if it has more than `limit` bytes.

        Raise `RequestRefused` for a refusal of the service. Raise `ServiceUnreachable` for a status of 500 or more, an
        answer that is not the service's, or none.
        """
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._address, timeout=timeout or self._timeout)
        headers = {"Authorization": authorization, "Content-Type": "text/plain; charset=utf-8"}
        try:
            connection.request(method, self._base + what, body=body, headers=headers)
            response = connection.getresponse()
            content = _read_body(response, limit if response.status < 300 else _MIB)
        except (OSError, HTTPException) as error:
            raise ServiceUnreachable(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return content
        message = _parse_problem(content)
        if message is None or response.status >= 500:
            raise ServiceUnreachable(f"status {response.status}{f': {message}' if message else ''}")
        raise RequestRefused(response.status, message)


def retry_until_answered(
    what: str, ask: Callable[[], _Result], service_timeout: float, refusal_timeout: float
) -> _Result:
    """Call `ask` until it answers and return the answer; `what` names the request in the log.

    Raises `RetriesExhausted` if the service cannot be reached for `service_timeout` seconds. Raises `RequestRefused` if
    the service still refuses after `refusal_timeout` seconds, since it may hear of the pod late; for 404 and 409 at
    once.
    """
    began = monotonic()
    wait, told = FIRST_WAIT, ""
    while True:
        try:
            return ask()
        except ServiceUnreachable as error:
            why, left = f"The service cannot be reached ({error})", began + service_timeout - monotonic()
            if left <= 0:
                raise RetriesExhausted(f"{why} for {service_timeout:.0f} s, so {what} did not get through.") from error
        except RequestRefused as error:
            why, left = f"The service refuses {what}: {error}", began + refusal_timeout - monotonic()
            if left <= 0 or error.status in {404, 409}:
                raise
        if why != told:
            log.warning("%s Trying again.", why)
            told = why
        time.sleep(min(wait, max(0.0, left)))
        wait = min(LONGEST_WAIT, 2 * wait)


def _read_body(response: HTTPResponse, limit: int) -> bytes:
    """Return the body of an answer; raise `RunError` if it has more than `limit` bytes."""
    declared = response.getheader("Content-Length", "")
    size = int(declared) if declared.isdecimal() else 0
    content = b"" if size > limit else response.read(limit + 1)
    if max(size, len(content)) > limit:
        told = f"{size / _MIB:.1f} MiB" if size else f"more than {limit / _MIB:.1f} MiB"
        raise RunError(
            f"The bundle of this job and the outputs of its earlier runs have {told} together, and a pod takes at most "
            f"{limit / _MIB:.1f} MiB. Show less in the cells, and send them again."
        )
    return content


def _parse_object(content: bytes) -> JsonObject:
    """Return the JSON object in an answer; raise `ServiceUnreachable` if there is none."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise ServiceUnreachable("an answer that is not JSON") from error
    if not isinstance(document, dict):
        raise ServiceUnreachable("an answer that is not an object")
    return document


def _parse_problem(content: bytes) -> str | None:
    """Return the message of the service's problem in an answer; None if the answer holds no such problem."""
    try:
        problem = json.loads(content)
        return f"{problem['message']}" if problem["code"] else None
    except (ValueError, KeyError, TypeError):
        return None
