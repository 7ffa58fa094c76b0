"""Lists of jobs and notebooks that are read page by page, whatever is deleted meanwhile."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from jupyter_gq.client.models import JobList, NotebookList
from jupyter_gq.client.problems import PlainProblem

from .http import ServiceError

#: A page of a list.
P = TypeVar("P", JobList, NotebookList)
#: Returns the page of the list behind the entry with this id, and for None the first page.
ReadPage = Callable[[str | None], Awaitable[P]]


async def read_all_jobs(read: ReadPage[JobList]) -> JobList:
    """Return the first page with the jobs of all pages, each once, and with `next` set to None.

    Jobs keep the order of the pages. A job that two pages name has its first place and its last state. If all jobs of
    a page were deleted before the next page is read, the list is read from the start again; then new jobs come last.
    Raises `ServiceError` if the service refuses a page for any other reason, or has a page follow itself.
    """
    pages = await _read_pages(read, lambda page: [job.id for job in page.jobs])
    jobs = {job.id: job for page in pages for job in page.jobs}
    return pages[0].model_copy(update={"jobs": list(jobs.values()), "next": None})


async def read_all_notebooks(read: ReadPage[NotebookList]) -> NotebookList:
    """Return the notebooks of all pages, as `read_all_jobs` does for jobs."""
    pages = await _read_pages(read, lambda page: [notebook.id for notebook in page.notebooks])
    notebooks = {notebook.id: notebook for page in pages for notebook in page.notebooks}
    return pages[0].model_copy(update={"notebooks": list(notebooks.values()), "next": None})


async def _read_pages(read: ReadPage[P], list_ids: Callable[[P], Sequence[str]]) -> list[P]:
    """Return all pages of a list, in the order in which they were read; `list_ids` returns the ids of a page."""
    page: P = await read(None)
    pages = [page]
    while page.next is not None:
        before = page.next
        page = await _read_behind(read, [before, *reversed(list_ids(page))])
        if page.next == before:
            said = "The service repeats a page of the list. Try again, and tell your administrator if it stays."
            raise ServiceError(502, PlainProblem(code="repeated_page", message=said))
        pages.append(page)
    return pages


async def _read_behind(read: ReadPage[P], last: Sequence[str]) -> P:
    """Return the page behind the first of these entries that was not deleted meanwhile; if all were, the first page."""
    for entry in last:
        try:
            return await read(entry)
        except ServiceError as error:
            if error.status != 404:
                raise
    return await read(None)
