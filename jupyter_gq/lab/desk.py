"""Everything of this server that talks to the service. Imported once the server answers: its models take a while.

The handlers know this object only: what the browser sends comes in as parsed JSON, what goes back is a model of the
service or plain JSON. Refusals are raised as `RefusedRequest`, the service's own as `ServiceError`.
"""

import asyncio
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jupyter_gq.client.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import MAX_NAME, JobRequest, JobSubmission, JobView, Preview, ServiceEvent

from . import bundle, cells
from .activity import ActivityReporter
from .events import UNAVAILABLE, EventRelay
from .jupyter_parts import ServerApp
from .origin import find_source
from .refusal import RefusedRequest
from .requests import ASKED, CellsRequest, Plan, SendRequest, problem_of
from .results import bring
from .surroundings import Surroundings
from .watch import KernelWatch

Model = TypeVar("Model", bound=BaseModel)


class Desk:
    """One for each server, from its start to its end. `app` is jupyter_server's ServerApp."""

    def __init__(self, app: ServerApp, here: Surroundings, watch: KernelWatch, environment: Iterable[str]) -> None:
        self._app, self._here, self._environment = app, here, tuple(environment)
        self.service = ServiceClient(here.url, here.token)
        self.relay = EventRelay(self.service, app.event_logger, self._heard, watch.log)
        self.reporter = ActivityReporter(self.service, here.server, watch, app.web_app.settings)
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def start(self) -> None:
        """Begin to follow the service's events and to report activity."""
        self._tasks = (
            asyncio.create_task(self.relay.run(), name="jupyter-gq events"),
            asyncio.create_task(self.reporter.run(), name="jupyter-gq activity"),
            asyncio.create_task(asyncio.to_thread(cells.warm_up), name="jupyter-gq warm-up"),
        )

    async def close(self) -> None:
        """End that, and the connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = ()
        self.service.close()

    async def status(self) -> tuple[bool, str]:
        """Can the service be used, and a sentence about it for a person."""
        try:
            me = await self.service.me()
        except ServiceUnavailable:
            return False, UNAVAILABLE
        except ServiceError as error:
            return False, error.problem.message
        return True, f"Connected to the GPU scheduler as {me.user}."

    async def preview(self, body: object) -> Preview:
        """What would happen if this were sent now."""
        return await self.service.preview(parse(JobRequest, body))

    async def check(self, body: object) -> Plan:
        """The cells that would run, and what to know about them."""
        request = parse(CellsRequest, body)
        source = await self._source_of(request)
        return bundle.describe(request, bundle.plan(request, source.kernel), source.kernel)

    async def send(self, body: object) -> tuple[JobView, bool]:
        """Make the bundle and submit the job; the second value is False when this key was sent before."""
        request = parse(SendRequest, body)
        source = await self._source_of(request)
        steps = bundle.plan(request, source.kernel)
        made = bundle.bundle_of(request, steps, source)
        asked = request.model_dump(include=set(ASKED))
        asked["name"] = request.name.strip() or PurePosixPath(request.notebook_path).stem[:MAX_NAME]
        return await self.service.submit(parse(JobSubmission, {**asked, "bundle": made}), request.key)

    async def open_result(self, job_id: str) -> str:
        """Copy the executed notebook into the user's folder; return its path."""
        job, notebook = await asyncio.gather(self.service.job(job_id), self.service.notebook(job_id))
        return await bring(self._app.contents_manager, job.id, job.name, notebook)

    async def _source_of(self, request: CellsRequest) -> bundle.Source:
        return await find_source(self._app, self._here.server, request, self._environment)

    def _heard(self, event: ServiceEvent) -> None:
        self.reporter.notice(event)


def parse(model: type[Model], body: object) -> Model:
    """This JSON as that model. Raises `RefusedRequest`."""
    try:
        return model.model_validate({} if body is None else body)
    except ValidationError as error:
        problem = problem_of(error)
        raise RefusedRequest(problem.code, problem.message, field=problem.field) from error
