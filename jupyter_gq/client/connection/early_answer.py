"""The answer at the port of a service that still starts, for a Hub that does not wait. Standard library only.

Hub 5 gives a service ten seconds to answer at the address of its page, and otherwise ends itself and the service. On a
slow machine the service is still importing its modules then. So after a few seconds a thread answers in its place:
the page with a sentence, which the Hub takes for an answer, and all other requests with a refusal of 503.

A service that cannot start usually says so within those seconds, while the Hub still waits and ends with it.

See docs/decisions/0107-answer-hub-5-while-the-service-starts.md.
"""

import json
import os
import socket
import threading
from urllib.parse import urlsplit

from .service_port import hold_port, is_in_use

#: Variable of the service with the seconds after which an answer is given while the service starts.
DELAY_VARIABLE = "JUPYTER_GQ_EARLY_ANSWER"
_SENTENCE = "The scheduler service is starting. Try again in a moment."
#: Seconds for a client to send its request, and for the thread to end.
_TIMEOUT = 2.0
#: Most bytes of a request that are read, and most threads of the process while it starts.
_LONGEST_HEAD, _MOST_THREADS = 65_536, 50


class EarlyAnswer:
    """A thread that answers requests at a port of this machine until the service does."""

    def __init__(self, port: int, prefix: str, delay: float) -> None:
        """Start the thread, which listens after `delay` seconds; `prefix` is the path of the service's page."""
        self._port, self._page, self._delay = port, prefix.rstrip("/"), delay
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._listening: socket.socket | None = None
        threading.Thread(target=self._serve, name="early answer", daemon=True).start()

    def end(self) -> None:
        """Stop listening, so that the service can; a second call does nothing."""
        self._ended.set()
        with self._lock:
            listening, self._listening = self._listening, None
        if listening is not None:
            listening.shutdown(socket.SHUT_RDWR)  # ends the wait for a connection
            listening.close()

    def _serve(self) -> None:
        if self._ended.wait(self._delay):
            return
        listening = self._listen()
        while listening is not None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # the service listens now
            if threading.active_count() > _MOST_THREADS:
                connection.close()
            else:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _listen(self) -> socket.socket | None:
        """Return the listening socket; None if the service or another program listens, which the service reports."""
        with self._lock:
            if self._ended.is_set() or is_in_use(self._port):
                return None
            held = hold_port(self._port)
            if held is not None:
                held.listen()
            self._listening = held
            return held

    def _answer(self, connection: socket.socket) -> None:
        """Answer one request, and close the connection."""
        with connection:
            connection.settimeout(_TIMEOUT)
            try:
                head = b""
                while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
                    received = connection.recv(_LONGEST_HEAD)
                    if not received:
                        return
                    head += received
                connection.sendall(self._respond(head))
                connection.shutdown(socket.SHUT_WR)
                connection.recv(_LONGEST_HEAD)  # a body that was not read would cut off the answer
            except OSError:
                return  # the client is gone, or sends nothing

    def _respond(self, head: bytes) -> bytes:
        """Return the answer to the request with this head."""
        target = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        path = urlsplit(target[0].decode("latin-1")).path if target else ""
        if path.rstrip("/") == self._page:
            status, media, body = "200 OK", "text/plain", f"{_SENTENCE}\n"
        else:
            problem = {"code": "not_ready", "message": _SENTENCE, "field": None}
            status, media, body = "503 Service Unavailable", "application/json", json.dumps(problem)
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {media}; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Retry-After: 2",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", body]).encode()


_answers: list[EarlyAnswer] = []


def begin_early_answer() -> None:
    """Answer at the port of this service until `end_early_answer`, if the environment asks for that."""
    delay, url = os.environ.get(DELAY_VARIABLE), os.environ.get("JUPYTERHUB_SERVICE_URL")
    port = urlsplit(url or "").port
    if delay is not None and port is not None:
        _answers.append(EarlyAnswer(port, os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/"), float(delay)))


def end_early_answer() -> None:
    """End the early answer, if there is one: the service itself listens from now on."""
    while _answers:
        _answers.pop().end()
