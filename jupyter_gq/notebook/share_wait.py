"""The wait of a cell for the GPU share of its notebook. Standard library only.

Rules
-----
- Notice: while the share is lent, a file beside the socket of the Jupyter server says so. Without that file, or without
  a readable one, a cell runs at once: a service or server that is down never locks a user out.
- Cost: without a notice, a cell pays for one failed attempt to open a file.
- Request: a cell that waits asks the server for the share again and again, so the service knows how long it is wanted.
- End: the wait ends when the notice is gone, after the time-out that the notice names, or when the user interrupts it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress

from . import clock
from .server_socket import tell_server

#: Name of the file in the folder of the server's socket; `lab/kernels/share.py` writes it.
NOTICE_FILE = "share"
#: Seconds between two looks at the notice, and between two requests for the share.
LOOK_EVERY, ASK_EVERY = 0.05, 2.0
#: Seconds that the server may take to answer a request for the share.
ANSWER_TIMEOUT = 5.0
#: Longest wait in seconds if the notice names none.
DEFAULT_TIMEOUT = 900.0


class GPUWaitTimeout(Exception):
    """The error of a cell that was not run, since the share did not come back in time."""


class Notice:
    """The notice of a server whose share is lent."""

    def __init__(self, sentence: str, ready_at: float | None, timeout: float, reachable: bool) -> None:
        """Store the sentence for the user, the expected time of the return (None = unknown), and the longest wait.

        The time is that of the monotonic clock, which all processes of a machine share.

        `reachable` is False if the server has lost the scheduler service.
        """
        self.sentence, self.ready_at, self.timeout, self.reachable = sentence, ready_at, timeout, reachable

    def describe(self, now: float, *, answered: bool = True, reachable: bool = True) -> str:
        """Return the line under a cell that waits at the time `now`.

        `answered`: whether the server answers. `reachable` is False if the server says that the scheduler service does
        not answer its requests.
        """
        left = None if self.ready_at is None else round(self.ready_at - now)
        about = "" if left is None or left < 1 else f" (about {left} s)"
        text = f"{self.sentence} This cell starts by itself when the GPU is back{about}."
        if not answered:
            return f"{text} The Jupyter server does not answer at the moment."
        if not (self.reachable and reachable):
            return f"{text} The GPU scheduler cannot be reached at the moment, so this may take longer."
        return text


def read_notice(path: str) -> Notice | None:
    """Return the notice in the file at `path`; None if there is no readable one, so the share is there."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        ready_at = found.get("back_at")  # servers of earlier releases write another time, as "ready_at"
        return Notice(
            str(found["sentence"]),
            None if ready_at is None else float(ready_at),
            float(found.get("timeout", DEFAULT_TIMEOUT)),
            bool(found.get("reachable", True)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def notice_path(socket: str) -> str:
    """Return the path of the notice of the server with this socket."""
    return os.path.join(os.path.dirname(socket), NOTICE_FILE)


async def wait_for_share(socket: str, tell: Callable[[str], None]) -> None:
    """Wait until the share is there, and ask the server for it; raise `GPUWaitTimeout` if that takes too long.

    `tell` is called with the line for the user, at first and whenever the line changes.
    """
    path, began, told = notice_path(socket), clock.monotonic(), ""
    request = _Request(socket)
    try:
        notice = read_notice(path)
        while notice is not None:
            line = notice.describe(clock.monotonic(), answered=request.answered, reachable=request.reachable)
            if line != told:
                told = line
                tell(line)
            if clock.monotonic() - began > notice.timeout:
                raise GPUWaitTimeout(
                    f"The cell was not run: the GPU was not back within {notice.timeout:g} s. {notice.sentence} "
                    "Run the cell again to wait longer."
                )
            request.send_when_due()
            await asyncio.sleep(LOOK_EVERY)
            notice = read_notice(path)
    finally:
        request.cancel()


class _Request:
    """The repeated request for the share, each in a thread, so that a slow server does not hold up the kernel."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._sent_at = float("-inf")
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        #: Whether the server has answered the last request; True before the first one.
        self.answered = True
        #: Whether the service has answered the server, as the server says; True before the first answer.
        self.reachable = True

    def send_when_due(self) -> None:
        """Read the answer to the last request if there is one, and send the next request if it is time."""
        if self._answer is not None and self._answer.done():
            status, body = self._answer.result()
            self.answered, self.reachable = status == 200, _says_reachable(body)
            self._answer = None
        if self._answer is None and clock.monotonic() >= self._sent_at + ASK_EVERY:
            self._sent_at = clock.monotonic()
            self._answer = asyncio.get_running_loop().run_in_executor(None, self._ask)

    def cancel(self) -> None:
        """Drop the answer that has not come yet."""
        if self._answer is not None:
            self._answer.cancel()

    def _ask(self) -> tuple[int, bytes]:
        return tell_server(self._socket, "POST", ["share", "want"], timeout=ANSWER_TIMEOUT)


def _says_reachable(body: bytes) -> bool:
    """Return whether the service can be reached, by an answer of the server; True if the answer does not say."""
    with suppress(ValueError, AttributeError):
        return json.loads(body).get("reachable") is not False
    return True
