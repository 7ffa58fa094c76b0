"""Long requests and answers of the service are written and read beside the event loop, which is a Jupyter server's."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from jupyter_gq.client.connection.http import LONG_ANSWER, ServiceClient


class WatchedClient(ServiceClient):
    """A client that notes in which threads it has validated answers."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "secret")
        self.threads: list[int] = []

    def _validated(self, model: type[BaseModel], document: object) -> BaseModel:
        self.threads.append(threading.get_ident())
        return super()._validated(model, document)


class WatchedParts(list[bytes]):
    """Parts of files that note in which threads they are read."""

    def __init__(self, parts: list[bytes]) -> None:
        super().__init__(parts)
        self.threads: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        self.threads.append(threading.get_ident())
        return super().__iter__()


def make_page(size: int) -> bytes:
    output = {"output_type": "stream", "name": "stdout", "text": "x" * size}
    piece = {"seq": 1, "run": 1, "at": 0.0, "op": "append", "cell": "a", "role": "target", "output": output}
    return json.dumps({"events": [piece], "last_seq": 1, "finished": True}).encode()


@pytest.mark.parametrize(("size", "is_beside"), [(10, False), (LONG_ANSWER, True)])
@pytest.mark.asyncio
async def test_a_long_answer_is_read_beside_the_loop(size: int, is_beside: bool) -> None:
    body = make_page(size)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = WatchedClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    page = await client.outputs("job-1")
    assert page.last_seq == 1
    assert [thread != threading.get_ident() for thread in client.threads] == [is_beside]
    client.close()
    server.close()
    await server.wait_closed()


@pytest.mark.asyncio
async def test_parts_of_files_are_written_beside_the_loop() -> None:
    bodies = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.startswith(b"Content-Length"))
        bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = ServiceClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "secret")
    parts = WatchedParts([b"one", b"two"])
    await client.add_files(parts)
    assert bodies == [{"contents": ["b25l", "dHdv"]}]
    assert parts.threads
    assert threading.get_ident() not in parts.threads
    client.close()
    server.close()
    await server.wait_closed()
