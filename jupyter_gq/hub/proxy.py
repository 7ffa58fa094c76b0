"""`python -m jupyter_gq.hub.proxy`: the pure-Python proxy, corrected where JupyterLab needs more of it.

The proxy itself has these defects:

- Paths: the proxy decodes the path of a request and encodes it anew, which changes the name of each room of
  jupyter-collaboration (`json:notebook:...`): the server opens another, empty room.
- Streams: the proxy keeps an answer until it is complete, and works on ten requests at a time; see `http_exchange`.

- Subprotocol: JupyterLab offers a subprotocol for its connection to a kernel. The proxy forwards the offer, but not the
  server's choice. A browser closes such a connection, JupyterLab connects again a second later without the offer, and
  cells that were run in between are lost.
- Binary messages: in that subprotocol, and for widgets with binary data, a browser sends bytes. The proxy forwards them
  as text.
- Large messages: the proxy closes a connection after a message of more than 10 MiB, such as an output with a few
  pictures.
- Closing: the proxy does not tell the browser that the server has closed the connection; JupyterLab would wait for
  answers that cannot come.
- Early messages: the proxy drops messages that the server sends before the browser is connected.
- Slow browsers: the proxy keeps all messages that a browser has not read yet.
- Log: the proxy logs the addresses of refused requests with their tokens.
- Silent browsers: connections that send nothing, or half a request, take all files that the proxy may open.

See docs/decisions/0020-replace-the-websocket-handler-of-the-python-proxy.md.
See docs/decisions/0067-stream-answers-through-the-python-proxy.md.
"""

import asyncio
import contextlib
import re
import sys
import urllib.parse
from collections import Counter
from collections.abc import Coroutine
from typing import ClassVar

try:
    from configurable_http_proxy import cli, configproxy
    from configurable_http_proxy.handlers import ProxyHandler
except ModuleNotFoundError:
    sys.exit("The Hub's proxy is not installed. Install it with: pip install 'jupyter-gq[local]'")
from tornado.httpclient import HTTPClientError
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from jupyter_gq.connections.connection import Connection
from jupyter_gq.connections.limits import ConnectionLimits, raise_file_limit
from jupyter_gq.connections.registry import Connections
from jupyter_gq.connections.server import LimitedServer
from jupyter_gq.hub.http_exchange import HttpExchange, ServerFailed

#: The route of a server: ".../user/USER/" or ".../user/USER/SERVER/". The Hub itself may lie behind a server of a user,
#: as with jupyter-server-proxy.
_OF_A_USER = re.compile(r"(.*?/user/[^/]+)(?:/[^/]*)?/?")
#: Seconds in which a browser has to send a request's head, and in which an idle connection is closed.
IDLE = 75
#: Seconds in which a browser has to send a request's body.
SLOWEST_BODY = 3600
#: Seconds after which a browser is disconnected that reads nothing; a laptop may have been asleep for a while.
SLOWEST_READER = 900
#: Descriptors that are kept for the Hub's own requests, log files and the like, and for connections without a request.
SPARE = 200
#: The maximum number of connections without a request, beside exchanges.
ANONYMOUS = 100
#: Largest message in bytes: messages of servers and browsers pass, and the proxy's memory is still bounded.
LARGEST_MESSAGE = 1024**3


def find_shared_route(route: str) -> str:
    """Return the route that all servers of a user share, such as "/user/ann" for "/user/ann/lab/".

    Any other route is returned as it is.
    """
    found = _OF_A_USER.fullmatch(route)
    return route if found is None else found[1]


