"""Kernels of a server learn that its share is lent, and the service learns that a cell waits for it."""

import asyncio
import json

import pytest

from jupyter_gq.notebook.server_socket import ask_server, tell_server
from jupyter_gq.notebook.share_wait import ANSWER_TIMEOUT, notice_path
from tests.server.service import NOTEBOOK
from tests.server.test_kernels import Kernel
from tests.server.test_provisioner import default_provisioner  # noqa: F401 - a fixture

LENT = {
    **NOTEBOOK,
    "phase": "suspended",
    "sentence": "Suspended.",
    "suspension": {"since": 1.0, "sentence": "Lent to carol.", "memory_mib": None, "expected_seconds": None},
}


@pytest.fixture
def running(jp_asyncio_loop, on_hub, service, extension, jp_serverapp, until):
    """Return the extension, connected to the service, with long pauses between two reports."""
    extension.activity_interval = 3600.0
    jp_asyncio_loop.run_until_complete(extension._start_jupyter_server_extension(jp_serverapp))
    jp_asyncio_loop.run_until_complete(until(lambda: service.streams and service.activity, "the connection"))
    yield extension
    jp_asyncio_loop.run_until_complete(extension.stop_extension())


def wants(service):
    """Return what the reports say about the share, without those that say the same as the one before."""
    said = [report["wanted"] for report in service.activity]
    return [now for before, now in zip([None, *said], said, strict=False) if now is not before]


async def test_kernel_finds_the_notice_of_its_server(running):
    assert notice_path(str(running.kernel_socket.path)) == str(running.kernel_socket.notice_file)


async def test_cell_waits_and_calls_the_share_back_at_once(
    default_provisioner,  # noqa: F811
    running,
    service,
    until,
    jp_serverapp,
):
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        await kernel.run("x = 41")
        service.tell(1, "notebook", LENT)
        await until(running.kernel_socket.notice_file.exists, "the notice")
        cell = asyncio.create_task(kernel.run("assert x == 41"))
        await until(lambda: wants(service) == [False, True], "the report that the share is wanted")
        assert not cell.done()
        service.tell(2, "notebook", NOTEBOOK)
        assert (await cell)["content"]["status"] == "ok"
        assert not running.kernel_socket.notice_file.exists()
    finally:
        await kernel.stop()


async def test_kernel_that_cannot_wait_calls_the_share_back_once_it_is_busy(running, service, until, jp_serverapp):
    """It may have a class of its own, or be of another language; a cell that uses the device is held by the driver."""
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        service.tell(1, "notebook", LENT)
        await until(running.kernel_socket.notice_file.exists, "the notice")
        kernel.client.execute("import time; time.sleep(600)")
        await until(lambda: running.watch.get_activity()[0].needs_share, "the open request")
        await (await running.connect()).reporter.report()
        assert wants(service) == [False, True]
    finally:
        await kernel.stop()


async def test_state_of_the_share_is_fetched_whenever_events_may_have_been_missed(running, service, until):
    notice = running.kernel_socket.notice_file
    service.answers["GET", "notebooks"] = (200, {"notebooks": [LENT]})
    service.tell(1, "reset", {})
    await until(notice.exists, "the notice after a reset")
    await service.stop()
    await until(lambda: json.loads(notice.read_text())["reachable"] is False, "the lost service")
    service.answers["GET", "notebooks"] = (200, {"notebooks": [NOTEBOOK]})
    await service.start()
    await until(lambda: not notice.exists(), "the notice is gone after the connection")


async def test_routes_of_the_socket_have_one_method_each(running):
    ask = asyncio.to_thread
    path = str(running.kernel_socket.path)
    assert (await ask(ask_server, path, ["share", "want"], {}))[0] == 405
    assert (await ask(tell_server, path, "POST", ["names", "x"]))[0] == 405
    status, body = await ask(tell_server, path, "POST", ["share", "want"])
    assert (status, json.loads(body)) == (200, {"reachable": True})


async def test_server_whose_service_hangs_answers_a_waiting_cell_in_time_and_says_so(running, service):
    service.activity_gate.clear()
    answer = asyncio.to_thread(
        tell_server, str(running.kernel_socket.path), "POST", ["share", "want"], None, ANSWER_TIMEOUT
    )
    status, body = await answer
    service.activity_gate.set()
    assert (status, json.loads(body)) == (200, {"reachable": False})
