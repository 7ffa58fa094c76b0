"""The way of one server from its request to its share: ask, wait in line, attach the process, give back.

Guarantees
----------
1. `obtain` returns only with a share that is reserved for this server, or raises; when it raises, or is cancelled,
   the ticket has been given back (or the service could not be reached, and lets an unfollowed ticket lapse).
2. A server without GPU never waits and never fails because of the service.
3. Giving back is idempotent and never raises: the service frees the share when the process is gone in any case.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from jupyter_gq.client.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ProcessReport, TicketRequest, TicketView
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.errors import HttpRefusal

from .request import ShareRequest
from .status import SpawnStatus, StatusBoard
from .waiting_servers import Line

#: Environment of a server that has no device, when the service could not say so itself.
NO_DEVICE = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "JUPYTER_GQ_GPUS": "0"}

#: Variables that name devices; where servers are pods, only what the pod must carry says them.
_DEVICE_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})

_NOT_FOUND = 404
_SERVER_FAULT = 500
_GIVE_BACK_SECONDS = 5.0
#: Most shares are free and given out within milliseconds: ask again soon, then at the usual pace.
_FIRST_PAUSE, _GROWTH = 0.02, 1.5


class AdmissionRefused(HttpRefusal):
    """A share that cannot be had; `sentence` is for the user, `reason` is one of `refusal.REASONS`."""

    def __init__(self, sentence: str, reason: str, status: int) -> None:
        super().__init__(sentence)
        self.sentence, self.reason, self.status = sentence, reason, status


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long to wait for what, in seconds."""

    #: Between two questions to the service while in line.
    period: float
    #: In line at most.
    longest_wait: float
    #: For a service that does not answer while in line: it may be restarting.
    outage: float = 60.0
    #: Servers of this Hub that may wait at one time; 0 = any number.
    most_waiting: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What an admitted server holds."""

    #: Ticket of the service; "" for a server without GPU that the service does not know of.
    ticket: str
    #: The amount as text, "0" for CPU only.
    gpus: str
    #: Variables for the server's process.
    environment: dict[str, str]
    #: What the user should know about it; "" when all is well.
    note: str = ""
    #: Where servers are pods: what its pod must carry; None elsewhere, and for one without GPU, which needs its ticket
    #: only: it does not wait to be admitted, and the service knows its pod by that.
    pod: PodAdditions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What is asked for, for which server."""

    #: Name of the server, "" for the default one.
    server: str
    request: ShareRequest
    #: Servers are pods here: a share of a GPU is complete only with what its pod must carry.
    as_pod: bool = False


