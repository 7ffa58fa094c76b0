"""Following a job until it has ended, also while the service restarts.

See docs/decisions/0112-follow-a-job-by-asking.md.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable

from jupyter_gq.client.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.models import JobView
from jupyter_gq.domain.json_types import JsonObject

from .job_lists import ENDED
from .printer import StatePrinter

#: Seconds between two questions, and the longest pause while the service does not answer.
INTERVAL, LONGEST_PAUSE = 1.0, 10.0


async def follow(client: ServiceClient, job: JobView, watcher: StatePrinter) -> JobView:
    """Show the job and its outputs to the watcher until the job has ended; return its last view.

    While the service does not answer, the question is repeated. Raises `ServiceError` if the service refuses.
    """
    after, pause, available = 0, INTERVAL, True
    while True:
        try:
            watcher.show_job(job)
            after = await _show_outputs(client, job, after, watcher)
            if job.phase in ENDED:
                return job
            await asyncio.sleep(INTERVAL)
            job = await client.job(job.id)
            pause, available = INTERVAL, _note(available, True, watcher.show_connection)
        except ServiceUnavailable:
            available = _note(available, False, watcher.show_connection)
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(500) / 1000))  # many commands, one restart
            pause = min(LONGEST_PAUSE, 2 * pause)


async def read_outputs(client: ServiceClient, job: str, after: int) -> AsyncIterator[list[JsonObject]]:
    """Yield the pieces of output with numbers above `after` that the service has, page by page."""
    while True:
        page = await client.outputs(job, after)
        if not page.events:
            return
        yield page.events
        after = page.events[-1]["seq"]


async def _show_outputs(client: ServiceClient, job: JobView, after: int, watcher: StatePrinter) -> int:
    """Show the outputs above `after`, and return the number of the last piece.

    If the job has ended, wait for the outputs that its runner still delivers.
    """
    while True:
        async for pieces in read_outputs(client, job.id, after):
            watcher.show_pieces(pieces)
            after = pieces[-1]["seq"]
        if job.phase not in ENDED or (await client.outputs(job.id, after)).finished:
            return after
        await asyncio.sleep(INTERVAL)


def _note(before: bool, now: bool, show: Callable[[bool], None]) -> bool:
    """Show the state of the connection if it has changed, and return it."""
    if before is not now:
        show(now)
    return now
