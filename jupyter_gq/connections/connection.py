"""A connection of a client, as one file descriptor with a use."""

import socket
import struct
from enum import Enum, auto
from typing import Protocol

from tornado.iostream import IOStream

from .limits import ConnectionLimits

#: The credentials of the other end of a Unix socket: process, user, group. Ids of users and groups have no sign.
_CREDENTIALS = struct.Struct("iII")


class Use(Enum):
    """The use of a connection."""

    #: No complete head of a request has come.
    IDLE = auto()
    #: A request has come, and its sender is not authorised yet.
    UNKNOWN = auto()
    #: A request of a sender who is authorised.
    REQUEST = auto()
    #: An answer that goes on until the client or the server ends it.
    STREAM = auto()


class Registry(Protocol):
    """The part of `registry.Connections` that a connection and its users call."""

    limits: ConnectionLimits

    @property
    def is_full(self) -> bool:
        """Whether authorised requests and streams hold all connections that they may hold."""
        ...

    def remove(self, connection: "Connection") -> None:
        """Forget a connection that was closed."""
        ...

    def claim(self, connection: "Connection", user: str | None) -> bool:
        """Mark a connection as used by an authorised request; return False if `user` has too many requests."""
        ...

    def begin_stream(self, connection: "Connection") -> None:
        """Mark a connection as used by a stream."""
        ...


class Connection(IOStream):
    """A connection that tells its registry when it is closed, also after a handler has detached it."""

    def __init__(self, accepted: socket.socket, peer: str, registry: Registry) -> None:
        """Wrap an accepted socket; `peer` names the other end, see `find_peer`."""
        super().__init__(accepted)
        self.peer, self.registry = peer, registry
        self.use = Use.IDLE
        #: The authorised sender of the request, as the registry counts requests; None = not counted.
        self.user: str | None = None
        #: Ticks of the registry since the last change of use.
        self.age = 0
        #: Ticks of the registry for which the client has read nothing of what was written.
        self.stalled = 0

    def write_to_fd(self, data: memoryview) -> int:
        """Write to the socket and return the number of bytes that it took; None or 0 if it took none.

        Any byte that the socket takes sets `stalled` back to 0, because the client reads.
        """
        written = super().write_to_fd(data)
        if written:  # tornado also returns None, for none
            self.stalled = 0
        return written

    def close_fd(self) -> None:
        """Close the socket, and leave the registry."""
        super().close_fd()
        self.registry.remove(self)


def find_peer(accepted: socket.socket, address: object) -> str:
    """Return a name for the other end of an accepted socket: its IP address, or on a Unix socket its system user."""
    if accepted.family == socket.AF_UNIX:
        _, user, _ = _CREDENTIALS.unpack(accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f"system user {user}"
    return str(address[0]) if isinstance(address, tuple) else ""
