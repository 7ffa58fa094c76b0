"""Many clients at once: sockets that send what a test says, and nothing more."""

import asyncio
import contextlib
import json
import resource
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.patience import scaled

PREFIX = "/services/jupyter-gq/"
#: Seconds for which a test waits at most, on a quiet machine.
PATIENCE = 60


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Let this process have as many open files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Client:
    """One connection to the service, over which the bytes of a test are sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, url: str, source: str = "127.0.0.1") -> "Client":
        """Connect to the host and port of a URL, from the address `source` of this machine."""
        address = urlsplit(url)
        return cls(*await asyncio.open_connection(address.hostname, address.port, local_addr=(source, 0)))

    def send(self, data: bytes) -> None:
        """Send bytes without waiting."""
        self.writer.write(data)

    def ask(self, path: str, token: str = "ann", *, method: str = "GET", length: int | None = None) -> None:
        """Send the head of a request; `length` announces a body, which the test sends or does not."""
        announced = "" if length is None else f"Content-Length: {length}\r\n"
        head = f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\n{announced}\r\n"
        self.send(head.encode())

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Wait for an answer with a length; return status, headers by their names in lower case, and the document."""
        async with asyncio.timeout(scaled(PATIENCE)):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split()[1]), headers, json.loads(body) if body else None

    async def status(self) -> int:
        """Wait for the head of an answer, and return the status."""
        async with asyncio.timeout(scaled(PATIENCE)):
            return int((await self.reader.readuntil(b"\r\n\r\n")).split()[1])

    async def closed(self) -> None:
        """Wait until the other side has closed the connection."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(scaled(PATIENCE)):
                while await self.reader.read(65536):
                    continue

    def is_closed(self) -> bool:
        """Return whether the other side has closed the connection, as far as this side has noticed."""
        return self.reader.at_eof() or self.reader.exception() is not None


class Crowd:
    """All clients of one test, which are closed in the end."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    async def connect(self, url: str, source: str = "127.0.0.1") -> Client:
        """Connect one client from the address `source`."""
        self.clients.append(await Client.connect(url, source))
        return self.clients[-1]

    async def connect_many(self, url: str, number: int, source: str = "127.0.0.1") -> list[Client]:
        """Connect so many clients from the address `source`, a hundred at one time."""
        found: list[Client] = []
        while len(found) < number:
            found += await asyncio.gather(*(self.connect(url, source) for _ in range(min(100, number - len(found)))))
        return found


@contextlib.asynccontextmanager
async def a_crowd() -> AsyncIterator[Crowd]:
    """Provide a crowd, and close its clients in the end."""
    crowd = Crowd()
    with many_files():
        try:
            yield crowd
        finally:
            for client in crowd.clients:
                client.writer.close()
            waiting = (client.writer.wait_closed() for client in crowd.clients)
            await asyncio.gather(*waiting, return_exceptions=True)
