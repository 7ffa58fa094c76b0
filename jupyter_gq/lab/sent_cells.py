"""The cells that pages of this server have sent, so that two pages do not send one cell twice without a question.

A page asks its user about a job of the same cell when the dialog opens. Another tab may send the cell after that. Such
a send is refused, and the page is told the job, or all jobs of a sweep that have not ended. If its user wants these
jobs too, the page sends again and names them in `known_jobs`; it is asked again about any other job. Kernels and
commands give no `known_jobs` and are not asked. A new server remembers nothing.

See docs/decisions/0477-ask-before-a-cell-is-sent-from-two-pages.md.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.connection.pages import read_all_jobs
from jupyter_gq.client.models import MOST_JOBS, JobSummary
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.phases import ENDED

from .refusal import RefusedRequest
from .requests import SendRequest

#: Most cells that are remembered; the oldest are forgotten.
_MOST_CELLS = 1000
#: The path of a notebook and the id of one of its cells.
_Cell = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class SentJobs:
    """The jobs of an accepted request."""

    ids: Sequence[str]
    #: Name of the group of a sweep; "" for a job that was sent alone, whatever group it is in.
    sweep: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A request for one or more cells, and its jobs once they are there; none if it was not accepted."""

    key: str
    jobs: asyncio.Future[SentJobs] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SentCells:
    """The last request for each of the cells that were sent last."""

    def __init__(self, service: ServiceClient) -> None:
        self._service = service
        self._last: OrderedDict[_Cell, _Sent] = OrderedDict()

    @asynccontextmanager
    async def sending(self, request: SendRequest) -> AsyncIterator[Callable[[SentJobs], None]]:
        """Yield a function that takes the jobs of this request; call it once, or never if it is refused.

        For a request with `known_jobs`, raises `RefusedRequest` if the last request for one of the cells had another
        key, and one of its jobs has not ended and is not among `known_jobs`. Raises `ServiceError` if the service
        cannot be asked about these jobs. While the other request is being sent, this waits for the answer to it.
        """
        cells = [(request.notebook_path, cell) for cell in request.targets]
        checked: set[_Sent] = set()
        while request.known_jobs is not None and (other := self._find_other(cells, request.key, checked)) is not None:
            await self._check(await asyncio.shield(other.jobs), request.known_jobs)
            checked.add(other)
        sent, former = _Sent(request.key), {cell: self._last.get(cell) for cell in cells}
        self._note(dict.fromkeys(cells, sent))
        try:
            yield sent.jobs.set_result
        finally:
            if not sent.jobs.done():  # nothing was accepted, so the requests before count on
                sent.jobs.set_result(SentJobs([]))
                self._note({cell: before for cell, before in former.items() if self._last.get(cell) is sent})

    def _note(self, last: Mapping[_Cell, _Sent | None]) -> None:
        """Remember these last requests, and forget the oldest ones that are too many; None forgets that of a cell."""
        for cell, sent in last.items():
            self._last.pop(cell, None)
            if sent is not None:
                self._last[cell] = sent
        while len(self._last) > _MOST_CELLS:
            self._last.popitem(last=False)

    def _find_other(self, cells: Sequence[_Cell], key: str, checked: Collection[_Sent]) -> _Sent | None:
        """Return a request for one of these cells with another key that is not `checked`; None if there is none."""
        found = (self._last.get(cell) for cell in cells)
        return next((sent for sent in found if sent is not None and sent.key != key and sent not in checked), None)

    async def _check(self, jobs: SentJobs, known: Sequence[str]) -> None:
        """Raise `RefusedRequest` if one of these jobs has not ended and is not known to the page."""
        unknown = SentJobs([job for job in jobs.ids if job not in set(known)], jobs.sweep)
        if not unknown.ids:
            return
        found = await (self._list_left_of_sweep(unknown) if jobs.sweep else self._list_left(unknown.ids))
        if found:
            raise RefusedRequest(
                "already_sent",
                _describe_left(found, is_sweep=bool(jobs.sweep), knows_some=len(unknown.ids) < len(jobs.ids)),
                status=HTTPStatus.CONFLICT,
                other_jobs=[job.id for job in found],
            )

    async def _list_left(self, jobs: Sequence[str]) -> list[JobSummary]:
        """Return the jobs that have not ended. There is no sweep, so these are few: one request asks for each."""
        found: list[JobSummary] = []
        for job in jobs:
            try:
                found.append(await self._service.job(job))
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise  # a job that is not found was deleted, so it has ended
        return [job for job in found if job.phase not in ENDED]

    async def _list_left_of_sweep(self, jobs: SentJobs) -> list[JobSummary]:
        """Return the jobs of a sweep that have not ended, newest first: one request asks for 500 jobs."""
        found = await read_all_jobs(lambda before: self._service.jobs(group=jobs.sweep, limit=MOST_JOBS, before=before))
        ids = set(jobs.ids)
        return [job for job in found.jobs if job.id in ids and job.phase not in ENDED]


def _describe_left(jobs: Sequence[JobSummary], *, is_sweep: bool, knows_some: bool) -> str:
    """Return a sentence about jobs that another page has sent; `knows_some` says that the page knows others."""
    if not is_sweep:
        return (
            "This cell was sent from another tab or window since this dialog was opened, and its job is "
            f"{jobs[0].phase}. Send again to have both jobs, or cancel."
        )
    count = f"{len(jobs)}{' other' if knows_some else ''} job{'' if len(jobs) == 1 else 's'}"
    return (
        "This cell was sent from another tab or window as a sweep, and "
        f"{count} of that sweep {'has' if len(jobs) == 1 else 'have'} not ended. "
        f"Send again to have {'it' if len(jobs) == 1 else 'them'} too, or cancel."
    )
