"""The admission of one server: request a share, wait for it, attach the process, give the share back.

Guarantees
----------
- `obtain` returns only with a share that is reserved for this server, or raises. If it raises or is cancelled, the
  ticket is given back; if the service cannot be reached, the service lets the ticket lapse.
- A server without a GPU never waits, and never fails because of the service.
- Giving back is idempotent and never raises: the service frees the share in any case once the process is gone.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from traitlets.log import get_logger

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ProcessReport, TicketRequest, TicketView
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.errors import HttpRefusal
from jupyter_gq.hub.clock import monotonic

from .request import ShareRequest
from .status import SpawnStatus, StatusBoard
from .waiting_servers import WaitingServers

#: Environment of a server without a device, for servers that the service does not know.
NO_DEVICE_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "JUPYTER_GQ_GPUS": "0"}

#: Variables that name devices. If servers are pods, only the pod additions of the share set them.
_DEVICE_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})

_NOT_FOUND = 404
_SERVER_FAULT = 500
_GIVE_BACK_SECONDS = 5.0
#: First pause between two polls in seconds, and its growth: most shares are free and given out within milliseconds.
_FIRST_PAUSE, _GROWTH = 0.02, 1.5


class StartRefused(HttpRefusal):
    """A refusal to start a server; `sentence` is for the user, `reason` is one of `refusal.REASONS`."""

    def __init__(self, sentence: str, reason: str, status: int) -> None:
        super().__init__(sentence)
        self.sentence, self.reason, self.status = sentence, reason, status


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLimits:
    """The limits of a wait for a share."""

    #: Seconds between two requests to the service while a server waits.
    poll_interval: float
    #: Seconds that a server waits at most.
    longest_wait: float
    #: Seconds to wait for a service that does not answer meanwhile: it may be restarting.
    outage_timeout: float = 60.0
    #: Number of servers of this Hub that may wait at one time; 0 = any number.
    most_waiting: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldShare:
    """The share that an admitted server holds."""

    #: Ticket of the service; "" for a server without GPU that the service does not know of.
    ticket: str
    #: Amount as text, "0" for CPU only.
    gpus: str
    #: Variables for the server's process.
    environment: dict[str, str]
    #: Remark for the user; "" if there is none.
    note: str = ""
    #: Additions to the server's pod. None if servers are no pods, and for a server without a GPU: its pod needs only
    #: the label with the ticket, by which the service knows the pod.
    pod: PodAdditions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRequest:
    """The request of one server."""

    #: Name of the server, "" for the default one.
    server: str
    request: ShareRequest
    #: Whether servers are pods: then a share of a GPU is complete only with the additions to its pod.
    as_pod: bool = False


class Admission:
    """The admission of one server by way of one ticket.

    The admission begins with a request, or with a ticket whose place turned out to be unavailable.
    """

    def __init__(
        self,
        *,
        service: ServiceClient,
        server_request: ServerRequest,
        board: StatusBoard,
        limits: WaitLimits,
        waiting_servers: WaitingServers | None = None,
    ) -> None:
        """Prepare the admission; nothing is requested yet.

        `waiting_servers` counts the servers of this Hub that wait; None = count only this one.
        """
        self._service, self._board, self._limits = service, board, limits
        self._server, self._request, self._as_pod = server_request.server, server_request.request, server_request.as_pod
        self._waiting_servers = WaitingServers() if waiting_servers is None else waiting_servers
        #: The last request for a ticket.
        self._opening: asyncio.Future[TicketView] | None = None
        self._ticket = ""
        self._began = monotonic()

    async def obtain(self) -> HeldShare:
        """Request a share, wait until it is admitted, and return it; raise `StartRefused` if the server cannot have it.

        If servers are pods, the wait lasts until the additions to the pod are known. A server without a GPU gets its
        share at once, even if the service does not answer. If this call raises or is cancelled, the ticket is given
        back.
        """
        if self._request.wants_gpu:
            self._show_status("asking", "Asking for a share of a GPU.")
            return await self._give_back_on_failure(self._open_and_wait())
        self._show_status("asking", "Starting without a GPU.")
        return await self._give_back_on_failure(self._obtain_without_gpu())

    async def obtain_again(self, view: TicketView) -> HeldShare:
        """Wait until the ticket `view`, whose place was lost, has another place; return the share there.

        Raises `StartRefused`, and gives the ticket back, like `obtain`.
        """
        self._ticket = view.id
        return await self._give_back_on_failure(self._wait_for_share(view))

    async def _give_back_on_failure(self, share: Awaitable[HeldShare]) -> HeldShare:
        """Return the awaited share; if the wait fails or is cancelled, give the ticket back and raise.

        In any case the server no longer counts as waiting.
        """
        admitted = False
        try:
            obtained = await share
            admitted = True
        finally:
            self._waiting_servers.leave(self)
            if not admitted:
                await self._give_ticket_back()
        return obtained

    async def _open_and_wait(self) -> HeldShare:
        return await self._wait_for_share(await self._open_ticket())

    async def _wait_for_share(self, view: TicketView) -> HeldShare:
        """Poll the ticket until its share is complete, and return the share.

        Raises `StartRefused` if the ticket ends, the wait is too long, or too many servers wait already. The viewers
        see each state of the ticket.
        """
        pause = _FIRST_PAUSE
        while not self._is_complete(view):
            raise_if_stopped(view)
            self._show_status("waiting", view.sentence, view)
            if view.phase == "waiting" and self._seconds_waited() >= self._waiting_servers.settling_seconds:
                self._join_waiting_servers()
            if self._seconds_waited() > self._limits.longest_wait:
                raise StartRefused(self._describe_timeout(view), "gpu_queue_timeout", 503)
            await asyncio.sleep(min(pause, self._limits.poll_interval))
            pause *= _GROWTH
            view = await self._poll(view)
        return make_share(view)

    def _join_waiting_servers(self) -> None:
        """Count the server as waiting; raise `StartRefused` if too many servers wait already."""
        most = self._limits.most_waiting
        if not self._waiting_servers.join(self, most):
            sentence = (
                f"{most} server{'s wait' if most > 1 else ' waits'} for a GPU already, and no more may wait at one "
                "time. Try again in a few minutes, or start without a GPU."
            )
            raise StartRefused(sentence, "gpu_line_full", 503)

    def _is_complete(self, view: TicketView) -> bool:
        """Tell whether the ticket is admitted and, if servers are pods, says what to add to the pod."""
        return view.phase == "starting" and (view.pod is not None or not self._as_pod)

    async def _poll(self, view: TicketView) -> TicketView:
        """Return the present state of the ticket; during an outage of the service, try again until the service answers.

        Raises `StartRefused` if the outage is longer than `outage_timeout`, or if the service refuses.
        """
        silent_since: float | None = None
        while True:
            try:
                return await self._refresh(view)
            except ServiceUnavailable as error:
                silent_since = self._seconds_waited() if silent_since is None else silent_since
                if self._seconds_waited() - silent_since > self._limits.outage_timeout:
                    raise StartRefused(_describe_outage(error), "gpu_no_service", 503) from error
                sentence = "The GPU service does not answer just now; your place in line is kept."
                self._show_status("waiting", sentence, view)
            await asyncio.sleep(self._limits.poll_interval)

    async def _obtain_without_gpu(self) -> HeldShare:
        """Return a share without a GPU. If the service refuses or does not answer, the share has a note and no ticket.

        A running ticket of an earlier server is closed and replaced by a new one.
        """
        try:
            view = await self._request_ticket()
            if view.phase == "running":  # an earlier server's ticket, of which the Hub does not know any more
                await self._service.close_ticket(view.id)
                view = await self._request_ticket()
        except ServiceError as error:
            get_logger().warning("Starting a server without a GPU; the service does not know of it: %s", error)
            note = "The GPU service does not answer, so nothing can be sent to training for now."
            return HeldShare(ticket="", gpus="0", environment=dict(NO_DEVICE_ENVIRONMENT), note=note)
        share = make_share(view)
        return replace(share, gpus="0", environment={**NO_DEVICE_ENVIRONMENT, **share.environment}, pod=None)

    async def _open_ticket(self) -> TicketView:
        """Return a ticket for this request; close and replace a ticket that an earlier start left with another amount.

        Raises `StartRefused` if the service refuses or does not answer.
        """
        try:
            view = await self._request_ticket()
            if view.phase != "stopped" and view.gpus != self._request.gpus:
                await self._service.close_ticket(view.id)
                view = await self._request_ticket()
        except ServiceUnavailable as error:
            raise StartRefused(_describe_outage(error), "gpu_no_service", 503) from error
        except ServiceError as error:
            raise convert_service_error(error) from error
        return view

    async def _request_ticket(self) -> TicketView:
        """Ask the service for a ticket and return it.

        A cancellation of this call does not end the request, so that `_give_ticket_back` still finds the ticket.
        """
        request = TicketRequest(server=self._server, gpus=self._request.gpus)
        self._opening = asyncio.ensure_future(self._service.open_ticket(request))
        view = await asyncio.shield(self._opening)  # even after a cancellation the id is needed to give the ticket back
        self._ticket = view.id
        return view

    async def _refresh(self, view: TicketView) -> TicketView:
        """Return the present state of the ticket, or a new ticket.

        A ticket that a process of an earlier server still holds is closed and replaced; one that the service no longer
        knows is replaced. Raises `ServiceUnavailable` during an outage of the service, and `StartRefused` if the
        service refuses.
        """
        try:
            if view.phase == "waiting" or (view.phase == "starting" and self._as_pod):
                return await self._service.ticket(view.id)
            await self._service.close_ticket(view.id)
            return await self._request_ticket()
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                return await self._open_ticket()
            raise _classify_error(error) from error

    async def _give_ticket_back(self) -> None:
        """Close the ticket, if there is one, and raise no error; wait a few seconds for a request that is under way."""
        if self._opening is not None and not self._opening.done():
            await asyncio.wait([self._opening], timeout=_GIVE_BACK_SECONDS)
        if self._opening is not None and self._opening.done() and not self._opening.cancelled():
            ticket = "" if self._opening.exception() else self._opening.result().id
            self._ticket = ticket or self._ticket
        if self._ticket:
            await give_back(self._service, self._ticket)

    def _show_status(self, step: str, sentence: str, view: TicketView | None = None) -> None:
        """Show a step of the admission to all viewers, with the place in line if the ticket `view` has one."""
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

    def _seconds_waited(self) -> float:
        return monotonic() - self._began

    def _describe_timeout(self, view: TicketView) -> str:
        """Return the sentence of a refusal after the longest wait, with the minutes and the ticket's reason to wait."""
        minutes = max(1, round(self._limits.longest_wait / 60))
        return (
            f"No {view.gpus} GPU became free within {minutes} minute{'s' if minutes > 1 else ''}. {view.sentence} "
            "Try again later, choose less, or start without a GPU."
        )


