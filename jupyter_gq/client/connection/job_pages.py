"""Lists of jobs that are read page by page, whatever is deleted meanwhile."""

from collections.abc import Awaitable, Callable, Sequence

from jupyter_gq.client.models import JobList
from jupyter_gq.client.problems import PlainProblem

from .http import ServiceError

#: Returns the page of the jobs behind the one with this id, and for None the first page.
ReadPage = Callable[[str | None], Awaitable[JobList]]


async def read_all_jobs(read: ReadPage) -> JobList:
    """Return the first page with the jobs of all pages, each once, and with `next` set to None.

    Jobs keep the order of the pages. A job that two pages name has its first place and its last state. If all jobs of
    a page were deleted before the next page is read, the list is read from the start again; then new jobs come last.
    Raises `ServiceError` if the service refuses a page for any other reason, or has a page follow itself.
    """
    found = page = await read(None)
    jobs = {job.id: job for job in found.jobs}
    while page.next is not None:
        before = page.next
        page = await _read_behind(read, [before, *(job.id for job in reversed(page.jobs))])
        if page.next == before:
            said = "The service repeats a page of the list of jobs. Try again, and tell your administrator if it stays."
            raise ServiceError(502, PlainProblem(code="repeated_page", message=said))
        jobs |= {job.id: job for job in page.jobs}
    return found.model_copy(update={"jobs": list(jobs.values()), "next": None})


async def _read_behind(read: ReadPage, last: Sequence[str]) -> JobList:
    """Return the page behind the first of these jobs that was not deleted meanwhile; if all were, the first page."""
    for job in last:
        try:
            return await read(job)
        except ServiceError as error:
            if error.status != 404:
                raise
    return await read(None)
