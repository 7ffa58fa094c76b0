"""The pure-Python proxy as we start it: what a kernel's connection from a browser needs of it."""

import asyncio
import contextlib
import os
import socket

import pytest
from tornado.httpclient import HTTPClientError
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

from jupyter_gq.hub.config import build_proxy_command
from tests.hub.real_hub import ROOT, eventually, free_port

pytestmark = pytest.mark.asyncio

LARGE = 16 * 1024 * 1024


class Kernels(WebSocketHandler):
    """Knows one subprotocol and repeats what it is told."""

    def select_subprotocol(self, subprotocols):
        return "known" if "known" in subprotocols else None

    def open(self):
        self.write_message("the first word")

    def on_message(self, message):
        if message == "close":
            self.close()
            return
        self.write_message(message, binary=isinstance(message, bytes))


@contextlib.asynccontextmanager
async def proxied():
    """The address of that server behind the proxy."""
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/kernel", Kernels)], websocket_max_message_size=2 * LARGE))
    server.add_sockets(sockets)
    target, port = f"http://127.0.0.1:{sockets[0].getsockname()[1]}", free_port()
    command = [*build_proxy_command("python"), "--ip=127.0.0.1", f"--port={port}", f"--default-target={target}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    proxy = await asyncio.create_subprocess_exec(*command, f"--api-port={free_port()}", env=environment)
    try:
        await eventually(lambda: listens(port))
        yield f"ws://127.0.0.1:{port}/kernel"
    finally:
        proxy.terminate()
        await proxy.wait()
        server.stop()
        await server.close_all_connections()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.asynccontextmanager
async def connected(address, **options):
    """A browser's connection; it is closed in the end, also at the other side."""
    connection = await websocket_connect(address, max_message_size=2 * LARGE, **options)
    try:
        yield connection
    finally:
        connection.close()
        while connection.protocol is not None and await connection.read_message() is not None:
            continue


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["other", "known"], "known"), (["other"], None), (None, None)], ids=str
)
async def test_the_browser_is_told_which_subprotocol_the_server_chose(offered, chosen):
    async with proxied() as address, connected(address, subprotocols=offered) as connection:
        assert connection.selected_subprotocol == chosen
        assert await asyncio.wait_for(connection.read_message(), 60) == "the first word"


async def test_text_bytes_and_a_large_output_pass_as_what_they_are():
    async with proxied() as address, connected(address) as connection:
        assert await asyncio.wait_for(connection.read_message(), 60) == "the first word"
        for message in ("text", b"\xff bytes", bytes(LARGE)):
            await connection.write_message(message, binary=isinstance(message, bytes))
            assert await asyncio.wait_for(connection.read_message(), 60) == message


async def test_a_server_that_closes_is_closed_for_the_browser():
    async with proxied() as address, connected(address) as connection:
        await connection.read_message()
        await connection.write_message("close")
        assert await asyncio.wait_for(connection.read_message(), 60) is None


async def test_a_refusal_is_the_browser_s():
    async with proxied() as address:
        with pytest.raises(HTTPClientError) as refusal:
            await websocket_connect(address + "/unknown")
    assert refusal.value.code == 404