def make_share(view: TicketView) -> HeldShare:
    """Return the share that an admitted ticket gives.

    If servers are pods, variables that name devices come only from the additions to the pod.
    """
    environment = dict(view.environment)
    if view.pod is not None:
        environment = {name: value for name, value in environment.items() if name not in _DEVICE_NAMES}
        environment |= view.pod.environment
    return HeldShare(ticket=view.id, gpus=view.gpus, environment=environment, pod=view.pod)


def raise_if_stopped(view: TicketView) -> None:
    """Raise `StartRefused` with the ticket's sentence if the ticket is stopped."""
    if view.phase == "stopped":
        raise StartRefused(f"The request for {view.gpus} GPU ended: {view.sentence}", "gpu_queue_timeout", 409)


async def give_back(service: ServiceClient, ticket: str) -> None:
    """Close a ticket of the service within a few seconds; log an error and do not raise it."""
    try:
        async with asyncio.timeout(_GIVE_BACK_SECONDS):
            await service.close_ticket(ticket)
    except (ServiceUnavailable, TimeoutError) as error:
        reason = str(error) or f"the service did not answer within {_GIVE_BACK_SECONDS:g} s"
        get_logger().warning("Ticket %s could not be given back, and will lapse: %s", ticket, reason)
    except ServiceError as error:
        if error.status != _NOT_FOUND:
            get_logger().warning("The service refused to take ticket %s back: %s", ticket, error)


