"""The pure-Python proxy as we start it: what kernels' connections, streams and slow browsers need of it."""

import asyncio
import contextlib
import gzip
import json
import os
import resource
import socket
from functools import partial

import psutil
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.simple_httpclient import SimpleAsyncHTTPClient
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler, websocket_connect

from jupyter_gq.hub.config import build_proxy_command
from tests.hub.real_hub import ROOT, eventually
from tests.patience import scaled
from tests.ports import claim_port

pytestmark = pytest.mark.asyncio

LARGE = 16 * 1024 * 1024
#: An answer that is longer than what the proxy may hold in its memory, and the pieces in which it is sent.
LONG, PIECE = 192 * 1024 * 1024, 1024 * 1024


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


class Rooms(WebSocketHandler):
    """Tells each browser the address that it asked for."""

    def open(self, _room):
        self.write_message(self.request.uri)


class Pages(RequestHandler):
    """Answers with the address that it was asked for."""

    def get(self, _page):
        self.finish(self.request.uri)


class Talkative(WebSocketHandler):
    """Sends many messages, each as soon as the last one was taken."""

    sent = 0

    def open(self):
        Talkative.sent = 0
        self.talking = asyncio.create_task(self.talk())

    async def talk(self):
        with contextlib.suppress(WebSocketClosedError):
            for _ in range(LONG // PIECE):
                await self.write_message(bytes(PIECE), binary=True)
                Talkative.sent += 1


class Stream(RequestHandler):
    """Sends one line and waits; counts the browsers that listen."""

    listening = 0

    async def get(self):
        Stream.listening += 1
        self.closed = asyncio.Event()
        self.write("data: first\n\n")
        await self.flush()
        await self.closed.wait()

    def on_connection_close(self):
        Stream.listening -= 1
        self.closed.set()


class Answers(RequestHandler):
    """Answers in the ways that a proxy may spoil."""

    async def get(self, kind):
        if kind == "cookies":
            self.set_cookie("a", "1")
            self.set_cookie("b", "2")
            self.finish("two")
        elif kind == "unchanged":
            self.set_status(304)
        elif kind == "nothing":
            self.set_status(204)
        elif kind == "elsewhere":
            self.redirect("/answers/cookies")
        elif kind == "packed":
            self.set_header("Content-Encoding", "gzip")
            self.finish(gzip.compress(b"unpacked"))
        elif kind == "broken":
            self.set_header("Content-Length", "1000")
            self.write("a part")
            await self.flush()
            self.detach().close()
        elif kind == "silent":
            self.detach().close()
        elif kind == "long":
            for _ in range(LONG // PIECE):
                self.write(bytes(PIECE))
                await self.flush()

    def head(self, kind):
        self.set_header("Content-Length", "12")

    def post(self, kind):
        self.set_status(201, "Made")
        self.finish(self.request.body[::-1])


@contextlib.asynccontextmanager
async def proxied():
    """The address of the kernels' server behind the proxy."""
    async with http_proxied() as (address, _):
        yield "ws" + address.removeprefix("http") + "/kernel"


@contextlib.asynccontextmanager
async def http_proxied(files=None):
    """The address of the server behind the proxy, and the proxy's process, which may open so many files.

    The path `/other` and those of three servers of users are routes of their own to the same server.
    """
    Stream.listening = 0  # the loop of an earlier test may have ended before it heard of the last browsers
    sockets = bind_sockets(0, "127.0.0.1")
    handlers = [
        ("/kernel", Kernels),
        ("/kernel/talkative", Talkative),
        ("/rooms/(.*)", Rooms),
        ("/other/pages/(.*)", Pages),
        ("(?:/user/.*)?/stream", Stream),
        ("(?:/other|/user/.*)?/answers/(.*)", Answers),
    ]
    server = HTTPServer(Application(handlers, websocket_max_message_size=2 * LARGE, log_function=lambda _: None))
    server.add_sockets(sockets)
    target, port, api = f"http://127.0.0.1:{sockets[0].getsockname()[1]}", claim_port(), claim_port()
    command = [*build_proxy_command("python"), "--ip=127.0.0.1", f"--port={port}", f"--default-target={target}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    limit = None if files is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    proxy = await asyncio.create_subprocess_exec(*command, f"--api-port={api}", env=environment, preexec_fn=limit)
    try:
        await eventually(lambda: listens(port) and listens(api))
        for route in ("/other", "/user/ann", "/user/ann/second", "/user/bob"):
            url = f"http://127.0.0.1:{api}/api/routes{route}"
            await AsyncHTTPClient().fetch(url, method="POST", body=json.dumps({"target": target}))
        yield f"http://127.0.0.1:{port}", psutil.Process(proxy.pid)
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
        protocol = connection.protocol  # the connection forgets it
        connection.close()
        await eventually(lambda: protocol is None or protocol.stream.closed())


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["other", "known"], "known"), (["other"], None), (None, None)], ids=str
)
async def test_the_browser_is_told_which_subprotocol_the_server_chose(offered, chosen):
    async with proxied() as address, connected(address, subprotocols=offered) as connection:
        assert connection.selected_subprotocol == chosen
        assert await asyncio.wait_for(connection.read_message(), scaled(60)) == "the first word"


