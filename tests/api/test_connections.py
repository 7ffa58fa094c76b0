"""Slow, silent and greedy clients hurt only themselves: the real API at real sockets."""

import asyncio

import pytest
import pytest_asyncio
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, RequestHandler

from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.connections.limits import ConnectionLimits
from jupyter_gq.connections.registry import Connections
from jupyter_gq.connections.server import LimitedServer
from jupyter_gq.domain import errors
from tests.patience import eventually, scaled

from .crowd import Client, a_crowd
from .fakes import Raises, Streams
from .hubs import HubKnowsNoStrangerYet
from .world import World

pytestmark = pytest.mark.asyncio

HALF = b"GET /services/jupyter-gq/api/v1/me HTTP/1.1\r\nHost"


def limited(**limits):
    return Connections(ConnectionLimits(**limits))


async def serve_nothing(serve, **limits):
    """A service whose answer to an authorised request is 404, and its registry."""
    connections = limited(**limits)
    return await serve(Raises(errors.NotFound("reached")), connections=connections), connections


async def test_eleven_hundred_half_open_connections_leave_others_served(serve):
    served, connections = await serve_nothing(serve, idle_timeout=600)
    async with a_crowd() as crowd:
        for client in await crowd.connect_many(served.url, 1_100):
            client.send(HALF)
        assert (await asyncio.wait_for(served.ask("GET", "api/v1/me"), scaled(20))).code == 404
        await eventually(lambda: connections.counts().evicted >= 1_100 - 512)
        assert connections.counts().connections <= 513