async def attach(service: ServiceClient, ticket: str, report: ProcessReport) -> None:
    """Report the process that holds the ticket's share to the service.

    Raises `StartRefused` if the service does not accept the process, and `ServiceUnavailable` if the service is away.
    """
    try:
        await service.attach(ticket, report)
    except ServiceError as error:
        raise _classify_error(error) from error


def _classify_error(error: ServiceError) -> Exception:
    """Return `ServiceUnavailable` for an error with a status from 500 on, which may pass, and else a `StartRefused`."""
    if error.status >= _SERVER_FAULT:
        return ServiceUnavailable(error.status, error.problem)
    return convert_service_error(error)


def convert_service_error(error: ServiceError) -> StartRefused:
    """Return the refusal for an error of the service: a sentence, one of `refusal.REASONS`, and an HTTP status.

    The sentence is the service's own for a quota or a bad request. Any other error refuses as "gpu_no_service", and an
    outage is logged.
    """
    match error.status:
        case 403 if error.problem.code == "quota_exceeded":
            return StartRefused(error.problem.message, "gpu_quota", 403)
        case 400 | 409 | 422:
            return StartRefused(error.problem.message, "gpu_bad_request", error.status if error.status != 422 else 400)
        case 401 | 403:
            sentence = (
                f"The GPU service does not accept this hub's request ({error.problem.message}). "
                "Ask your administrator, or start the server without a GPU."
            )
            return StartRefused(sentence, "gpu_no_service", 403)
        case _:
            return StartRefused(_describe_outage(error), "gpu_no_service", 503)


def _describe_outage(error: Exception) -> str:
    """Log the error as a warning; return a sentence for the user that the service does not answer."""
    get_logger().warning("The GPU service cannot be used: %s", error)
    return (
        "GPUs cannot be given out just now: the scheduler service does not answer. Nothing was started. "
        "Start without a GPU, or try again in a minute."
    )
