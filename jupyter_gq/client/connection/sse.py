"""Server-sent events: a parser without I/O, and one connection that reads them until it ends."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import StreamClosedError

from jupyter_gq.client.problems import ServiceUnavailable

from .service_address import ServiceAddress
from .transport import read_error, refuse_request

#: Bound of a stream in bytes, which tornado requires; no stream reaches it.
ENDLESS = 2**62
#: Seconds of silence after which the service counts as gone; it sends at least a ping every 15 s.
SILENCE = 45.0
#: Most bytes that are read of an error's body.
MAX_ERROR_BODY = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class SseMessage:
    """An event of a stream as it was sent. A ping has no kind."""

    kind: str | None
    id: int | None
    data: str


class SseParser:
    """A parser that turns chunks of bytes into messages, for the part of the WHATWG grammar in use."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> Iterator[SseMessage]:
        """Yield the messages and pings that this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            message = self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _line(self, line: str) -> SseMessage | None:
        """Process one line of the stream.

        An empty line returns the message that the lines before it made, or None without data. A comment returns a ping;
        any other line, None.
        """
        if line.startswith(":"):
            return SseMessage(kind=None, id=None, data="")
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            before = self._fields.get(name)
            self._fields[name] = f"{before}\n{value}" if name == "data" and before is not None else value
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        given = fields.get("id", "")
        number = int(given) if given.isdecimal() else None
        return SseMessage(kind=fields.get("event", "message"), id=number, data=fields["data"])


class SseConnection(HTTPMessageDelegate):
    """A GET request to the service for an event stream. `close` ends it at once; tornado's HTTP client cannot do that.

    At most 256 messages wait for the reader; then nothing more is read from the connection until the reader continues.
    """

    def __init__(
        self, service: ServiceAddress, url: str, headers: dict[str, str], on_open: Callable[[], None] | None = None
    ) -> None:
        """Prepare a request for `url`, which begins with the service's address for requests."""
        self._service, self._url, self._headers, self._on_open = service, url, headers, on_open
        self._parser = SseParser()
        self._messages: asyncio.Queue[SseMessage | ServiceUnavailable | Exception] = asyncio.Queue(256)
        self._status = 0
        self._error_body = b""
        self._reading: asyncio.Task[None] | None = None

    async def next(self) -> SseMessage:
        """Return the next message that is not a ping.

        Raises `ServiceError` if the service refuses, and `ServiceUnavailable` if the connection ended, could not be
        made, or was silent for `SILENCE` seconds.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    message = await self._messages.get()
            except TimeoutError as error:
                raise ServiceUnavailable.no_connection(
                    self._service.shown, f"no sign of life for {SILENCE:.0f} s"
                ) from error
            if isinstance(message, Exception):
                raise message
            if message.kind is not None:
                return message

    async def close(self) -> None:
        """Stop reading, and close the connection at once."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _no_connection(self, why: object) -> ServiceUnavailable:
        return ServiceUnavailable.no_connection(self._service.shown, why)

    async def _read(self) -> None:
        """Read the stream until it ends, and queue the error that says why it ended, behind the last message."""
        end: Exception
        try:
            await self._converse()
        except ServiceUnavailable as error:  # the service's socket is not trusted
            end = error
        except (OSError, StreamClosedError) as error:
            end = self._no_connection(error)
        except (ValueError, OverflowError):
            end = refuse_request(self._service.shown)
        else:
            if self._status in {0, 200}:
                end = self._no_connection("it closed the event stream")
            else:
                end = read_error(self._status, self._error_body, self._service.shown)
        await self._messages.put(end)

    async def _converse(self) -> None:
        """Connect, send the request, and read the answer to its end; tornado passes each part to the methods below."""
        parts = urlsplit(self._url)
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        stream = await self._service.make_client().connect(
            host,
            parts.port or (443 if secure else 80),
            ssl_options=ssl.create_default_context() if secure else None,
            timeout=5.0,
        )
        try:
            parameters = HTTP1ConnectionParameters(no_keep_alive=True, max_body_size=ENDLESS)
            connection = HTTP1Connection(stream, True, parameters)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            headers = HTTPHeaders(
                {"Host": parts.netloc.rpartition("@")[2], "Accept": "text/event-stream", **self._headers}
            )
            await connection.write_headers(RequestStartLine("GET", path, "HTTP/1.1"), headers)
            connection.finish()
            await connection.read_response(self)
        finally:
            stream.close()

    # What tornado calls while it reads.

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """Store the status of the answer, and call `on_open` if the status is 200; tornado calls this."""
        if isinstance(start_line, ResponseStartLine):
            self._status = start_line.code
        if self._status == 200 and self._on_open is not None:
            self._on_open()

    async def data_received(self, chunk: bytes) -> None:
        """Queue the messages in a chunk of the stream; collect the body of an error instead. Tornado calls this.

        Waits while 256 messages are unread.
        """
        if self._status == 200:
            for message in self._parser.feed(chunk):
                await self._messages.put(message)
        elif len(self._error_body) < MAX_ERROR_BODY:
            self._error_body += chunk
