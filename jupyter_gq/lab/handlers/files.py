"""The handlers of the log and of the files of a job: reading, searching, downloading, copying."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from jupyter_server.auth.decorator import authorized
from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from jupyter_gq.client.connection.log_reading import choose_logs, read_logs
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.lab.refusal import RefusedRequest

from .base import GQHandler

if TYPE_CHECKING:
    from jupyter_gq.client.models import LogLines
    from jupyter_gq.lab.service_connection import ServiceConnection


class DownloadHandler(GQHandler):
    """The base class of handlers that send a file part by part, as it comes from the service.

    The browser saves the file and never shows it: a page that a job wrote must not act in the user's name.
    """

    async def send_parts(self, name: str, parts: Callable[[ServiceConnection], AsyncGenerator[bytes]]) -> None:
        """Send the parts as a download with this name, or answer with a problem if there is none to send.

        If a later part fails, the connection is closed: an orderly end would make the browser take a part for the whole
        file. If the user cancels the download, no more parts are fetched.
        """
        begun = False
        try:
            async with aclosing(parts(await self.extension.connect())) as coming:
                async for part in coming:
                    if not begun:
                        self._describe_download(name)
                    begun = True
                    self.write(part)
                    await self.flush()
        except StreamClosedError:
            self.finish(set_content_type="application/octet-stream")
        except (RefusedRequest, ServiceError) as error:
            if begun:
                self.detach().close()
            else:
                self.respond_with_refusal(error)
        else:
            if not begun:
                self._describe_download(name)
            self.finish(set_content_type="application/octet-stream")

    def _describe_download(self, name: str) -> None:
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", f"attachment; filename*=utf-8''{quote(name)}")


class CopiesHandler(GQHandler):
    """POST jobs/<id>/copies: copies files of the job beside its notebook; tells in lines of JSON how far it is."""

    @authenticated
    @authorized
    async def post(self, job: str) -> None:
        """Copy the files in the body; answer with lines of news, or with 409 and the list of files that differ."""
        try:
            connection, body = await self.extension.connect(), self.read_body()
        except (RefusedRequest, ServiceError) as error:
            self.respond_with_refusal(error)
            return
        end = await connection.copies.answer(self, lambda tell: connection.copies.copy_beside_notebook(job, body, tell))
        refused = self.get_status() >= HTTPStatus.BAD_REQUEST
        self.finish(end, set_content_type="application/json" if refused else "application/x-ndjson")


class ResultFileHandler(DownloadHandler):
    """GET jobs/<id>/file?path=: a file of the job, as a download."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Send a file that the job has put into its result folder."""
        path = self.get_query_argument("path")
        await self.send_parts(path.split("/")[-1], lambda connection: self._read(connection, job, path))

    async def _read(self, connection: ServiceConnection, job: str, path: str) -> AsyncGenerator[bytes]:
        start = 0
        while part := await connection.service.result_part(job, f"files/{path}", start):
            start += len(part)
            yield part


class LogHandler(GQHandler):
    """GET jobs/<id>/log: the end of the log, as plain text; with the query `task`, that of one task."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the end of a job's log, relayed from the service."""
        await self.respond(
            lambda connection: connection.service.log(job, self.read_number("task")),
            content_type="text/plain; charset=UTF-8",
        )


class LogSizeHandler(GQHandler):
    """GET jobs/<id>/log/size: how much of the log is kept."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the bytes of each task's log that are kept, relayed from the service."""
        await self.respond(lambda connection: connection.service.log_size(job))


class LogLinesHandler(GQHandler):
    """GET jobs/<id>/log/lines: lines of the log that have the text in the query `contains`."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the next lines of the log of a task with a text, relayed from the service."""
        await self.respond(lambda connection: self._find(connection, job))

    async def _find(self, connection: ServiceConnection, job: str) -> LogLines:
        task, start, line = (self.read_number(name) for name in ("task", "start", "line"))
        text = self.get_query_argument("contains", "", strip=False)
        return await connection.service.log_lines(job, text, task=task or 0, start=start or 0, line=line or 1)


class LogFileHandler(DownloadHandler):
    """GET jobs/<id>/log/file: the whole log as a download; with the query `task`, that of one task."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Send the log of a job's last run, as far as it is kept."""
        try:
            task = self.read_number("task")
        except RefusedRequest as error:
            self.respond_with_refusal(error)
            return
        name = f"{job}.log" if task is None else f"{job}-task-{task}.log"
        await self.send_parts(name, lambda connection: self._read(connection, job, task))

    async def _read(self, connection: ServiceConnection, job: str, task: int | None) -> AsyncGenerator[bytes]:
        kept = await connection.service.log_size(job)
        async for part in read_logs(connection.service, job, choose_logs(kept, task)):
            yield part
