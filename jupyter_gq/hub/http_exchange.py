"""An HTTP request through the pure-Python proxy: the answer goes to the browser while it comes from the server.

The proxy's own way keeps each answer until it is complete, and works on ten requests at a time, for an hour each. Ten
streams of one user then stop the Hub for everybody, also after the user has closed them.

See docs/decisions/0067-stream-answers-through-the-python-proxy.md.
"""

import asyncio
from collections.abc import Awaitable

from tornado.httpclient import HTTPRequest
from tornado.httputil import HTTPHeaders, parse_response_start_line
from tornado.iostream import IOStream
from tornado.simple_httpclient import SimpleAsyncHTTPClient
from tornado.tcpclient import TCPClient
from tornado.web import RequestHandler

from jupyter_gq.domain.errors import MachineError

#: Headers of one connection; each side of the proxy has a connection of its own. See RFC 9110, section 7.6.1.
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
#: Headers that tornado sets by itself, and that the server's answer replaces.
_OF_TORNADO = ("Server", "Content-Type", "Date")
#: No limit on the length of an answer: it passes in pieces.
_ANY_LENGTH = 1 << 62


class _Connector(TCPClient):
    """A TCP client that can close the connections that it opened."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[IOStream] = []

    async def connect(self, *address: object, **options: object) -> IOStream:
        """Open a connection, remember it for `close_opened`, and return it."""
        stream: IOStream = await super().connect(*address, **options)  # type: ignore[arg-type]
        self._opened.append(stream)
        return stream

    def close_opened(self) -> None:
        """Close every connection that was opened."""
        for stream in self._opened:
            stream.close()


class ServerFailed(MachineError):
    """A server that did not answer: nothing has been sent to the browser yet."""


class HttpExchange:
    """A request of a browser, which `handler` handles, and the server's answer to it."""

    def __init__(self, handler: RequestHandler, request: HTTPRequest, *, silence: float | None) -> None:
        """Prepare `request` to go to the server: drop the headers of the browser's connection, and set callbacks.

        The answer has to begin within `silence` seconds; None = at any time.
        """
        self._handler, self._request, self._silence = handler, request, silence
        self._connector = _Connector()
        self._first_line, self._headers = "", HTTPHeaders()
        #: The limit on the silence before the answer.
        self._limit = asyncio.timeout(None)
        #: The browser has got the beginning of the answer.
        self._begun = False
        #: The browser has closed its connection.
        self._abandoned = False
        request.headers = HTTPHeaders(
            {name: value for name, value in request.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        )
        request.decompress_response = False  # the browser gets the encoding that it asked for
        request.request_timeout = 0  # a stream may last; `silence` limits the wait for its beginning
        request.header_callback = self._read_header
        request.streaming_callback = self._send

    async def run(self) -> None:
        """Pass the request on and the answer back, until the answer is complete; raise `ServerFailed` if none began.

        If the server breaks off in the middle, the browser's connection is closed too: the answer is incomplete. If the
        exchange was abandoned, an error of the server is ignored.
        """
        client = SimpleAsyncHTTPClient(force_instance=True, max_clients=1, max_body_size=_ANY_LENGTH)
        client.tcp_client = self._connector
        try:
            async with asyncio.timeout(self._silence) as self._limit:
                await client.fetch(self._request, raise_error=False)
        except Exception as error:  # of the network, of TLS, or of an answer that is no HTTP
            self._connector.close_opened()
            if self._begun and not self._abandoned:
                self._handler.detach().close()
            elif not self._abandoned:
                told = f"no answer for {self._silence:g} s" if isinstance(error, TimeoutError) else str(error)
                raise ServerFailed(told or type(error).__name__) from error
        else:
            self._handler.finish()
        finally:
            client.close()

    def abandon(self) -> None:
        """Close the connections to the server, because the browser has closed its own."""
        self._abandoned = True
        self._connector.close_opened()

    def _read_header(self, line: str) -> None:
        """Read one line of the answer's head; if it ends the head, send the head to the browser.

        Interim answers (statuses below 200) are dropped.
        """
        if not self._first_line:
            self._first_line = line
        elif line.strip():
            self._headers.parse_line(line)
        else:
            code = parse_response_start_line(self._first_line.rstrip()).code
            if code >= 200:  # what comes before is for the proxy alone
                self._begin(code)
            self._first_line, self._headers = "", HTTPHeaders()

    def _begin(self, code: int) -> None:
        self._begun = True
        self._limit.reschedule(None)
        self._handler.set_status(code, parse_response_start_line(self._first_line.rstrip()).reason)
        for name in _OF_TORNADO:
            self._handler.clear_header(name)
        dropped = _OF_THE_CONNECTION | {name.strip().lower() for name in self._headers.get("Connection", "").split(",")}
        for name, value in self._headers.get_all():
            if name.lower() not in dropped:
                self._handler.add_header(name, value)
        self._handler.flush()

    def _send(self, piece: bytes) -> Awaitable[None]:
        """Send a piece of the answer to the browser; return a future that is done once the connection has taken it."""
        self._handler.write(piece)
        return self._handler.flush()