#: Characters that need no encoding, and some that do not mean the same when they are encoded.
ADDRESS = "json:notebook:1%3A2/a;b%2Fc%252F@(d)'%C3%A9?s=%3A:'"


async def test_a_server_is_asked_for_the_address_that_the_browser_wrote():
    async with http_proxied() as (address, _):
        rooms = "ws" + address.removeprefix("http") + "/rooms/"
        async with connected(rooms + ADDRESS) as connection:
            assert await asyncio.wait_for(connection.read_message(), scaled(60)) == "/rooms/" + ADDRESS
        answer = await AsyncHTTPClient().fetch(f"{address}/other/pages/{ADDRESS}", request_timeout=scaled(60))
        assert answer.body.decode() == "/other/pages/" + ADDRESS


async def test_text_bytes_and_a_large_output_pass_as_what_they_are():
    async with proxied() as address, connected(address) as connection:
        assert await asyncio.wait_for(connection.read_message(), scaled(60)) == "the first word"
        for message in ("text", b"\xff bytes", bytes(LARGE)):
            await connection.write_message(message, binary=isinstance(message, bytes))
            assert await asyncio.wait_for(connection.read_message(), scaled(60)) == message


async def test_a_server_that_closes_is_closed_for_the_browser():
    async with proxied() as address, connected(address) as connection:
        await connection.read_message()
        await connection.write_message("close")
        assert await asyncio.wait_for(connection.read_message(), scaled(60)) is None


async def test_a_refusal_is_the_browser_s():
    async with proxied() as address:
        with pytest.raises(HTTPClientError) as refusal:
            await websocket_connect(address + "/unknown")
    assert refusal.value.code == 404


@contextlib.contextmanager
def many_files():
    """Let this process have as many open files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def open_stream(address, server=""):
    """A browser that has got the first line of a stream, and waits for the next one."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {server}/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    await asyncio.wait_for(reader.readuntil(b"data: first\n\n"), scaled(60))
    return reader, writer


async def close_all(streams):
    for _, writer in streams:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in streams), return_exceptions=True)


async def test_idle_streams_leave_everybody_else_served_and_end_when_the_browser_closes_them():
    with many_files() as files:
        number = min(2_000, files // 6)
        async with http_proxied() as (address, _):
            streams = []
            for _ in range(number // 50):
                streams += await asyncio.gather(*(open_stream(address) for _ in range(50)))
            assert Stream.listening == len(streams) >= 100
            answer = await AsyncHTTPClient().fetch(f"{address}/answers/cookies", request_timeout=scaled(60))
            assert answer.body == b"two"
            await close_all(streams)
            await eventually(lambda: Stream.listening == 0)


async def test_a_thousand_silent_connections_leave_everybody_else_served():
    with many_files():
        async with http_proxied(files=200 + 2 * 80) as (address, _):
            host, port = address.removeprefix("http://").split(":")
            silent = []
            for _ in range(10):
                silent += await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(100)))
            for _, writer in silent:
                writer.write(b"GET /stream HTTP/1.1\r\nHost")
            for _ in range(10):
                assert await ask(address, "/answers/cookies") == 200
            stream = await open_stream(address)
            await close_all([*silent, stream])


async def ask(address, path):
    """Return the status of an answer that the proxy gives, or passes on."""
    return (await AsyncHTTPClient().fetch(f"{address}{path}", raise_error=False, request_timeout=scaled(60))).code


async def has_room(address):
    return await ask(address, "/answers/cookies") == 200


async def test_one_server_s_streams_do_not_take_the_room_of_the_others():
    async with http_proxied(files=200 + 2 * 80) as (address, _):  # for 80 exchanges, 20 of them on one route
        streams = await asyncio.gather(*(open_stream(address) for _ in range(20)))
        assert await ask(address, "/answers/cookies") == 503
        assert await ask(address, "/other/answers/cookies") == 200
        await close_all(streams[:1])
        await eventually(lambda: Stream.listening == 19)
        await eventually(lambda: has_room(address))  # the proxy counts the stream until it has closed both its sides
        await close_all(streams)


