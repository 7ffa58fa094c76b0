"""The address of the service, and connections to it. On one machine the service has a Unix socket.

Rules
-----
- Check first: before a byte is sent, the client checks that the folder of the socket, the socket itself and the program
  that listens belong to root or to the service's account. No other account may be able to write to the folder. So no
  token is sent to a program of another user, also while the service is down.
- No fallback: a client with the address of a socket never uses TCP, where any account may open a port.

See docs/decisions/0092-reach-the-service-through-a-unix-socket.md.
"""

import asyncio
import contextlib
import os
import pwd
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from tornado.iostream import IOStream
from tornado.tcpclient import TCPClient

from jupyter_gq.client.problems import PlainProblem, ServiceUnavailable
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted

#: Variable of the service with the path of its socket, which the Hub gives it.
SOCKET_VARIABLE = "JUPYTER_GQ_SERVICE_SOCKET"
#: The scheme with which JupyterHub writes addresses of Unix sockets.
_SCHEME = "http+unix"
#: The permissions with which another account could replace the socket in a folder, and what is said then.
_OPEN = stat.S_IWGRP | stat.S_IWOTH
_OPEN_FAULT = "other accounts can write in its folder"
#: File systems that are views of the kernel, in which nobody can make a file.
VIRTUAL_FOLDERS = frozenset({Path("/proc"), Path("/sys")})
#: The maximum length in bytes of the path of a Unix socket on Linux.
_LONGEST_PATH = 107
#: Seconds in which a connection must succeed, and between two attempts while the socket's queue is full.
_CONNECT_TIMEOUT, _CONNECT_PAUSE = 5.0, 0.05
#: The identity of the process that listens: pid, uid and gid.
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, kw_only=True, slots=True)
class SocketPlace:
    """A Unix socket, and the account whose program listens at it."""

    path: Path
    #: Uid of the service's account. Root is trusted as well.
    account: int

    @classmethod
    def own(cls, path: str, folder: str, state_dir: Path) -> "SocketPlace":
        """Return the place of a service that runs as the account of this process: at `path` if that is not empty.

        Otherwise the socket lies in `folder`, or if that is empty too, in the folder "socket" of the state folder.
        """
        found = Path(path) if path else Path(folder or state_dir / "socket") / "gq.sock"
        return cls(path=found.absolute(), account=os.geteuid())

    def url(self, prefix: str) -> str:
        """Return the address of the service at this socket with its URL prefix, for programs of all accounts.

        Raises `AdminError` if the path is too long for a socket, or has characters that no path has.
        """
        try:
            size = len(os.fsencode(self.path))
        except UnicodeEncodeError:
            raise AdminError(
                f"The path {quoted(str(self.path))} of the service's Unix socket has characters that no path has. "
                "Write the folder anew: c.SchedulerService.socket_dir."
            ) from None
        if size > _LONGEST_PATH:
            raise AdminError(
                f"The path {self.path} of the service's Unix socket has {size} bytes, and Linux allows "
                f"{_LONGEST_PATH}. Choose a shorter folder before configure(c), such as "
                "c.SchedulerService.socket_dir = '/run/jupyter-gq'."
            )
        return f"{_SCHEME}://{self.account}@{quote(os.fsencode(self.path), safe='')}/{prefix.strip('/')}/"

    def check_folder(self) -> None:
        """Raise `AdminError` if no account can have the socket here, because of the files that are there now.

        What this account may not see is not checked.
        """
        fault = ""
        with contextlib.suppress(PermissionError):
            if self.path.exists() and not self.path.is_socket():
                fault = "it is there already, and is not a socket"
            elif loose := [each for each in self.path.parents if each.is_symlink() and not each.exists()]:
                fault = f"{loose[-1]} is a link to nothing"
            elif self.path.parent.is_dir() and any(map(self.path.parent.resolve().is_relative_to, VIRTUAL_FOLDERS)):
                fault = "no program can make a file there"
            elif self.path.parent.is_dir() and self.path.parent.stat().st_mode & _OPEN:
                fault = _OPEN_FAULT
        if fault:
            raise AdminError(
                f"The service cannot listen at the Unix socket {self.path}: {fault}. Choose a folder that only the "
                "service's account may write in, with c.SchedulerService.socket_dir."
            )

    def find_fault(self) -> str:
        """Return why a program of another account could answer at the socket; "" if none could.

        Raises `OSError` if the socket or its folder is missing.
        """
        folder = self.path.parent.stat()
        if not self._is_trusted(folder.st_uid):
            return f"its folder belongs to {_name_account(folder.st_uid)}"
        if folder.st_mode & _OPEN:
            return _OPEN_FAULT
        owner = self.path.lstat().st_uid
        return "" if self._is_trusted(owner) else f"it belongs to {_name_account(owner)}"

    def find_false_listener(self, connection: socket.socket) -> str:
        """Return why the program at the other end of a connection is not the service; "" if its account is right."""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid = _CREDENTIALS.unpack(credentials)[1]
        return "" if self._is_trusted(uid) else f"a program of {_name_account(uid)} listens there"

    def _is_trusted(self, uid: int) -> bool:
        return uid in {0, self.account}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAddress:
    """The address of the service with its prefix, from a URL of the scheme http, https or http+unix."""

    #: The URL for requests, which ends with a slash. For a socket, its host is "localhost" and is not looked up.
    http: str
    #: The Unix socket; None if the service is reached by TCP.
    socket: SocketPlace | None = None

    @classmethod
    def parse(cls, url: str) -> "ServiceAddress":
        """Return the address in a URL.

        `http+unix://UID@PATH/PREFIX`, with each slash of PATH as %2F, names a socket and its account. Without `UID@`
        that is the account of this process. A uid that is not a number trusts root only. Raises `AdminError` if the
        text cannot be split as a URL.
        """
        try:
            parts = urlsplit(url)
        except ValueError as error:  # without the URL, which may hold a password
            raise AdminError(f"The address of the GPU scheduler service is not a URL: {error}.") from None
        if parts.scheme != _SCHEME:
            return cls(http=url.rstrip("/") + "/")
        user, at, path = parts.netloc.rpartition("@")
        account = os.geteuid() if not at else int(user) if user.isascii() and user.isdigit() else 0
        http = f"http://localhost/{parts.path.strip('/')}".rstrip("/") + "/"
        return cls(http=http, socket=SocketPlace(path=Path(unquote(path)), account=account))

    @property
    def shown(self) -> str:
        """The place of the service for people: its URL, or the path of its socket."""
        return self.http if self.socket is None else str(self.socket.path)

    def make_client(self) -> TCPClient:
        """Return a new TCP client for tornado; if there is a socket, the client connects only to that."""
        return TCPClient() if self.socket is None else _SocketClient(self.socket)


