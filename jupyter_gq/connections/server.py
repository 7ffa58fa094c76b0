"""An HTTP server that keeps to the limits of its connections, and that waits while no file descriptor is free."""

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import Application

from .connection import Connection, find_peer
from .registry import Connections

log = logging.getLogger(__name__)

#: Connections that the kernel keeps until they are accepted.
_BACKLOG = 1024
#: Most connections that are accepted in one go, so that other work of the event loop goes on.
_BURST = 64
#: Errors of `accept` that say that the process or the machine has no descriptor or memory left.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
#: Ticks of the registry between two log lines of one kind.
_LOG_PAUSE = 60


class LimitedServer(HTTPServer):
    """An HTTP server without TLS whose connections are in a registry."""

    def initialize(  # type: ignore[override]  # tornado makes its servers by this method instead of a constructor
        self,
        application: Application,
        *,
        connections: Connections,
        decompress_request: bool = False,
        max_body_size: int | None = None,
    ) -> None:
        """Prepare the server; the last two arguments are those of tornado's server."""
        limits = connections.limits
        super().initialize(
            application,
            decompress_request=decompress_request,
            idle_connection_timeout=limits.idle_timeout,
            body_timeout=limits.body_timeout,
            max_body_size=max_body_size,
        )
        self._registry = connections
        self._listening: list[socket.socket] = []
        self._accepts = False
        #: Evictions that the log has named.
        self._logged_evictions = 0
        #: Ticks until a log line of this kind may be written again.
        self._quiet = {"pause": 0, "eviction": 0}
        self._ticking = PeriodicCallback(self._tick, 1000 * connections.tick_length)

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on these sockets, which listen already."""
        added = list(sockets)
        for each in added:
            each.listen(_BACKLOG)
        self._suspend()
        self._listening += added
        self._resume()
        self._ticking.start()

    def stop(self) -> None:
        """Close the listening sockets; open connections stay."""
        self._suspend()
        self._ticking.stop()
        for each in self._listening:
            each.close()
        self._listening.clear()

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Return the receiver of the next request on a connection, which is idle until the head has come."""
        connection = cast(Connection, cast(HTTP1Connection, request_conn).stream)
        self._registry.await_request(connection)
        self._resume_if_room()
        receiver = super().start_request(server_conn, request_conn)
        return _HeadNotifier(receiver, partial(self._registry.begin_request, connection))

    def on_close(self, server_conn: object) -> None:
        """Forget a connection that is closed, and accept new ones again if there is room."""
        super().on_close(server_conn)
        self._resume_if_room()

    def _resume(self) -> None:
        if not self._accepts:
            self._accepts = True
            for each in self._listening:
                IOLoop.current().add_handler(each, self._accept, IOLoop.READ)

    def _suspend(self) -> None:
        if self._accepts:
            self._accepts = False
            for each in self._listening:
                IOLoop.current().remove_handler(each)

    def _resume_if_room(self) -> None:
        """Accept connections again if there is room."""
        if self._listening and not self._accepts and self._registry.has_room():
            self._resume()

    def _accept(self, listening: socket.socket, _events: int) -> None:
        """Accept waiting connections, until none waits, or until there is no room for the next one."""
        for _ in range(_BURST):
            try:
                accepted, address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if not self._registry.evict_one():
                    self._pause(error.strerror or str(error))
                    return
                continue
            self._serve(accepted, address)
            if not self._registry.has_room():
                self._pause("all connections carry requests")
                return

    def _serve(self, accepted: socket.socket, address: object) -> None:
        """Serve an accepted connection."""
        try:
            connection = Connection(accepted, find_peer(accepted, address), self._registry)
        except OSError:  # the client is gone already
            accepted.close()
            return
        self._registry.add(connection)
        self.handle_stream(connection, address if isinstance(address, tuple) else ())

    def _pause(self, why: str) -> None:
        """Accept nothing until a connection has ended, or until the next tick; log this once for a long pause."""
        self._suspend()
        self._registry.pauses += 1
        if not self._quiet["pause"]:
            self._quiet["pause"] = _LOG_PAUSE
            counts = self._registry.counts()
            log.warning(
                "accepting_paused connections=%d limit=%d: %s; new connections wait",
                counts.connections,
                self._registry.limits.connections,
                why,
            )

    def _tick(self) -> None:
        """Run the tick of the registry, log evictions, and accept again after a pause if there is room."""
        self._registry.tick()
        self._quiet = {kind: max(0, ticks - 1) for kind, ticks in self._quiet.items()}
        evicted = self._registry.counts().evicted
        if evicted > self._logged_evictions and not self._quiet["eviction"]:
            log.warning(
                "connections_evicted count=%d: too many connections carried no authorised request",
                evicted - self._logged_evictions,
            )
            self._logged_evictions, self._quiet["eviction"] = evicted, _LOG_PAUSE
        self._resume_if_room()


class _HeadNotifier(HTTPMessageDelegate):
    """A wrapper of the receiver of a request; calls `on_head` when the head of the request is complete."""

    def __init__(self, receiver: HTTPMessageDelegate, on_head: Callable[[], None]) -> None:
        self._receiver, self._on_head = receiver, on_head

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Call `on_head`, and pass the head on to the wrapped receiver."""
        self._on_head()
        return self._receiver.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass a piece of the body on to the wrapped receiver."""
        return self._receiver.data_received(chunk)

    def finish(self) -> None:
        """Tell the wrapped receiver that the request is complete."""
        self._receiver.finish()

    def on_connection_close(self) -> None:
        """Tell the wrapped receiver that the client has closed the connection before the end of the request."""
        self._receiver.on_connection_close()