class Admission:
    """Follows one ticket of one server, from its request or from a share that turned out not to be had."""

    def __init__(
        self, *, service: ServiceClient, wish: Wish, board: StatusBoard, patience: Patience, line: Line | None = None
    ) -> None:
        """`line`: where those are counted that wait."""
        self._service, self._server, self._request, self._board = service, wish.server, wish.request, board
        self._as_pod, self._patience, self._line = wish.as_pod, patience, Line() if line is None else line
        self._opening: asyncio.Future[TicketView] | None = None
        self._ticket = ""
        self._began = asyncio.get_running_loop().time()

    async def obtain(self) -> Share:
        """Ask for the share and wait for it; raise `AdmissionRefused` when it is not to be had."""
        self._show("asking", "Asking for a share of a GPU." if self._request.wants_gpu else "Starting without a GPU.")
        return await self._or_abandon(self._wait_in_line() if self._request.wants_gpu else self._without_gpu())

    async def obtain_again(self, view: TicketView) -> Share:
        """Wait for another place, after the one of this ticket was not to be had; the rest is as for `obtain`."""
        self._ticket = view.id
        return await self._or_abandon(self._wait_for(view))

    async def _or_abandon(self, share: Awaitable[Share]) -> Share:
        admitted = False
        try:
            obtained = await share
            admitted = True
        finally:
            self._line.leave(self)
            if not admitted:
                await self._abandon()
        return obtained

    async def _wait_in_line(self) -> Share:
        return await self._wait_for(await self._open())

    async def _wait_for(self, view: TicketView) -> Share:
        pause = _FIRST_PAUSE
        while not self._complete(view):
            refuse_when_over(view)
            self._show("waiting", view.sentence, view)
            if view.phase == "waiting" and self._waited() >= self._line.settled:
                self._stand_in_line()
            if self._waited() > self._patience.longest_wait:
                raise AdmissionRefused(self._gave_up(view), "gpu_queue_timeout", 503)
            await asyncio.sleep(min(pause, self._patience.period))
            pause *= _GROWTH
            view = await self._next(view)
        return share_of(view)

    def _stand_in_line(self) -> None:
        most = self._patience.most_waiting
        if not self._line.join(self, most):
            sentence = (
                f"{most} server{'s wait' if most > 1 else ' waits'} for a GPU already, and no more may wait at one "
                "time. Try again in a few minutes, or start without a GPU."
            )
            raise AdmissionRefused(sentence, "gpu_line_full", 503)

    def _complete(self, view: TicketView) -> bool:
        return view.phase == "starting" and (view.pod is not None or not self._as_pod)

    async def _next(self, view: TicketView) -> TicketView:
        """The next answer about the ticket, over an outage of the service: its restart costs nobody the place."""
        silent_since: float | None = None
        while True:
            try:
                return await self._again(view)
            except ServiceUnavailable as error:
                silent_since = self._waited() if silent_since is None else silent_since
                if self._waited() - silent_since > self._patience.outage:
                    raise AdmissionRefused(_no_service(error), "gpu_no_service", 503) from error
                self._show("waiting", "The GPU service does not answer just now; your place in line is kept.", view)
            await asyncio.sleep(self._patience.period)

    async def _without_gpu(self) -> Share:
        try:
            view = await self._ask()
            if view.phase == "running":  # of a server that the Hub has lost sight of: its end must not be this one's
                await self._service.close_ticket(view.id)
                view = await self._ask()
        except ServiceError as error:
            logging.getLogger(__name__).warning("Starting a server without GPU, unknown to the service: %s", error)
            note = "The GPU service does not answer, so nothing can be sent to training for now."
            return Share(ticket="", gpus="0", environment=dict(NO_DEVICE), note=note)
        share = share_of(view)
        return replace(share, gpus="0", environment={**NO_DEVICE, **share.environment}, pod=None)

    async def _open(self) -> TicketView:
        """A ticket for this very request; one that an earlier start left behind is taken up only if it fits."""
        try:
            view = await self._ask()
            if view.phase != "stopped" and view.gpus != self._request.gpus:
                await self._service.close_ticket(view.id)
                view = await self._ask()
        except ServiceUnavailable as error:
            raise AdmissionRefused(_no_service(error), "gpu_no_service", 503) from error
        except ServiceError as error:
            raise refused_by_service(error) from error
        return view

    async def _ask(self) -> TicketView:
        request = TicketRequest(server=self._server, gpus=self._request.gpus)
        self._opening = asyncio.ensure_future(self._service.open_ticket(request))
        view = await asyncio.shield(self._opening)  # if we are cancelled, its id is still needed to give it back
        self._ticket = view.id
        return view

    async def _again(self, view: TicketView) -> TicketView:
        """The present state of the ticket; a lapsed one, or one of a process that has not ended, is asked for anew."""
        try:
            if view.phase == "waiting" or (view.phase == "starting" and self._as_pod):
                return await self._service.ticket(view.id)
            await self._service.close_ticket(view.id)
            return await self._ask()
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                return await self._open()
            raise _told_apart(error) from error

    async def _abandon(self) -> None:
        if self._opening is not None and not self._opening.done():
            await asyncio.wait([self._opening], timeout=_GIVE_BACK_SECONDS)
        if self._opening is not None and self._opening.done() and not self._opening.cancelled():
            ticket = "" if self._opening.exception() else self._opening.result().id
            self._ticket = ticket or self._ticket
        if self._ticket:
            await give_back(self._service, self._ticket)

    def _show(self, step: str, sentence: str, view: TicketView | None = None) -> None:
        self._board.show(
            SpawnStatus(
                step="waiting" if step == "waiting" else "asking",
                gpus=self._request.gpus,
                sentence=sentence,
                position=view.position if view else None,
                ahead=view.ahead if view else None,
                since=self._began if view else None,
            )
        )

    def _waited(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _gave_up(self, view: TicketView) -> str:
        minutes = max(1, round(self._patience.longest_wait / 60))
        return (
            f"No {view.gpus} GPU became free within {minutes} minute{'s' if minutes > 1 else ''}. {view.sentence} "
            "Try again later, choose less, or start without a GPU."
        )


def share_of(view: TicketView) -> Share:
    """What a ticket gives."""
    environment = dict(view.environment)
    if view.pod is not None:
        environment = {name: value for name, value in environment.items() if name not in _DEVICE_NAMES}
        environment |= view.pod.environment
    return Share(ticket=view.id, gpus=view.gpus, environment=environment, pod=view.pod)


def refuse_when_over(view: TicketView) -> None:
    """Raise `AdmissionRefused` for a ticket that is at its end."""
    if view.phase == "stopped":
        raise AdmissionRefused(f"The request for {view.gpus} GPU ended: {view.sentence}", "gpu_queue_timeout", 409)


async def give_back(service: ServiceClient, ticket: str) -> None:
    """Close a ticket; log when the service cannot be told."""
    try:
        async with asyncio.timeout(_GIVE_BACK_SECONDS):
            await service.close_ticket(ticket)
    except (ServiceUnavailable, TimeoutError) as error:
        logging.getLogger(__name__).warning("Could not give ticket %s back (it will lapse): %s", ticket, error)
    except ServiceError as error:
        if error.status != _NOT_FOUND:
            logging.getLogger(__name__).warning("Ticket %s was not taken back: %s", ticket, error)


async def attach(service: ServiceClient, ticket: str, report: ProcessReport) -> None:
    """Tell which process holds the share; raise `AdmissionRefused` when the service does not accept it."""
    try:
        await service.attach(ticket, report)
    except ServiceError as error:
        raise _told_apart(error) from error


def _told_apart(error: ServiceError) -> Exception:
    """A fault of the service may pass; a refusal will not."""
    if error.status >= _SERVER_FAULT:
        return ServiceUnavailable(error.status, error.problem)
    return refused_by_service(error)


def refused_by_service(error: ServiceError) -> AdmissionRefused:
    """The service said no: keep its sentence, choose the reason."""
    match error.status:
        case 403 if error.problem.code == "quota_exceeded":
            return AdmissionRefused(error.problem.message, "gpu_quota", 403)
        case 400 | 409 | 422:
            return AdmissionRefused(
                error.problem.message, "gpu_bad_request", error.status if error.status != 422 else 400
            )
        case 401 | 403:
            sentence = f"The GPU service does not accept this hub's request ({error.problem.message}). "
            return AdmissionRefused(
                sentence + "Ask your administrator; without a GPU the server starts.", "gpu_no_service", 403
            )
        case _:
            return AdmissionRefused(_no_service(error), "gpu_no_service", 503)


def _no_service(error: Exception) -> str:
    logging.getLogger(__name__).warning("The GPU service cannot be used: %s", error)
    return (
        "GPUs cannot be given out just now: the scheduler service does not answer. Nothing was started. "
        "Start without a GPU, or try again in a minute."
    )