async def test_a_head_that_comes_byte_by_byte_ends_at_its_time_out(serve):
    served, _ = await serve_nothing(serve, idle_timeout=0.3)
    async with a_crowd() as crowd:
        client = await crowd.connect(served.url)

        async def drip():
            for byte in HALF * 1_000:
                client.send(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        await client.closed()
        assert not dripping.done()
        dripping.cancel()


async def test_a_connection_that_is_kept_alive_ends_at_its_time_out(serve):
    served, connections = await serve_nothing(serve, idle_timeout=0.3)
    async with a_crowd() as crowd:
        client = await crowd.connect(served.url)
        for _ in range(2):
            client.ask("api/v1/me")
            assert (await client.answer())[0] == 404
        await client.closed()
        assert connections.counts().connections == 0


@pytest.mark.parametrize(
    ("token", "code", "kind"), [("ann", 408, "too_slow"), ("nobody", 401, "invalid_token")], ids=str
)
async def test_a_body_that_does_not_come_is_refused_with_a_sentence(serve, token, code, kind):
    served, _ = await serve_nothing(serve, body_timeout=0.2)
    async with a_crowd() as crowd:
        client = await crowd.connect(served.url)
        client.ask("api/v1/jobs", token, method="POST", length=1_000)
        client.send(b"{")
        status, _, problem = await client.answer()
        assert (status, problem["code"]) == (code, kind)
        if code == 408:
            assert "not complete after 0.2 s" in problem["message"]
        await client.closed()


async def test_a_body_that_comes_in_time_is_no_concern_of_the_time_out(serve):
    served, _ = await serve_nothing(serve, body_timeout=0.2)
    async with a_crowd() as crowd:
        quick, slow = await crowd.connect_many(served.url, 2)
        quick.ask("api/v1/jobs", method="POST", length=2)
        quick.send(b"{}")
        assert (await quick.answer())[0] == 422
        slow.ask("api/v1/jobs", method="POST", length=2)
        assert (await slow.answer())[0] == 408  # so the time-out of the quick one has passed, too
        quick.ask("api/v1/me")
        assert (await quick.answer())[0] == 404


class LongAnswer(RequestHandler):
    """Answers with far more than the kernel's buffers hold."""

    def get(self):
        self.finish(bytes(64 * 2**20))


@pytest_asyncio.fixture
async def bare():
    """Start a server without the API, with these limits; return its URL and its registry."""
    servers = []

    async def start(handler, **limits):
        connections = limited(**limits)
        server = LimitedServer(Application([("/.*", handler)], log_function=lambda _: None), connections=connections)
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        servers.append(server)
        return f"http://127.0.0.1:{sockets[0].getsockname()[1]}", connections, server

    yield start
    for server in servers:
        server.stop()
        await server.close_all_connections()


async def test_a_client_that_reads_nothing_of_an_answer_is_disconnected(bare):
    url, connections, _ = await bare(LongAnswer, write_timeout=0.2)
    async with a_crowd() as crowd:
        client = await crowd.connect(url)
        client.writer.transport.pause_reading()
        client.ask("")
        await eventually(lambda: connections.counts().stalled == 1)
        assert connections.counts().connections == 0


async def test_a_client_that_reads_slowly_gets_the_whole_answer(bare):
    url, connections, _ = await bare(LongAnswer, write_timeout=1.0)
    async with a_crowd() as crowd:
        client = await crowd.connect(url)
        client.ask("")
        await client.status()
        left = 64 * 2**20
        while left:
            piece = await asyncio.wait_for(client.reader.read(2**20), scaled(60))
            assert piece
            left -= len(piece)
            await asyncio.sleep(0.01)
        assert connections.counts().stalled == 0


async def test_a_user_with_too_many_requests_is_refused_and_others_are_served(serve):
    served, connections = await serve_nothing(serve, requests_per_user=3)
    async with a_crowd() as crowd:
        slow = await crowd.connect_many(served.url, 3)
        for client in slow:
            client.ask("api/v1/jobs", method="POST", length=2)  # the body does not come
        await eventually(lambda: connections.counts().requests == 3)
        response = await served.ask("GET", "api/v1/me")
        assert (response.code, response.headers["Retry-After"]) == (429, "1")
        assert b"You have 3 requests under way, and at most 3 are possible" in response.body
        assert connections.counts().refused == 1
        assert (await served.ask("GET", "api/v1/me", "bob")).code == 404
        assert (await served.ask("GET", "api/v1/metrics", "prometheus")).code != 429
        slow[0].send(b"{}")
        assert (await slow[0].answer())[0] == 422
        slow[1].writer.close()
        await eventually(lambda: connections.counts().requests == 1)
        assert (await served.ask("GET", "api/v1/me")).code == 404


async def test_a_thousand_streams_of_one_user_leave_the_stream_of_another_alone(serve, tmp_path):
    world = World(tmp_path)
    connections = limited()
    served = await serve(world.controller, connections=connections)
    async with a_crowd() as crowd:
        statuses = []
        for _ in range(10):
            for client in (anns := await crowd.connect_many(served.url, 100)):
                client.ask("api/v1/events")
            statuses += [await client.status() for client in anns]
        assert (statuses.count(200), statuses.count(429)) == (64, 936)
        assert connections.counts().streams == 64
        bob = await crowd.connect(served.url)
        bob.ask("api/v1/events", "bob")
        assert await bob.status() == 200
        await eventually(lambda: connections.counts().streams == 65)
        world.controller.events.announce("bob", "output", "job-1", {"job": "job-1"})
        await asyncio.wait_for(bob.reader.readuntil(b"event: output"), scaled(60))
        # Streams are not counted as requests.
        assert (await served.ask("GET", "api/v1/me")).code == 200
    world.close()


async def test_the_oldest_silent_connection_makes_room_and_a_stream_stays(serve):
    streams, connections = Streams(), limited(connections=4)
    served = await serve(streams, connections=connections)
    async with a_crowd() as crowd:
        stream = await crowd.connect(served.url)
        stream.ask("api/v1/events")
        assert await stream.status() == 200
        silent = [await connect_counted(crowd, served.url, connections) for _ in range(3)]
        newest = await crowd.connect(served.url)
        newest.send(HALF)
        await silent[0].closed()
        await eventually(lambda: connections.counts().connections == 4)
        assert not any(client.is_closed() for client in (stream, *silent[1:], newest))
        for _ in range(3):
            connections.tick()
        while connections.evict_one():
            continue
        streams.listeners[0].put(ServiceEvent(id=1, kind="job", data={}))
        await asyncio.wait_for(stream.reader.readuntil(b"id: 1\n"), scaled(60))


async def connect_counted(crowd, url, connections):
    """Connect a client, and wait until the service has accepted the connection."""
    before = connections.counts().connections
    client = await crowd.connect(url)
    await eventually(lambda: connections.counts().connections == before + 1)
    return client


async def test_if_streams_hold_all_connections_newcomers_are_told_so(serve):
    served = await serve(Streams(), connections=limited(connections=8))
    async with a_crowd() as crowd:
        held = await crowd.connect_many(served.url, 7)
        for client in held:
            client.ask("api/v1/events")
        assert [await client.status() for client in held] == [200] * 7
        response = await served.ask("GET", "api/v1/events", "bob")
        assert (response.code, response.headers["Retry-After"]) == (503, "5")
        assert b"as many requests and event streams as it can hold" in response.body
        held[0].writer.close()
        await held[0].writer.wait_closed()
        late = await crowd.connect(served.url)
        late.ask("api/v1/events", "bob")
        assert await late.status() == 200


async def test_one_peer_s_silent_connections_cost_no_other_peer_a_connection(bare, tmp_path):
    """At a Unix socket the peer is the system user; the address 127.0.0.1 is another peer."""
    url, connections, server = await bare(LongAnswer, anonymous_per_peer=3)
    path = str(tmp_path / "socket")
    server.add_socket(bind_unix_socket(path))
    async with a_crowd() as crowd:
        by_port = [await connect_counted(crowd, url, connections) for _ in range(3)]
        by_socket = []
        for _ in range(5):
            by_socket.append(Client(*await asyncio.open_unix_connection(path)))
            crowd.clients.append(by_socket[-1])
        await asyncio.gather(by_socket[0].closed(), by_socket[1].closed())
        assert connections.counts().connections == 6
        assert not any(client.is_closed() for client in (*by_port, *by_socket[2:]))


@pytest_asyncio.fixture
async def hub_that_knows_no_stranger_yet():
    hub = HubKnowsNoStrangerYet()
    await hub.start()
    yield hub
    hub.looked.set()
    await hub.stop()


@pytest.mark.parametrize("known", [False, True], ids=["new token", "token to renew"])
async def test_unknown_tokens_from_one_address_keep_no_other_address_waiting(
    serve, hub_that_knows_no_stranger_yet, known
):
    hub, now = hub_that_knows_no_stranger_yet, [0.0]
    served = await serve(Raises(errors.NotFound("reached")), hub_url=hub.url, clock=lambda: now[0])
    async with a_crowd() as crowd:
        friend = await crowd.connect(served.url)
        if known:
            friend.ask("api/v1/me")
            assert (await friend.answer())[0] == 404
            now[0] = 29.0  # the answer of the Hub serves for one more second
        for number, stranger in enumerate(await crowd.connect_many(served.url, 200, source="127.0.0.2")):
            stranger.ask("api/v1/me", f"guess-{number}")
        await eventually(lambda: any(token.startswith("guess") for token in hub.asked_for))
        friend.ask("api/v1/me")
        assert (await friend.answer())[0] == 404
        await eventually(lambda: hub.asked_for.count("ann") == 1 + known)


async def test_a_request_whose_sender_is_not_known_yet_is_not_evicted_at_once(bare):
    began = asyncio.Event()

    class Waits(RequestHandler):
        async def get(self):
            began.set()
            await asyncio.Event().wait()

    url, connections, _ = await bare(Waits, connections=2, write_timeout=400)  # a tick lasts a second
    async with a_crowd() as crowd:
        asking = await crowd.connect(url)
        asking.ask("")
        await asyncio.wait_for(began.wait(), scaled(60))
        silent = await connect_counted(crowd, url, connections)
        await crowd.connect(url)
        await silent.closed()
        assert not asking.is_closed()
        assert connections.evict_one()  # the last silent one
        assert not connections.evict_one()
        connections.tick()
        connections.tick()
        assert connections.evict_one()
        await asking.closed()


async def test_the_metrics_count_connections(serve, tmp_path):
    world = World(tmp_path)
    served = await serve(world.controller, connections=limited(anonymous_per_peer=1))
    async with a_crowd() as crowd:
        first = await crowd.connect(served.url)
        await crowd.connect(served.url)
        await first.closed()
        stream = await crowd.connect(served.url)
        stream.ask("api/v1/events")
        await stream.status()
        text = (await served.ask("GET", "api/v1/metrics", "prometheus")).body.decode()
        assert "jupyter_gq_service_opened_streams 1\n" in text
        assert "# TYPE jupyter_gq_service_evicted_connections_total counter\n" in text
        evicted = [line for line in text.splitlines() if line.startswith("jupyter_gq_service_evicted")]
        assert int(evicted[0].split()[1]) >= 1
    world.close()
