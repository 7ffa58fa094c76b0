"""The event stream over HTTP, read by the product's own client."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.api import events as stream_rules
from jupyter_gq.api.auth import MAX_CACHE
from jupyter_gq.api.events import event_stream
from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.connections.limits import ConnectionLimits
from jupyter_gq.connections.registry import Connections
from jupyter_gq.controller.caller import Caller
from tests.patience import scaled

from .fakes import AllNames, ScriptedSubscription, Streams
from .world import World

pytestmark = pytest.mark.asyncio


def queues(number: int | None = None) -> ServiceEvent:
    return ServiceEvent(id=number, kind="queues", data={"text": "line\nend \u2028 \U0001f525"})


async def listener(streams: Streams, count: int = 1) -> ScriptedSubscription:
    async with asyncio.timeout(scaled(60)):
        while len(streams.listeners) < count:
            await asyncio.sleep(0.01)
    return streams.listeners[count - 1]


async def test_events_arrive_as_they_were_sent(serve):
    streams = Streams()
    served = await serve(streams)
    opened = asyncio.Event()
    received = ServiceClient(served.url, "ann").events(on_open=opened.set)
    first = asyncio.ensure_future(anext(received))
    subscription = await listener(streams)
    await asyncio.wait_for(opened.wait(), scaled(60))
    subscription.put(queues(7))
    subscription.put(queues())
    assert await asyncio.wait_for(first, scaled(60)) == queues(7)
    assert await asyncio.wait_for(anext(received), scaled(60)) == queues()
    await received.aclose()
    await asyncio.wait_for(subscription.closed.wait(), scaled(60))


async def test_the_place_is_told_by_header_or_by_query(serve):
    streams = Streams()
    served = await serve(streams)
    tasks = [asyncio.create_task(served.ask("GET", "api/v1/events?after=41", Last_Event_ID="42"))]
    assert (await listener(streams, 1)).after == 42
    tasks.append(asyncio.create_task(served.ask("GET", "api/v1/events?after=41")))
    assert (await listener(streams, 2)).after == 41
    tasks.append(asyncio.create_task(served.ask("GET", "api/v1/events")))
    assert (await listener(streams, 3)).after is None
    assert {subscription.caller.user for subscription in streams.listeners} == {"ann"}
    for subscription in streams.listeners:
        subscription.put(None)
    assert {(await task).code for task in tasks} == {200}


@pytest.mark.parametrize("place", ["x", "-1", "1.5", "9" * 30])
async def test_a_place_that_is_none_is_422(serve, place):
    served = await serve(Streams())
    assert (await served.problem("GET", "api/v1/events", Last_Event_ID=place))[1]["field"] == "Last-Event-ID"
    assert (await served.problem("GET", f"api/v1/events?after={place}"))[1]["field"] == "after"


async def test_the_end_of_the_stream_is_an_outage_for_the_client(serve):
    streams = Streams()
    served = await serve(streams)
    received = ServiceClient(served.url, "ann").events()
    first = asyncio.ensure_future(anext(received))
    (await listener(streams)).put(None)
    with pytest.raises(ServiceUnavailable, match="closed the event stream"):
        await first


async def test_a_refusal_is_told_to_the_client(serve):
    served = await serve(Streams())
    with pytest.raises(ServiceError) as caught:
        await anext(ServiceClient(served.url, "ann-nothing").events())
    assert (caught.value.status, caught.value.problem.code) == (403, "missing_scope")


async def test_pings_come_while_nothing_happens_and_the_stream_ends_when_the_token_is_revoked():
    subscription = ScriptedSubscription(Caller(user="ann"), None)
    permitted = [Caller(user="ann"), None]

    async def current_caller() -> Caller | None:
        return permitted.pop(0)

    pieces = [piece async for piece in event_stream(subscription, AllNames(), current_caller, ping=0.01)]
    assert pieces[0].startswith(b"retry:")
    assert set(pieces[1:]) == {b": ping\n\n"}
    assert len(pieces) >= 2
    assert permitted == []
    assert subscription.closed.is_set()


async def test_a_reader_that_takes_nothing_is_let_go(serve):
    streams = Streams()
    connections = Connections(ConnectionLimits(write_timeout=0.2))
    served = await serve(streams, connections=connections)
    host, port = served.url.split("/")[2].split(":")
    _reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(b"GET /services/jupyter-gq/api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: token ann\r\n\r\n")
    subscription = await listener(streams)
    for _ in range(100):
        subscription.put(ServiceEvent(id=1, kind="job", data={"text": "x" * 1_000_000}))
    await asyncio.wait_for(subscription.closed.wait(), scaled(60))
    assert connections.counts().stalled == 1
    writer.close()


async def test_the_rules_are_those_of_the_contract():
    assert stream_rules.PING == 15
    # A check is late by a ping at most, and the answer about a token is as old as its cache allows.
    assert stream_rules.RECHECK + stream_rules.PING + MAX_CACHE < 60


async def test_an_admin_who_is_none_any_more_hears_no_more_of_others(tmp_path):
    world = World(tmp_path)
    broker = world.controller.events
    root = Caller(user="root", admin=True)
    callers = [replace(root, admin=False), None]

    async def current_caller() -> Caller | None:
        broker.announce("bob", "output", "job-2", {"job": "job-2"})
        return callers.pop(0)

    stream = event_stream(broker.subscribe(root, None), AllNames(), current_caller, ping=0.01)
    assert (await anext(stream)).startswith(b"retry:")
    broker.announce("bob", "output", "job-1", {"job": "job-1"})
    rest = b"".join([piece async for piece in stream])
    assert b"job-1" in rest
    assert b"job-2" not in rest
    assert b"event: reset" in rest
    world.close()


async def test_a_change_of_rights_drops_what_waits_to_be_read(tmp_path):
    world = World(tmp_path)
    broker, root = world.controller.events, Caller(user="root", admin=True)
    subscription = broker.subscribe(root, None)
    broker.announce("bob", "output", "job-1", {"job": "job-1"})
    subscription.change_caller(replace(root, admin=False))
    assert (await anext(subscription)).kind == "reset"
    broker.announce("bob", "output", "job-1", {"job": "job-1"})
    broker.announce("root", "output", "job-3", {"job": "job-3"})
    assert (await anext(subscription)).data == {"job": "job-3"}
    world.close()
