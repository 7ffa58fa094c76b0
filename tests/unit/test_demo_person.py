"""The user of the demo has patience with a machine that is slow."""

import asyncio
import json

import pytest
import pytest_asyncio
from tornado.httpclient import HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from jupyter_gq.demo.person import Person

pytestmark = pytest.mark.asyncio


class StartingKernel(WebSocketHandler):
    """The connection of a kernel that still starts: it is not made before that; then each cell prints "ran"."""

    async def get(self, *arguments, **named):
        await self.application.settings["started"].wait()
        await super().get(*arguments, **named)

    def on_message(self, message):
        parent = json.loads(message)["header"]
        for kind, content in (("stream", {"text": "ran"}), ("status", {"execution_state": "idle"})):
            self.write_message(json.dumps({"header": {"msg_type": kind}, "parent_header": parent, "content": content}))


@pytest_asyncio.fixture
async def lab():
    """A server with such a kernel; yields its address, and the event that the kernel has started."""
    started = asyncio.Event()
    server = HTTPServer(Application([("/user/ann/api/kernels/k/channels", StartingKernel)], started=started))
    (listening,) = bind_sockets(0, "127.0.0.1")
    server.add_sockets([listening])
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", started
    server.stop()
    await server.close_all_connections()


async def test_a_cell_is_run_by_a_kernel_that_takes_longer_to_start_than_requests_usually_may(lab, monkeypatch):
    address, started = lab
    for limit in ("connect_timeout", "request_timeout"):
        monkeypatch.setitem(HTTPRequest._DEFAULTS, limit, 0.05)
    cell = asyncio.create_task(Person(address, "ann").run_cell("k", "1"))
    await asyncio.wait({cell}, timeout=0.3)
    assert not cell.done(), cell
    started.set()
    assert await cell == "ran"
