"""`python -m jupyter_gq.hub.proxy`: the pure-Python proxy, with what JupyterLab needs of it and it leaves out.

1. JupyterLab offers a subprotocol for its connection to a kernel. The proxy hands the offer on, but not what the server
   chose; a browser closes such a connection, the lab comes back a second later without the offer, and cells that were
   run in between are lost.
2. In that subprotocol, and for widgets with binary data, a browser sends bytes. The proxy hands them on as text.
3. The proxy ends a connection on which a message is larger than 10 MiB, as an output with a few pictures is.
4. It does not tell the browser when the server closes: the lab would wait for answers that cannot come.
5. It drops what the server says before the browser is connected.
"""

import contextlib
import sys
from typing import Any

try:
    from configurable_http_proxy import configproxy
    from configurable_http_proxy.cli import main
    from configurable_http_proxy.handlers import ProxyHandler
except ModuleNotFoundError:
    sys.exit("There is no proxy for the Hub here. Install it with: pip install 'jupyter-gq[local]'")
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClosedError, websocket_connect

#: Bytes; what a server or a browser sends passes, and the proxy's memory still has a bound.
LARGEST_MESSAGE = 1024**3


class Handler(ProxyHandler):  # type: ignore[misc]
    """One request, or one connection, from a browser."""

    max_message_size = LARGEST_MESSAGE

    def initialize(self, **options: Any) -> None:
        """Called by tornado."""
        super().initialize(**options)
        self._early: list[str | bytes | None] = []

    async def start_ws_client(self, path: str | None = None) -> None:
        """Connect to the server; a refusal goes to the browser as it is."""
        url = await self.get_target_url(path)
        if url is None:
            return
        request = self._get_proxy_request("ws" + url.removeprefix("http"))
        try:
            self.ws_client = await websocket_connect(
                request, on_message_callback=self._hand_back, max_message_size=LARGEST_MESSAGE
            )
        except HTTPClientError as error:
            self.set_status(error.code)
            self.finish(error.message)
        except OSError as error:
            await self.handle_proxy_error(503, error)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """What the server chose of the offers; the connection to it is open before the browser is answered."""
        chosen = self.ws_client.selected_subprotocol if self.ws_client is not None else None
        return chosen if chosen in subprotocols else None

    def open(self, *_: str) -> None:
        """The browser is connected too."""
        early, self._early = self._early, []
        for message in early:
            self._hand_back(message)

    def on_message(self, message: str | bytes) -> None:
        """Hand on what the browser says."""
        if self.ws_client is not None:
            self.proxy.update_last_activity(self.target["prefix"])
            self.ws_client.write_message(message, binary=isinstance(message, bytes))

    def _hand_back(self, message: str | bytes | None) -> None:
        """Hand back what the server says; None means that it closed the connection."""
        if self.ws_connection is None:
            self._early.append(message)
        elif message is None:
            self.close()
        else:
            self.proxy.update_last_activity(self.target["prefix"])
            with contextlib.suppress(WebSocketClosedError):
                self.write_message(message, binary=isinstance(message, bytes))


if __name__ == "__main__":
    configproxy.ProxyHandler = Handler  # the proxy names its handler itself: there is nothing to pass another to
    sys.exit(main())
