"""The open connections of a server, and who uses them.

Rules
-----
- Anonymous: a connection is anonymous until an authorised request uses it, and again after the answer. Connections
  that have sent nothing, half a head, or a body without a valid token are anonymous.
- Eviction: if there are too many connections, or too many anonymous ones of one peer, an anonymous one is closed for
  the new one. The first choice is the oldest connection without a complete head, of the peer that has most anonymous
  connections. A request whose sender is not known yet is chosen only after `_GRACE_TICKS`, because authorisation
  takes a moment.
- Protection: a connection with an authorised request or a stream is never evicted. Requests are limited for each user,
  and the event broker limits streams, so one user cannot hold all connections. All users together hold at
  most `_CLAIMABLE` of the connections. The rest are for new connections, whose requests are then refused with 503.
- Stalled: a client that reads nothing of what was written for the write time-out is disconnected, whatever it uses.

All browsers share the address of the Hub's proxy. The proxy sends whole heads, so these connections are anonymous for
moments only. See docs/decisions/0094-evict-anonymous-connections.md.
"""

import math
from collections import Counter
from collections.abc import Iterator

from .connection import Connection, Use
from .limits import ConnectionCounts, ConnectionLimits

#: Ticks for which a request whose sender is not known yet is not evicted.
_GRACE_TICKS = 2
#: Part of the connections that authorised requests and streams may hold.
_CLAIMABLE = 7 / 8


class Connections:
    """The registry of the open connections of one server."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        """Make an empty registry; None = the default limits."""
        self.limits = limits or ConnectionLimits()
        self._open: set[Connection] = set()
        #: Anonymous connections by peer, the longest unchanged first.
        self._anonymous: dict[str, dict[Connection, None]] = {}
        #: The number of requests under way, by user.
        self._requests: Counter[str] = Counter()
        self._evicted = self._stalled = self.refused = self.pauses = 0

    @property
    def tick_length(self) -> float:
        """The time between two calls of `tick`, in seconds."""
        return min(1.0, self.limits.write_timeout / 4)

    @property
    def is_full(self) -> bool:
        """Whether authorised requests and streams hold as many connections as they may."""
        anonymous = sum(len(connections) for connections in self._anonymous.values())
        return len(self._open) - anonymous >= _CLAIMABLE * self.limits.connections

    def counts(self) -> ConnectionCounts:
        """Return the number of connections, and what became of others since the start."""
        uses = Counter(connection.use for connection in self._open)
        return ConnectionCounts(
            connections=len(self._open),
            requests=uses[Use.REQUEST],
            streams=uses[Use.STREAM],
            evicted=self._evicted,
            stalled=self._stalled,
            refused=self.refused,
            pauses=self.pauses,
        )

    def add(self, connection: Connection) -> None:
        """Add a new connection; if there are too many, evict other connections first."""
        if len(self._anonymous.get(connection.peer, ())) >= self.limits.anonymous_per_peer:
            self._evict(self._victim_of(connection.peer))
        if len(self._open) >= self.limits.connections:
            self.evict_one()
        self._open.add(connection)
        self._change(connection, Use.IDLE)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed; does nothing if it is not there."""
        if connection in self._open:
            self._leave(connection)
            self._open.remove(connection)

    def await_request(self, connection: Connection) -> None:
        """Note that a connection waits for the head of a request, because it is new or the last answer is sent."""
        self._change(connection, Use.IDLE)

    def begin_request(self, connection: Connection) -> None:
        """Note that the head of a request is complete."""
        self._change(connection, Use.UNKNOWN)

    def claim(self, connection: Connection, user: str | None) -> bool:
        """Protect a connection for the authorised request of `user`; None = do not count the request.

        The claim ends when the client has got the answer. Returns False, without a claim, if the user has too many
        requests.
        """
        if user is not None and self._requests[user] >= self.limits.requests_per_user:
            return False
        self._change(connection, Use.REQUEST, user)
        return True

    def begin_stream(self, connection: Connection) -> None:
        """Note that a claimed connection carries a stream, which does not count as a request of its user any more."""
        self._change(connection, Use.STREAM)

    def has_room(self) -> bool:
        """Return whether there is room for a new connection, possibly in place of an anonymous one."""
        return len(self._open) < self.limits.connections or self._find_victim() is not None

    def evict_one(self) -> bool:
        """Close an anonymous connection; return False if there is none that may be closed now."""
        return self._evict(self._find_victim())

    def tick(self) -> None:
        """Disconnect clients that have not read for too long, and let all connections age by one tick."""
        most = math.ceil(self.limits.write_timeout / self.tick_length)
        for connection in tuple(self._open):
            connection.age += 1
            connection.stalled = connection.stalled + 1 if connection.writing() else 0
            if connection.stalled > most:
                self._stalled += 1
                connection.close()

    def _change(self, connection: Connection, use: Use, user: str | None = None) -> None:
        """Set the use of an open connection and its user; does nothing for a connection that is closed."""
        if connection not in self._open:
            return
        self._leave(connection)
        connection.use, connection.user, connection.age = use, user, 0
        if use in {Use.IDLE, Use.UNKNOWN}:
            self._anonymous.setdefault(connection.peer, {})[connection] = None
        elif user is not None:
            self._requests[user] += 1

    def _leave(self, connection: Connection) -> None:
        """Take a connection out of the counts of its present use."""
        if connection.user is not None:
            self._requests[connection.user] -= 1
            if not self._requests[connection.user]:
                del self._requests[connection.user]
        anonymous = self._anonymous.get(connection.peer, {})
        anonymous.pop(connection, None)
        if not anonymous:
            self._anonymous.pop(connection.peer, None)

    def _evict(self, victim: Connection | None) -> bool:
        """Close and count a victim, and return True; return False if there is none."""
        if victim is None:
            return False
        self._evicted += 1
        victim.close()
        return True

    def _find_victim(self) -> Connection | None:
        """Return the anonymous connection to evict; None if there is none that may be closed now."""
        return next(self._victims(), None)

    def _victims(self) -> Iterator[Connection]:
        """Yield the victim of each peer that has one, beginning with the peer that has most anonymous connections."""
        for peer in sorted(self._anonymous, key=lambda peer: -len(self._anonymous[peer])):
            victim = self._victim_of(peer)
            if victim is not None:
                yield victim

    def _victim_of(self, peer: str) -> Connection | None:
        """Return the anonymous connection of one peer to evict; None if there is none that may be closed now."""
        anonymous = self._anonymous.get(peer, {})
        idle = next((connection for connection in anonymous if connection.use is Use.IDLE), None)
        return idle or next((connection for connection in anonymous if connection.age >= _GRACE_TICKS), None)
