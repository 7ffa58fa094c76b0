"""Events of the service reach the browser over one stream, even through restarts of the service."""

import asyncio
import json
import logging

import pytest

from jupyter_gq.lab.event_schemas import SERVICE_ID
from jupyter_gq.lab.events import AVAILABLE
from tests.server.service import ServiceIsDown, a_job


@pytest.fixture
def received(on_hub, jp_asyncio_loop, jp_serverapp, extension):
    """Return the events that a page receives, while the extension runs."""
    events = []

    async def listen(logger, schema_id, data):
        events.append((data["kind"], data["data"]))

    jp_serverapp.event_logger.add_listener(schema_id=SERVICE_ID, listener=listen)
    jp_asyncio_loop.run_until_complete(extension._start_jupyter_server_extension(jp_serverapp))
    yield events
    jp_asyncio_loop.run_until_complete(extension.stop_extension())


def is_lost(received):
    """Return whether the page was told that the service is away."""
    return any(kind == "connection" and not data["available"] for kind, data in received)


CONNECTED = ("connection", {"available": True, "message": AVAILABLE})


async def test_events_are_relayed_unchanged(received, service, until):
    await until(lambda: service.streams and CONNECTED in received, "the connection")
    service.tell(7, "job", a_job(phase="running"))
    service.tell(8, "output", {"job": "job-7f3", "last_seq": 3})
    await until(lambda: len(received) == 3, "news")
    assert received == [CONNECTED, ("job", a_job(phase="running")), ("output", {"job": "job-7f3", "last_seq": 3})]


async def test_page_receives_events_on_the_server_s_own_websocket(received, service, until, jp_ws_fetch):
    # The server's own word on the connection comes after the service has begun to answer: it must not come to the page.
    await until(lambda: service.streams and CONNECTED in received, "the connection")
    page = await jp_ws_fetch("api", "events", "subscribe")
    service.tell(1, "queues", {})
    message = json.loads(await page.read_message())
    assert (message["schema_id"], message["kind"], message["data"]) == (SERVICE_ID, "queues", {})
    page.close()


async def test_restart_of_the_service_loses_no_event_and_is_logged_once(received, service, until, caplog):
    with caplog.at_level(logging.INFO):
        await until(lambda: service.streams and CONNECTED in received, "the connection")
        service.tell(41, "queues", {})
        await until(lambda: ("queues", {}) in received, "news")
        await service.stop()
        await until(lambda: is_lost(received), "the loss")
        await service.start()
        await until(lambda: service.streams and received.count(CONNECTED) == 2, "the connection again")
    assert service.resumed_after == [None, "41"]
    told = [data["available"] for kind, data in received if kind == "connection"]
    assert told == [True, False, True]
    lines = [record for record in caplog.records if record.name == "JupyterGQ"]
    assert [line.levelname for line in lines] == ["INFO", "WARNING", "INFO"]


@pytest.mark.parametrize("kind_of_service", [ServiceIsDown])
async def test_a_service_that_is_down_does_not_disturb_the_server(received, until, jp_fetch):
    await until(lambda: received, "the message")
    ((kind, data),) = received
    assert (kind, data["available"]) == ("connection", False)
    assert "cannot be reached" in data["message"]
    assert (await jp_fetch("api", "status")).code == 200


async def test_relay_connects_to_a_service_that_starts_later(jp_asyncio_loop, received, service, until):
    await service.stop()
    await until(lambda: is_lost(received), "the loss")
    await service.start()
    await until(lambda: received[-1] == CONNECTED, "the connection")


async def test_stopping_the_server_leaves_no_connection(received, service, extension, until):
    await until(lambda: service.streams, "the connection")
    await extension.stop_extension()
    service.tell(1, "queues", {})
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("jupyter-gq ")]
