"""Copies of files of jobs beside their notebooks, or in the folder of a kernel, made by this server.

The content comes from the service in parts, with the token of the user, and goes to the disk through
`client/files/file_copies.py`. The answer is a line of JSON for each part, so that a page can show how far the copies
are. A page that goes away ends them.

See docs/decisions/0158-copy-files-through-the-users-own-server.md.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.files.file_copies import Existing, FileCopier, FilesExist, choose_files
from jupyter_gq.client.files.frozen_files import explain_unsafe_path
from jupyter_gq.client.files.target_folder import CopyRefused, Present, TargetFolder
from jupyter_gq.client.models import JobResults, JobView
from jupyter_gq.client.models.results import FILES
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.lab.answers import CopiedFile, CopyConflict, CopyNews, ExistingFile
from jupyter_gq.lab.bundle.runtime import remove_drive
from jupyter_gq.lab.jupyter_parts import ServerApp
from jupyter_gq.lab.refusal import RefusedRequest, find_problem
from jupyter_gq.lab.requests import ChosenFiles, CopyRequest, KernelCopy, parse

#: Tells the browser or the kernel how far the copies are.
Tell = Callable[[CopyNews], Awaitable[None]]
#: HTTP status of a refusal by its code; 422 for others.
_STATUSES = {"files_exist": 409, "not_found": 404, "disk_full": 507, "incomplete": 502}


class JobCopies:
    """The copies of files of the user's jobs."""

    def __init__(self, app: ServerApp, service: ServiceClient) -> None:
        self._app, self._service = app, service

    async def copy_beside_notebook(self, job_id: str, body: object, tell: Tell) -> None:
        """Copy the files that `body` names into the folder of the notebook from which a job was sent.

        Raises `RefusedRequest`, `ServiceError` or `CopyRefused`; `describe_refusal` lists the files that differ.
        """
        request = parse(CopyRequest, body)
        contents = self._app.contents_manager
        if not isinstance(contents, FileContentsManager):
            raise RefusedRequest(
                "not_on_disk",
                "The files of this Jupyter server are not on its disk, so nothing can be copied beside the notebook. "
                "Download the files instead.",
                status=409,
            )
        job, results = await self._service.job(job_id), await self._service.results(job_id)
        folder = find_notebook_folder(request.notebook_path or job.notebook_path)
        with TargetFolder(Path(contents.root_dir), folder) as target:
            await self._copy(target, job, results, request, _Telling(tell, folder, hidden=contents.allow_hidden))

    async def copy_for_kernel(self, job_id: str, body: object, tell: Tell) -> None:
        """Copy files of a job into a folder that code in the user's kernel names; for errors see the other method."""
        request = parse(KernelCopy, body)
        job, results = await self._service.job(job_id), await self._service.results(job_id)
        with TargetFolder(Path(request.folder)) as target:
            await self._copy(target, job, results, request, _Telling(tell, request.folder, hidden=bool(request.paths)))

    async def answer(self, request: RequestHandler, copy: Callable[[Tell], Awaitable[None]]) -> str:
        """Carry out copies and write a line of JSON for each piece of news; return the text that ends the answer.

        A refusal before the first line sets the status of the answer; a later one is the last line. If nobody reads
        the answer any more, the copies end.
        """
        began = False

        async def tell(news: CopyNews) -> None:
            nonlocal began
            began = True
            request.write(json.dumps(asdict(news)) + "\n")
            await request.flush()

        request.set_header("Content-Type", "application/x-ndjson")
        request.set_header("X-Accel-Buffering", "no")  # a proxy that collects lines would hide how far the copies are
        try:
            await copy(tell)
        except StreamClosedError:
            return ""
        except (RefusedRequest, ServiceError, CopyRefused) as error:
            status, problem = describe_refusal(error)
            if began:
                return json.dumps(asdict(CopyNews(problem=str(problem["message"])))) + "\n"
            request.set_status(status)
            return json.dumps(problem)
        return ""

    async def _copy(
        self, target: TargetFolder, job: JobView, results: JobResults, request: ChosenFiles, telling: _Telling
    ) -> None:
        """Copy the files that the request names into an open folder."""

        async def read(path: str, start: int) -> bytes:
            return await self._service.result_part(job.id, FILES + path, start)

        files, left = await choose_files(results, request.paths, read, hidden=telling.hidden)
        try:
            copier = FileCopier(target, job.id, read, agreed=request.agreed)
            done = await copier.copy(files, Existing(request.existing), telling)
        except FilesExist as error:
            raise _FilesDiffer(error, job.finished_at) from error
        copied = [
            CopiedFile(path=copy.path, target=telling.locate(copy.target), unchanged=copy.unchanged)
            for copy in done.copies
        ]
        await telling.tell(CopyNews(copied=copied, left_out=[*map(str, done.refused), *left]))


class _Telling:
    """A watcher that passes on how far the copies are, and knows their folder as the requester names it."""

    def __init__(self, tell: Tell, folder: str, *, hidden: bool) -> None:
        self.tell, self._folder, self.hidden = tell, folder, hidden

    async def note(self, path: str, done: int, total: int) -> None:
        """Pass on how many bytes of all files are written."""
        await self.tell(CopyNews(path=path, done=done, total=total))

    def locate(self, target: str) -> str:
        """Return the place of a copy as the requester names it."""
        return str(PurePosixPath(self._folder, target))


class _FilesDiffer(CopyRefused):
    """A refusal with the files that are there and differ, as the browser is told."""

    def __init__(self, error: FilesExist, finished_at: float | None) -> None:
        super().__init__(error.code, str(error))
        self.files = [_describe_existing(path, present, finished_at) for path, present in error.files]


def _describe_existing(path: str, present: Present, finished_at: float | None) -> ExistingFile:
    changed = present.changed_ns / 1e9
    newer = finished_at is not None and changed > finished_at
    return ExistingFile(
        path=path, kind=present.kind, bytes=present.bytes, changed_at=changed, newer=newer, version=present.version
    )


def find_notebook_folder(notebook_path: str) -> str:
    """Return the folder of the notebook with this path, relative to the root of the server; "" is the root.

    Raises `RefusedRequest` if the path leads out of the root.
    """
    folder = PurePosixPath(remove_drive(notebook_path)).parent.as_posix()
    if folder == ".":
        return ""
    if unsafe := explain_unsafe_path(folder):
        raise RefusedRequest(
            "unsafe_path",
            f"Nothing can be copied into the folder of this job's notebook, because {unsafe}. Download the files.",
        )
    return folder


def describe_refusal(error: RefusedRequest | ServiceError | CopyRefused) -> tuple[int, JsonObject]:
    """Return the HTTP status of a refusal, and the problem as JSON; for files that differ, with their list."""
    if isinstance(error, _FilesDiffer):
        return 409, asdict(CopyConflict(code=error.code, message=str(error), files=error.files))
    if isinstance(error, CopyRefused):
        return _STATUSES.get(error.code, 422), {"code": error.code, "message": str(error), "field": None}
    problem = find_problem(error)
    return error.status, {"code": problem.code, "message": problem.message, "field": problem.field}
