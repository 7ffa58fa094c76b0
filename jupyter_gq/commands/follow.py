"""Following a job until it has ended, also while the service restarts.

See docs/decisions/0112-follow-a-job-by-asking.md; `patience` waits for the service.
"""

import asyncio
from collections.abc import AsyncIterator

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobView
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.phases import ENDED
from jupyter_gq.notebook.pace import INTERVAL

from .connecting.patience import PatientClient
from .printing.printer import StatePrinter


async def follow(client: PatientClient, job: JobView, watcher: StatePrinter) -> JobView:
    """Show the job and its outputs to the watcher until the job has ended; return its last view.

    From now on, a request waits until the service answers, unless the command shall not wait at all. Raises
    `ServiceError` if the service refuses.
    """
    client.patience.show = watcher.show_connection
    if client.patience.longest:
        client.patience.longest = None
    outputs = _Outputs(client, watcher)
    while True:
        watcher.show_job(job)
        await outputs.show_new(job)
        if job.phase in ENDED:
            return job
        await asyncio.sleep(INTERVAL)
        job = await client.job(job.id)


async def read_outputs(client: ServiceClient, job: str, after: int) -> AsyncIterator[list[JsonObject]]:
    """Yield the pieces of output with numbers above `after` that the service has, page by page."""
    while True:
        page = await client.outputs(job, after)
        if not page.events:
            return
        yield page.events
        after = page.events[-1]["seq"]


class _Outputs:
    """The outputs of a job, each shown once, also if the service is lost between two pages of them."""

    def __init__(self, client: ServiceClient, watcher: StatePrinter) -> None:
        self._client, self._watcher = client, watcher
        #: Number of the last piece that was shown.
        self._after = 0

    async def show_new(self, job: JobView) -> None:
        """Show the outputs that came since the last call.

        If the job has ended, wait for the outputs that its runner still delivers.
        """
        while True:
            async for pieces in read_outputs(self._client, job.id, self._after):
                self._watcher.show_pieces(pieces)
                self._after = pieces[-1]["seq"]
            if job.phase not in ENDED or (await self._client.outputs(job.id, self._after)).finished:
                return
            await asyncio.sleep(INTERVAL)
