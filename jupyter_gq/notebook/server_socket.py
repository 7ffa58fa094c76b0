"""Requests of a kernel to the Jupyter server that started it, through a Unix socket. Standard library only."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote, urlencode

#: Path of the socket; set by the server extension for its kernels, and never sent with a job.
SOCKET_VARIABLE = "JUPYTER_GQ_SOCKET"
#: Seconds that one answer may take.
TIMEOUT = 60.0
_NO_ANSWER = b'{"message": "The Jupyter server of this kernel does not answer. Restart the kernel there."}'


def server_socket() -> str | None:
    """Return the path of the socket of the server that started this kernel; None if there is none."""
    return os.environ.get(SOCKET_VARIABLE) or None


def ask_server(
    path: str, parts: Sequence[str], query: Mapping[str, object], timeout: float = TIMEOUT
) -> tuple[int, bytes]:
    """Send a GET request to the server at the socket `path`; return status and body.

    `parts` are the parts of the URL's path. A server that does not answer within `timeout` seconds is a 503 whose body
    is a problem with a sentence.
    """
    return _request(_SocketConnection(path, timeout), "GET", _join(parts, query), None)


def tell_server(
    path: str, method: str, parts: Sequence[str], body: object = None, timeout: float = TIMEOUT
) -> tuple[int, bytes]:
    """Send a request that changes something, with a body as JSON unless it is None; for the rest see `ask_server`."""
    content = None if body is None else json.dumps(body).encode()
    return _request(_SocketConnection(path, timeout), method, _join(parts, {}), content)


def _join(parts: Sequence[str], query: Mapping[str, object]) -> str:
    target = "/" + "/".join(quote(part, safe="") for part in parts)
    return f"{target}?{urlencode(query)}" if query else target


def _request(connection: _SocketConnection, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
    try:
        connection.request(method, target, content)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, HTTPException):
        return 503, _NO_ANSWER
    finally:
        connection.close()


class _SocketConnection(HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