class BrowserHandler(ProxyHandler):  # type: ignore[misc]
    """The handler of one request, or one WebSocket connection, of a browser."""

    max_message_size = LARGEST_MESSAGE
    #: Most exchanges (requests and WebSockets) at one time; each has a connection to the browser and one to the server.
    most_exchanges = 400
    #: Number of exchanges under way, by route; all servers of one user count as one route.
    exchanges: ClassVar[Counter[str]] = Counter()

    def initialize(self, **options: object) -> None:
        """Give the handler of one request its empty state; tornado calls this for each request."""
        super().initialize(**options)
        self._forwarding: asyncio.Task[None] | None = None
        self._exchange: HttpExchange | None = None

    def _request_summary(self) -> str:
        """Return the request as tornado logs it, without the values of its query: they may be tokens and codes."""
        request = self.request
        return f"{request.method} {request.path}{'?[query]' if request.query else ''} ({request.remote_ip})"

    async def get_target_url(self, path: str | None) -> str | None:
        """Return the URL of the server for this request, with the path as the browser wrote it.

        Answers the browser and returns None if no route leads to a server. `path` is the decoded path.
        """
        url: str | None = await super().get_target_url(path)
        if url is None:
            return None
        address, mark, query = url.partition("?")
        encoded_anew = urllib.parse.quote(path or "").lstrip("/")
        if not address.endswith(encoded_anew):
            return url  # a route that leaves its prefix out
        written: str = self.request.path.lstrip("/")
        return address.removesuffix(encoded_anew) + written + mark + query

    async def get(self, path: str | None = None) -> None:
        """Pass a GET request on; if it opens a WebSocket connection, pass messages on until both sides have closed it.

        Answers 503 if too many exchanges are under way.
        """
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            if await self.get_target_url(path) is not None:
                await self._run_counted(self._pass_websocket_on(path))
        else:
            await super().get(path)

    async def call_proxy(self, path: str | None = None) -> None:
        """Pass a request on to its server, and the answer back while it comes.

        Answers 503 if too many exchanges are under way, or if the server does not answer.
        """
        url = await self.get_target_url(path)
        if url is not None:
            await self._run_counted(self._pass_request_on(url))

    async def _run_counted(self, exchange: Coroutine[None, None, None]) -> None:
        """Count an exchange with the server of `target` from its start to its end; answer 503 if there are too many."""
        route = find_shared_route(self.target["prefix"])
        # A user who opens thousands of streams or WebSockets, to one server or to several, leaves room for all others.
        if self.exchanges[route] >= self.most_exchanges // 4 or self.exchanges.total() >= self.most_exchanges:
            exchange.close()
            await self.handle_proxy_error(503, f"too many requests at one time: {self.exchanges[route]} to {route}")
            return
        self.exchanges[route] += 1
        connection = self.request.connection.stream
        if isinstance(connection, Connection):
            connection.registry.claim(connection, None)  # `exchanges` counts
        try:
            await exchange
        finally:
            self.exchanges[route] -= 1

    async def _pass_request_on(self, url: str) -> None:
        self._exchange = HttpExchange(self, self._get_proxy_request(url), silence=self.proxy.proxy_timeout)
        try:
            await self._exchange.run()
        except ServerFailed as error:
            await self.handle_proxy_error(503, error)

    async def _pass_websocket_on(self, path: str | None) -> None:
        await super().get(path)  # returns when the browser's connection is closed
        if self._forwarding is not None:
            await self._forwarding  # the connection to the server takes a file until then

    def on_connection_close(self) -> None:
        """Abandon the exchange with the server; tornado calls this if the browser closes its connection."""
        super().on_connection_close()
        if self._exchange is not None:
            self._exchange.abandon()

    async def start_ws_client(self, path: str | None = None) -> None:
        """Open the WebSocket connection from the proxy to the server.

        If the server refuses, answer the browser with the refusal; if it cannot be reached, with 503.
        """
        url = await self.get_target_url(path)
        if url is None:
            return
        request = self._get_proxy_request("ws" + url.removeprefix("http"))
        try:
            self.ws_client = await websocket_connect(request, max_message_size=LARGEST_MESSAGE)
        except HTTPClientError as error:
            self.set_status(error.code)
            self.finish(error.message)
        except OSError as error:
            await self.handle_proxy_error(503, error)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Return the subprotocol that the server chose; None if it chose none of the browser's.

        The connection to the server is open before tornado calls this.
        """
        chosen = self.ws_client.selected_subprotocol if self.ws_client is not None else None
        return chosen if chosen in subprotocols else None

    def open(self, *_: str) -> None:
        """Begin to forward the server's messages, also those that came before the browser was connected."""
        self._forwarding = asyncio.create_task(self._forward_to_browser(self.ws_client))

    async def on_message(self, message: str | bytes) -> None:
        """Forward a message of the browser to the server and note activity; drop it if there is no connection.

        The next message is read from the browser once the server has taken this one.
        """
        if self.ws_client is not None:
            self.proxy.update_last_activity(self.target["prefix"])
            with contextlib.suppress(WebSocketClosedError):
                await self.ws_client.write_message(message, binary=isinstance(message, bytes))

    async def _forward_to_browser(self, server: WebSocketClientConnection) -> None:
        """Forward messages of the server to the browser until the server's connection ends; then close the browser's.

        The next message is read from the server once the browser has taken the last one. After the browser has closed
        its connection, messages are dropped.
        """
        while (message := await server.read_message()) is not None:
            self.proxy.update_last_activity(self.target["prefix"])
            with contextlib.suppress(WebSocketClosedError):
                await self.write_message(message, binary=isinstance(message, bytes))
        self.close()


def allow_many_connections() -> int:
    """Raise this process's limit of open files as far as possible; return how many exchanges fit, at least 40."""
    return max(40, (raise_file_limit() - SPARE) // 2)


def make_server(application: Application) -> LimitedServer:
    """Return a server, not yet listening, with room for all exchanges and for `ANONYMOUS` other connections.

    Beyond that, a new connection closes one that has not sent the whole head of a request.
    """
    most = BrowserHandler.most_exchanges + ANONYMOUS
    limits = ConnectionLimits(
        connections=most,
        anonymous_per_peer=most,  # all browsers may come through one proxy before this one
        idle_timeout=IDLE,
        body_timeout=SLOWEST_BODY,
        write_timeout=SLOWEST_READER,
    )
    return LimitedServer(application, connections=Connections(limits))


if __name__ == "__main__":
    BrowserHandler.most_exchanges = allow_many_connections()
    # The proxy has no setting for its handler class, nor for the options of its server.
    configproxy.ProxyHandler = BrowserHandler
    cli.HTTPServer = make_server
    sys.exit(cli.main())
