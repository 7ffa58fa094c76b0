"""The connection of this server to the service. Imported once the server answers, because its models load slowly.

The handlers reach the service through this object: the browser's requests come in as parsed JSON; answers are models of
the service or plain JSON. Refusals are raised as `RefusedRequest`, the service's own refusals as `ServiceError`.
"""

import asyncio
import hashlib
import itertools
import json
import os
import string
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import (
    MAX_NAME,
    MOST_JOBS,
    CancelledJobs,
    JobChange,
    JobRequest,
    JobSelection,
    JobSubmission,
    JobView,
    Preview,
    ServiceEvent,
)
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import BLANKS, join_name, shorten

from .bundle import bundle
from .bundle.assignments import list_points, set_values
from .bundle.environment import ServerEnvironment
from .bundle.runtime import find_runtime, find_started_folder
from .bundle.software import list_kernels
from .carrying.captures import Captures
from .carrying.models import Captured, CaptureRequest
from .clock import monotonic
from .events import UNAVAILABLE, EventRelay
from .hub_environment import HubEnvironment
from .jupyter_parts import ServerApp
from .kernel_requests import NO_NOTEBOOK, KernelRequests
from .kernels.activity import ActivityReporter
from .kernels.share import WANT_SECONDS, ShareNotice
from .kernels.watch import KernelWatch
from .plan.hidden_inputs import find_differences
from .plan.plan import describe_plan, list_python_sources
from .project.outside_modules import find_outside_modules
from .project.plan import Project, find_project
from .project.reading_ahead import ReadingAhead
from .reading import cells
from .reading.code_reading import read_code
from .reading.scripts import reading_scripts
from .refusal import RefusedRequest
from .requests import (
    JOB_FIELDS,
    Announcement,
    CellsRequest,
    Plan,
    SendRequest,
    SentSweep,
    SweepRequest,
    SweptJob,
    parse,
)
from .results.copies import JobCopies
from .results.executed_notebook import save_result
from .results.same_file import FileComparer
from .sent_cells import SentCells, SentJobs

