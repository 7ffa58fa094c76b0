"""Retries of a server's start at another place: the service chooses a place, and the cluster may refuse it.

The pod is made for the node that the service chose. Kubernetes may have no CPU or memory left there, or remove the
node. The service sees that, puts the ticket back in its queue, and chooses again. This module follows the ticket while
the pod starts.
"""

import asyncio

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.models import TicketView
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.amount import parse_request
from jupyter_gq.domain.errors import MachineError
from jupyter_gq.hub.admission.admission import (
    Admission,
    HeldShare,
    ServerRequest,
    StartRefused,
    WaitLimits,
    raise_if_stopped,
)
from jupyter_gq.hub.admission.request import ShareRequest
from jupyter_gq.hub.admission.status import SpawnStatus
from jupyter_gq.hub.base import SpawnerMixin
from jupyter_gq.hub.clock import monotonic
from jupyter_gq.hub.hub_parts import Address

from .pod_parts import PREFIX

_NO_TIME = (
    "The cluster refused the place that was chosen first, and the next one took too long. Try again, choose less, or "
    "start without a GPU."
)
_NOT_FOUND = 404
_ATTEMPT = f"{PREFIX}attempt"


class PlaceLost(MachineError):
    """The loss of the place at which a server was starting; `view` is the ticket as it is now."""

    def __init__(self, view: TicketView) -> None:
        super().__init__(view.sentence)
        self.view = view


class PlaceRetries(SpawnerMixin):  # type: ignore[misc]  # jupyterhub has no types
    """The mixin that tries other places if the cluster refuses one; it stands before `GPUShareMixin`."""

    async def _start_server(self) -> Address:
        """Start the server, at another place if the cluster refuses the first one; return its address.

        Raises the Hub's refusal if no place is found. A server without a GPU is started once.
        """
        share: HeldShare | None = self._share
        if share is None or share.pod is None:
            address: Address = await super()._start_server()
            return address
        try:
            with self._open_service(self._share_token) as service:
                return await self._start_with_retries(service, self.start_until)
        except StartRefused as error:
            raise self._make_refusal(error, share.gpus) from error

    async def _start_with_retries(self, service: ServiceClient, deadline: float) -> Address:
        """Start the server, at up to `gpu_place_retries` further places if the first one is lost; return its address.

        Raises `StartRefused` if all places are lost, or if further attempts last beyond `deadline`.
        """
        until: float | None = None  # the Hub's own timeout limits the first attempt
        for left in range(self.gpu_place_retries, -1, -1):
            try:
                return await self._try_start(service, until)
            except PlaceLost as lost:
                self._show_lost(lost.view)
                await self.remove_pod_or_refuse(deadline, told=lost.view.sentence)
                if not left:
                    raise StartRefused(
                        _describe_no_place(lost.view, self.gpu_place_retries + 1), "gpu_no_place", 503
                    ) from lost
                await self._find_another_place(service, lost.view, deadline)
                until = deadline
        raise AssertionError("the last attempt returns or raises")

    async def _try_start(self, service: ServiceClient, until: float | None) -> Address:
        """Start the server at its present place and return its address.

        Raises `PlaceLost` if the ticket loses that place meanwhile. Raises `StartRefused` if the ticket ends, or at the
        time `until` (None = no limit).
        """
        starting: asyncio.Future[Address] = asyncio.ensure_future(super()._start_server())
        following = asyncio.create_task(_follow_ticket(service, self._share, self.gpu_queue_poll_interval))
        try:
            timeout = None if until is None else _seconds_left(until)
            ends: set[asyncio.Future[Address] | asyncio.Future[TicketView]] = {starting, following}
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                return starting.result()
            if following.done():
                raise PlaceLost(following.result())
            raise StartRefused(_NO_TIME, "gpu_no_place", 503)
        finally:
            starting.cancel()
            following.cancel()
            await asyncio.gather(starting, following, return_exceptions=True)

    async def _find_another_place(self, service: ServiceClient, view: TicketView, deadline: float) -> None:
        """Wait until the ticket has another place, and make the share there the share of this spawner.

        Raises `StartRefused` if there is none before `deadline`.
        """
        left = _seconds_left(deadline)
        admission = Admission(
            service=service,
            server_request=ServerRequest(
                server=self.name, request=ShareRequest(milli=parse_request(view.gpus)), as_pod=True
            ),
            board=self._board,
            limits=WaitLimits(poll_interval=self.gpu_queue_poll_interval, longest_wait=left, outage_timeout=left),
        )
        self._share = await admission.obtain_again(view)
        self._start_future = None  # KubeSpawner's progress would end with that of the last attempt
        self._show_starting()

    def _show_lost(self, view: TicketView) -> None:
        sentence = f"The cluster refused that place. {view.sentence}"
        self._board.show(SpawnStatus(step="waiting", gpus=view.gpus, sentence=sentence))


async def _follow_ticket(service: ServiceClient, share: HeldShare, poll_interval: float) -> TicketView:
    """Poll the ticket of `share` until the place of the share is lost; return the ticket as it is then.

    The place is lost if the ticket waits again or has another place. Raises `StartRefused` if the ticket ends or the
    service no longer knows it. Other errors of the service are ignored.
    """
    while True:
        await asyncio.sleep(poll_interval)
        try:
            view = await service.ticket(share.ticket)
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                sentence = "The GPU service does not know of this server any more. Start the server again."
                raise StartRefused(sentence, "gpu_no_service", 409) from error
            continue  # the service may be restarting; meanwhile the pod starts
        raise_if_stopped(view)
        if view.phase == "waiting" or (view.phase == "starting" and _has_moved(share.pod, view.pod)):
            return view


def _seconds_left(deadline: float) -> float:
    return max(0.0, deadline - monotonic())


def _has_moved(before: PodAdditions | None, now: PodAdditions | None) -> bool:
    """Tell whether two additions of a pod name different nodes or attempts at a node; False if either is None."""
    if before is None or now is None:
        return False
    return (before.node, before.labels.get(_ATTEMPT)) != (now.node, now.labels.get(_ATTEMPT))


def _describe_no_place(view: TicketView, attempts: int) -> str:
    times = f"{attempts} times" if attempts > 1 else "once"
    return (
        f"The cluster was asked {times} for a place with {view.gpus} GPU and refused. {view.sentence} "
        "Try again later, choose less, or start without a GPU."
    )
