"""A service without free descriptors waits for some, says so once, and answers again."""

import asyncio
import contextlib
import sys

import pytest

from tests.patience import scaled

from .crowd import PATIENCE, a_crowd

pytestmark = pytest.mark.asyncio

HALF = b"GET /services/jupyter-gq/api/v1/health HTTP/1.1\r\nHost"


@contextlib.asynccontextmanager
async def a_service(files, held):
    """A process of the service that may open so many files; its URL, and its number of connections."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.api.crowded_process", str(files), "held" if held else "free"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        port, connections = (await asyncio.wait_for(process.stdout.readline(), scaled(PATIENCE))).split()
        yield process, f"http://127.0.0.1:{int(port)}/", int(connections)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def told(process):
    """End the service; return its numbers of pauses and evicted connections, and the lines of its log."""
    process.stdin.close()
    out, log = await asyncio.wait_for(asyncio.gather(process.stdout.read(), process.stderr.read()), scaled(PATIENCE))
    pauses, evicted = map(int, out.split())
    return pauses, evicted, log.decode().splitlines()


async def until_logged(process, event):
    """Wait for a line of the service's log that names the event."""
    async with asyncio.timeout(scaled(PATIENCE)):
        while event not in (await process.stderr.readline()).decode():
            pass


async def test_accepting_pauses_while_no_descriptor_is_free_and_goes_on_afterwards():
    async with a_service(64, held=True) as (process, url, _), a_crowd() as crowd:
        clients = await crowd.connect_many(url, 20)  # the kernel takes them, and the service cannot
        for client in clients:
            client.ask("api/v1/health")
        first = (await asyncio.wait_for(process.stderr.readline(), scaled(PATIENCE))).decode()
        assert "accepting_paused connections=0" in first
        assert "Too many open files; new connections wait" in first
        process.stdin.write(b"free them\n")
        assert [await client.status() for client in clients] == [200] * 20
        pauses, _, log = await told(process)
        assert pauses >= 3
        assert [line for line in log if "request " not in line] == []


async def test_a_storm_beyond_the_descriptors_costs_silent_connections_only():
    async with a_service(160, held=False) as (process, url, connections), a_crowd() as crowd:
        assert connections == 80  # half of the files, which the service has raised to its hard limit
        for client in await crowd.connect_many(url, 1_100):
            client.send(HALF)
        for _ in range(20):
            client = await crowd.connect(url)
            client.ask("api/v1/health")
            assert await client.status() == 200
        await until_logged(process, "connections_evicted")
        pauses, evicted, log = await told(process)
        assert (pauses, evicted >= 1_100 - 80) == (0, True)
        assert len([line for line in log if "request " not in line]) <= 2