#: Submits the job of a point with an idempotency key; returns the job, and whether it is new.
SendPoint = Callable[[Mapping[str, str], str], Awaitable[tuple[JobView, bool]]]
#: Phases of a job that was cancelled.
_CANCELLED = frozenset({"cancelling", "cancelled"})
#: Most jobs of one key that are being deleted at one time.
_MOST_DELETED = 3
#: Most characters of a key of a page with which a key of the service begins.
_LONGEST_START = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The most bytes of one file and of all variables that go along with a job."""

    file: int
    variables: int


class ServiceConnection:
    """The connection of one server to the service, from the server's start to its end."""

    def __init__(
        self,
        app: ServerApp,
        here: HubEnvironment,
        watch: KernelWatch,
        share: ShareNotice,
        environment: Iterable[str],
        limits: Limits,
    ) -> None:
        self._app, self._here, self._share, self._log = app, here, share, watch.log
        self._watch = watch
        self._environment = ServerEnvironment(environ=os.environ, usual=tuple(environment))
        self._max_file_bytes = limits.file
        self._captures = Captures(app.kernel_manager, watch, os.environ, limits.variables)
        self.service = ServiceClient(here.url, here.token)
        self.relay = EventRelay(self.service, app.event_logger, self, watch.log)
        self.reporter = ActivityReporter(self.service, here.server, watch, app.web_app.settings, share)
        self._sent_cells = SentCells(self.service)
        self._reading_ahead = ReadingAhead(limits.file, watch.log)
        #: Answers kernels, through the socket.
        self.kernels = KernelRequests(self, watch)
        #: Copies files of jobs beside their notebooks.
        self.copies = JobCopies(app, self.service)
        self.comparer = FileComparer(app.contents_manager)
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._fetching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to follow the service's events, to report activity, and to import the syntax checker in a thread."""
        self._tasks = (
            asyncio.create_task(self.relay.run(), name="jupyter-gq events"),
            asyncio.create_task(self.reporter.run(), name="jupyter-gq activity"),
            asyncio.create_task(asyncio.to_thread(cells.import_parser), name="jupyter-gq warm-up"),
        )

    async def close(self) -> None:
        """Stop the background tasks and close the connections to the service."""
        tasks = (*self._tasks, *filter(None, [self._fetching]))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._fetching = (), None
        await self._reading_ahead.close()
        self._captures.close()
        self.comparer.close()
        self.service.close()

    async def status(self) -> tuple[bool, str]:
        """Return whether the service answers and accepts this server, with a sentence for a person."""
        try:
            me = await self.service.me()
        except ServiceUnavailable:
            return False, UNAVAILABLE
        except ServiceError as error:
            return False, error.problem.message
        return True, f"Connected to the GPU scheduler as {me.user}."

    async def preview(self, body: object) -> Preview:
        """Return the service's forecast for the job in `body`; nothing is sent.

        Raises `RefusedRequest` if the body is no valid request.
        """
        request = parse(JobRequest, body)
        is_kernel = bool(request.software) and request.software in await list_kernels(self._app.kernel_spec_manager)
        own = {"home": os.environ.get("HOME", ""), "kernel": request.software if is_kernel else ""}
        return await self.service.preview(request.model_copy(update=own))

    async def cancel_many(self, body: object) -> CancelledJobs:
        """Cancel the jobs that `body` names; raise `RefusedRequest` if the body is no valid selection."""
        return await self.service.cancel_many(parse(JobSelection, body).jobs)

    async def change(self, job: str, body: object) -> JobView:
        """Change a job as `body` says, and return it; raise `RefusedRequest` if the body is no valid change."""
        return await self.service.change(job, parse(JobChange, body))

    async def check(self, body: object) -> Plan:
        """Return the cells that would run for the request in `body`, with warnings; nothing is sent.

        Raises `RefusedRequest` if the body is no valid request or the cells cannot run.
        """
        return await self.describe(parse(CellsRequest, body))

    async def capture(self, body: object) -> Captured:
        """Pickle and check the variables of the kernel that the cells in `body` need; return names, sizes and reasons.

        Raises `RefusedRequest` if the body is no valid request, the cells cannot run, or the kernel cannot be asked.
        """
        request = parse(CaptureRequest, body)
        runtime = await self._find_runtime(request)
        with reading_scripts(Path(runtime.cwd)):
            steps = await _plan_steps(request, runtime)
            return await self._captures.take(self.service, request, steps, runtime)

    async def send(self, body: object) -> tuple[JobView, bool]:
        """Make the bundle and submit the job; return it, and whether it is new (False = its key was sent before).

        Raises `RefusedRequest` if the body is no valid request, the cells cannot run, or another page has sent one of
        them (see `sent_cells`), and `ServiceError` if the service refuses the job.
        """
        request = parse(SendRequest, body)
        async with self._sent_cells.sending(request) as note_jobs:
            job, is_new = await self.submit(request)
            note_jobs(SentJobs([job.id]))
        return job, is_new

    async def submit(self, request: SendRequest) -> tuple[JobView, bool]:
        """Make the bundle of a checked request and submit the job, whoever else has sent its cells; see `send`."""
        send = await self._prepare(request)
        return await send({}, request.key)

    async def send_sweep(self, body: object) -> SentSweep:
        """Send a job for each point of the grid in `body`, as one group; return the ids of the jobs and their values.

        If the service refuses a job after others were sent, those are cancelled. Raises `RefusedRequest` if the body is
        no valid request, the cells cannot run, or another page has sent one of them (see `sent_cells`), and
        `ServiceError` if the service refuses a job.
        """
        request = parse(SweepRequest, body)
        async with self._sent_cells.sending(request) as note_jobs:
            sweep = await self._submit_sweep(request)
            note_jobs(SentJobs([each.job for each in sweep.jobs], sweep.group))
        return sweep

    async def _submit_sweep(self, request: SweepRequest) -> SentSweep:
        """Send the jobs of a checked request; for the rest see `send_sweep`."""
        runtime = await self._find_runtime(request)
        with reading_scripts(Path(runtime.cwd)):
            steps = await _plan_steps(request, runtime)
        points = list_points(request.grid, steps)
        group = _name_group(request, steps)
        request = request.model_copy(update={"group": group})
        send = await self._prepare(request)
        sent: list[SweptJob] = []
        try:
            for number, values in enumerate(points):
                job, _ = await send(values, f"{request.key}-{number}")
                sent.append(SweptJob(job=job.id, values=values))
        except (RefusedRequest, ServiceError):
            for start in range(0, len(sent), MOST_JOBS):
                await self.service.cancel_many([each.job for each in sent[start : start + MOST_JOBS]])
            raise
        return SentSweep(
            group=group,
            name=self._name_job(request),
            queue=request.queue,
            metric=request.group_metric,
            mode=request.group_mode,
            jobs=sent,
        )

    async def _prepare(self, request: SendRequest) -> SendPoint:
        """Return a function that submits the job of a checked request; its files have been sent to the service."""
        runtime = await self._find_runtime(request)
        with reading_scripts(Path(runtime.cwd)):
            steps = await _plan_steps(request, runtime)
            project = await self._find_project(request, steps, runtime)  # has read all scripts, in a thread
            here = self._environment_for(runtime)
            variables = here.choose(list_python_sources(steps, runtime.kernel), request.variables)
        runtime = replace(runtime, environment=variables, secrets=request.secrets)
        name, asked = self._name_job(request), request.model_dump(include=set(JOB_FIELDS))
        asked["software"] = runtime.software.name
        parse(JobRequest, {**asked, "name": name})  # a wrong request is refused before files are sent
        files = await project.send(self.service)
        carried = await self._captures.send(self.service, request, runtime.software)

        async def send(values: Mapping[str, str], key: str) -> tuple[JobView, bool]:
            said = ", ".join(f"{each}={value}" for each, value in values.items())
            varied = set_values(steps, values) if values else steps
            made = bundle.make_bundle(request, varied, runtime, returns=request.returns, files=files, carried=carried)
            project.describe_folder(made.manifest)
            fields = {**asked, "name": join_name(name, said, MAX_NAME), "bundle": made}
            return await self._submit_once(parse(JobSubmission, fields), key)

        return send

    async def _submit_once(self, submission: JobSubmission, key: str) -> tuple[JobView, bool]:
        """Submit a job unless the same content was sent with this key before; return the job, and whether it is new.

        A cancelled job is not returned, nor one that is being deleted: the user sends its cells again because they want
        them to run. See docs/decisions/0196-let-a-key-stand-for-the-content-too.md.

        The key of the service begins with that of the page if that is printable ASCII of at most 100 characters. By
        this beginning, the page knows a job again whose answer was lost.
        See docs/decisions/0495-find-a-job-whose-answer-was-lost-by-its-key.md.
        """
        digest = hashlib.sha256(f"{key} {submission.model_dump_json()}".encode()).hexdigest()
        start = f"{key} " if len(key) <= _LONGEST_START and key.isascii() and key.isprintable() else ""
        for attempt in itertools.count(1):
            try:
                job, is_new = await self.service.submit(submission, f"{start}{digest}-{attempt}")
            except ServiceError as error:
                if error.problem.code != Conflict.code or attempt > _MOST_DELETED:
                    raise
                continue
            if is_new or job.phase not in _CANCELLED:
                break
        return job, is_new

    @staticmethod
    def _name_job(request: SendRequest) -> str:
        """Return the name of a job: as the user wrote it, or that of the notebook."""
        given = request.name.strip(f"{string.whitespace}{BLANKS}")
        return given or shorten(PurePosixPath(request.notebook_path).stem, MAX_NAME)

    def note_cells(self, kernel_id: str, body: object) -> None:
        """Record the announced cells in `body`, and read ahead what they import.

        Raises `RefusedRequest` if the body is not valid.
        """
        cells = parse(Announcement, body).cells
        self._watch.note_cells(kernel_id, [(cell.cell_id, cell.source) for cell in cells])
        folder = find_started_folder(self._app, kernel_id)
        if folder is not None:
            self._reading_ahead.note_cells(Path(folder), [cell.source for cell in cells])

    async def open_result(self, job_id: str) -> str:
        """Copy the executed notebook of a job into the user's folder; return the path of the copy."""
        job, notebook = await asyncio.gather(self.service.job(job_id), self.service.notebook(job_id))
        return await save_result(self._app.contents_manager, job.id, job.name, notebook)

    async def read_notebook(self, path: str) -> JsonObject:
        """Return the notebook in the file at this path, without unsaved edits; an empty one if there is none."""
        try:
            model = await ensure_async(self._app.contents_manager.get(path, content=True, type="notebook"))
        except HTTPError:
            return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
        return dict(model["content"])

    async def describe(self, request: CellsRequest) -> Plan:
        """Return the cells that would run for a checked request, with warnings; for the rest see `check`."""
        runtime = await self._find_runtime(request)
        with reading_scripts(Path(runtime.cwd)):
            steps = await _plan_steps(request, runtime)
            project = await self._find_project(request, steps, runtime)
            sources = list_python_sources(steps, runtime.kernel)
            modules = await find_outside_modules(project.needed, sources, runtime, os.environ)
            here, files = self._environment_for(runtime), project.describe(modules)
            history = self._watch.get_history(request.kernel_id or "")
            ran = () if history is None else history.cells
            differences = find_differences(steps, project.going, ran, carries=request.capture is not None)
            return await read_code(describe_plan, request, steps, runtime, here, files, differences)

    async def find_notebook(self, kernel_id: str) -> str:
        """Return the path of the notebook or console that has this kernel; `NO_NOTEBOOK` if there is none."""
        for session in await self._app.session_manager.list_sessions():
            if session["kernel"]["id"] == kernel_id and session["path"]:
                return str(session["path"])
        return NO_NOTEBOOK

    async def _find_runtime(self, request: CellsRequest) -> bundle.Runtime:
        usual = self._environment.select_usual()
        return await find_runtime(self._app, self._here.server, request, usual, self._fetch_images)

    async def _fetch_images(self) -> Sequence[str]:
        """Return the names of the images in which jobs may run, as the service says."""
        return (await self.service.me()).images

    def _environment_for(self, runtime: bundle.Runtime) -> ServerEnvironment:
        """Return the environment of this server, as far as it can go along into the software of the job."""
        return self._environment.for_image() if runtime.software.is_image else self._environment

    async def _find_project(
        self, request: CellsRequest, steps: Sequence[bundle.Step], runtime: bundle.Runtime
    ) -> Project:
        """Return the files that the cells of a job need, and the functions among the variables that go along."""
        sources = [*list_python_sources(steps, runtime.kernel), *self._captures.list_sources(request)]
        return await find_project(self.service, request, sources, Path(runtime.cwd), self._max_file_bytes)

    async def want_share(self) -> bool:
        """Tell the service at once that a cell waits for the share; return whether the service can be reached.

        A service that does not answer within `WANT_SECONDS` counts as one that cannot be reached.
        """
        self._share.ask(monotonic())
        try:
            async with asyncio.timeout(WANT_SECONDS):
                await self.reporter.report()
        except TimeoutError:
            return False
        return self.relay.available is not False

    def note_event(self, event: ServiceEvent) -> None:
        """Update what is known about the last use of this server and about its share from an event of the service.

        A reset means that events were missed: the state of the share is fetched again.
        """
        self.reporter.note_event(event)
        if event.kind == "notebook":
            self._share.note_notebook(event.data, monotonic())
        elif event.kind == "reset":
            self._fetch_share()

    def note_connection(self, available: bool) -> None:
        """Record whether the service can be reached; when it is there again, fetch what was missed about the share."""
        self._share.note_connection(available)
        if available:
            self._fetch_share()

    def _fetch_share(self) -> None:
        """Start to fetch the state of the share, since events about it may have been missed."""
        if self._fetching is not None:
            self._fetching.cancel()
        self._fetching = asyncio.create_task(self._read_share(), name="jupyter-gq share")

    async def _read_share(self) -> None:
        try:
            found = await self.service.notebooks()
        except ServiceError as error:
            self._log.info("the state of the share could not be fetched: %s", error.problem.message)
        else:
            self._share.note_notebooks([notebook.model_dump() for notebook in found.notebooks], monotonic())


def _name_group(request: SweepRequest, steps: Sequence[bundle.Step]) -> str:
    """Return the name of a sweep's group: the same when the same content is sent twice.

    Outputs of the notebook do not count, because they may change meanwhile.
    """
    content = [request.model_dump_json(exclude={"notebook"}), *(step.source for step in steps)]
    return f"sweep-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]}"


async def _plan_steps(request: CellsRequest, runtime: bundle.Runtime) -> list[bundle.Step]:
    """Return the cells that the job will run, in order; read in a thread, since there may be many large ones.

    Raises `RefusedRequest` if one of them cannot run.
    """
    return await read_code(bundle.plan_steps, request, runtime.kernel)