class _SocketClient(TCPClient):
    """A client for tornado that connects to one Unix socket, whatever host and port are asked for."""

    def __init__(self, place: SocketPlace) -> None:
        super().__init__()
        self._place = place

    async def connect(self, *_: object, max_buffer_size: int | None = None, **_options: object) -> IOStream:
        """Return a stream to the socket after all checks.

        Raises `ServiceUnavailable` if a check fails, and `OSError` if nobody listens or the service takes no connection
        within 5 s.
        """
        _require_no_fault(self._place, self._place.find_fault())
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await _connect(connection, str(self._place.path))
            _require_no_fault(self._place, self._place.find_false_listener(connection))
        except BaseException:
            connection.close()
            raise
        return IOStream(connection, max_buffer_size=max_buffer_size)


async def _connect(connection: socket.socket, path: str) -> None:
    """Connect to a Unix socket; while its queue of new connections is full, try again."""
    while True:
        with contextlib.suppress(BlockingIOError):
            connection.connect(path)
            return
        await asyncio.sleep(_CONNECT_PAUSE)


def _require_no_fault(place: SocketPlace, fault: str) -> None:
    """Raise `ServiceUnavailable` with a sentence if `fault` says why the socket is not the service's."""
    if fault:
        raise ServiceUnavailable(
            503,
            PlainProblem(
                code="untrusted_service",
                message=f"Nothing was sent to {place.path}, the socket of the GPU scheduler service, because {fault}. "
                f"The service runs as {_name_account(place.account)}. Tell your administrator: a program may pretend "
                "to be the service.",
            ),
        )


def _name_account(uid: int) -> str:
    """Return the name of an account with its number, or only the number if the account has no name."""
    try:
        return f"the account {pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"the account {uid}"