async def test_the_servers_of_one_user_do_not_take_the_room_of_other_users():
    async with http_proxied(files=200 + 2 * 80) as (address, _):
        servers = ["/user/ann", "/user/ann/second"]
        streams = await asyncio.gather(*(open_stream(address, server) for server in servers for _ in range(10)))
        for server in servers:
            assert await ask(address, f"{server}/answers/cookies") == 503
        assert await ask(address, "/user/bob/answers/cookies") == 200
        await close_all(streams)


async def test_one_server_s_websockets_do_not_take_the_room_of_the_others():
    async with http_proxied(files=200 + 2 * 80) as (address, _), contextlib.AsyncExitStack() as stack:
        kernel = "ws" + address.removeprefix("http") + "/kernel"
        open_one = [await stack.enter_async_context(connected(kernel)) for _ in range(20)]
        with pytest.raises(HTTPClientError) as refusal:
            await websocket_connect(kernel)
        assert refusal.value.code == 503
        assert await ask(address, "/answers/cookies") == 503
        assert await ask(address, "/other/answers/cookies") == 200
        open_one[0].close()
        await eventually(lambda: has_room(address))


async def test_messages_wait_for_a_browser_that_does_not_read_them():
    async with http_proxied() as (address, proxy):
        kernel = "ws" + address.removeprefix("http") + "/kernel/talkative"
        async with connected(kernel) as browser:
            before = proxy.memory_info().rss
            await eventually(lambda: Talkative.sent > 0)
            sent = -1
            while sent != Talkative.sent:  # until nothing moves any more
                sent = Talkative.sent
                await asyncio.sleep(0.5)
            assert Talkative.sent < LONG // PIECE
            assert proxy.memory_info().rss - before < LONG // 2
            for _ in range(LONG // PIECE):
                assert len(await asyncio.wait_for(browser.read_message(), scaled(60))) == PIECE


async def test_slow_browsers_leave_everybody_else_served_and_cost_little_memory():
    with many_files() as files:
        await serve_beside_slow_browsers(min(200, files // 12))


async def serve_beside_slow_browsers(number):
    async with http_proxied() as (address, proxy):
        host, port = address.removeprefix("http://").split(":")
        slow = [await asyncio.open_connection(host, int(port), limit=1024) for _ in range(number)]
        before = proxy.memory_info().rss
        for _, writer in slow:
            writer.write(f"GET /answers/long HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        for reader, _ in slow:
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), scaled(60))
        length = 0

        def count(piece):
            nonlocal length
            length += len(piece)

        client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=2 * LONG)
        await client.fetch(f"{address}/answers/long", streaming_callback=count, request_timeout=scaled(240))
        assert length == LONG
        assert proxy.memory_info().rss - before < LONG
        await close_all(slow)


@pytest.mark.parametrize(
    ("method", "kind", "code", "body"),
    [
        ("GET", "cookies", 200, b"two"),
        ("GET", "unchanged", 304, b""),
        ("GET", "nothing", 204, b""),
        ("GET", "elsewhere", 302, b""),
        ("GET", "packed", 200, b"unpacked"),
        ("HEAD", "cookies", 200, b""),
        ("POST", "cookies", 201, b"dezisrever"),
        ("GET", "silent", 503, None),
    ],
)
async def test_answers_pass_as_they_are(method, kind, code, body):
    async with http_proxied() as (address, _):
        answer = await AsyncHTTPClient().fetch(
            f"{address}/answers/{kind}",
            method=method,
            body=b"reversized" if method == "POST" else None,
            follow_redirects=False,
            raise_error=False,
            request_timeout=scaled(60),
        )
        assert answer.code == code
        assert body is None or answer.body == body
        if kind == "cookies" and method == "GET":
            assert len(answer.headers.get_list("Set-Cookie")) == 2
        if method == "HEAD":
            assert answer.headers["Content-Length"] == "12"
        if method == "POST":
            assert answer.reason == "Made"


async def test_an_answer_that_breaks_off_is_not_shown_as_complete():
    async with http_proxied() as (address, _):
        with pytest.raises(HTTPClientError):
            await AsyncHTTPClient().fetch(f"{address}/answers/broken", request_timeout=scaled(60))


async def test_the_log_names_refused_requests_without_their_tokens(capfd):
    async with http_proxied() as (address, _):
        for path in ("/nowhere", "/answers/silent", "/kernel"):
            query = "token=planted&code=planted"
            answer = await AsyncHTTPClient().fetch(
                f"{address}{path}?{query}", raise_error=False, request_timeout=scaled(20)
            )
            assert answer.code >= 400
        with pytest.raises(HTTPClientError):
            await websocket_connect(f"{address.replace('http', 'ws', 1)}/nowhere?token=planted")
        log = ""

        def has_told_both():
            nonlocal log
            log += "".join(capfd.readouterr())
            return log.count("/nowhere?[query]") >= 2

        await eventually(has_told_both)  # a line is logged after its answer is sent
    assert "planted" not in log
