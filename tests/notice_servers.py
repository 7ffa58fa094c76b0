"""Small servers that take notifications: one of HTTP for the webhook, one of SMTP for mail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def http_server(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve this answer to every request; yield the port and the requests."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        requests.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


@asynccontextmanager
async def mail_server(refuses: bytes = b"") -> AsyncIterator[tuple[int, list[bytes], list[bytes]]]:
    """Take mail by SMTP, without encryption; yield the port, the commands and the mails."""
    commands: list[bytes] = []
    mails: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            commands.append(line.strip())
            word = line[:4].upper()
            if word == refuses:
                writer.write(b"550 no\r\n")
            elif word == b"EHLO":
                writer.write(b"250-here\r\n250 AUTH PLAIN\r\n")
            elif word == b"AUTH":
                writer.write(b"235 ok\r\n")
            elif word == b"DATA":
                writer.write(b"354 go on\r\n")
                mails.append((await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n"))
                writer.write(b"250 ok\r\n")
            elif word == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 ok\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], commands, mails
