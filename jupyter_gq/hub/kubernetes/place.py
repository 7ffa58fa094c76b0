"""A server's place in the cluster: the service chooses it, the cluster may refuse it, then there is another one.

The pod is made for the node that the service chose. Kubernetes may have no processors or memory left there, or take
the node away; the service sees that, puts the ticket back in its queue, and chooses again. This module follows the
ticket while the pod starts.
"""

import asyncio
from typing import Any

from jupyter_gq.client.http import ServiceClient, ServiceError
from jupyter_gq.client.models import TicketView
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import parse_request
from jupyter_gq.domain.errors import MachineError
from jupyter_gq.hub.admission.admission import Admission, AdmissionRefused, Patience, Share, Wish, refuse_when_over
from jupyter_gq.hub.admission.request import ShareRequest
from jupyter_gq.hub.admission.status import SpawnStatus
from jupyter_gq.hub.base import OverSpawner

from .pod_parts import PREFIX

_NO_TIME = (
    "The first place that was chosen was not to be had, and the next one took too long. Try again, choose less, or "
    "start without a GPU."
)
_NOT_FOUND = 404
_ATTEMPT = f"{PREFIX}attempt"


class PlaceLost(MachineError):
    """The place that a server was starting at is not to be had; `view` is the ticket as it is now."""

    def __init__(self, view: TicketView) -> None:
        super().__init__(view.sentence)
        self.view = view


class OtherPlaces(OverSpawner):  # type: ignore[misc]  # jupyterhub has no types
    """Goes before `GPUShareMixin`, over KubeSpawner: tries other places when one is refused."""

    async def _start_server(self) -> Any:
        share: Share | None = self._share
        if share is None or share.pod is None:
            return await super()._start_server()
        try:
            with self._service(self._share_token) as service:
                return await self._start_somewhere(service, self.start_until)
        except AdmissionRefused as error:
            raise self._refusal(error, share.gpus) from error

    async def _start_somewhere(self, service: ServiceClient, deadline: float) -> Any:
        until: float | None = None  # the first attempt has all the time that the Hub gives
        for left in range(self.gpu_place_retries, -1, -1):
            try:
                return await self._start_here(service, until)
            except PlaceLost as lost:
                self._show_lost(lost.view)
                await self.leave_pod(deadline, told=lost.view.sentence)
                if not left:
                    raise AdmissionRefused(
                        _no_place(lost.view, self.gpu_place_retries + 1), "gpu_no_place", 503
                    ) from lost
                await self._find_another(service, lost.view, deadline)
                until = deadline
        raise AssertionError("the last attempt returns or raises")

    async def _start_here(self, service: ServiceClient, until: float | None) -> Any:
        """The server's address. Raises `PlaceLost`, or `AdmissionRefused` at the end of the time."""
        starting = asyncio.ensure_future(super()._start_server())
        following = asyncio.create_task(_until_lost(service, self._share, self.gpu_queue_poll_interval))
        try:
            patience = None if until is None else _left(until)
            await asyncio.wait({starting, following}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                return starting.result()
            if following.done():
                raise PlaceLost(following.result())
            raise AdmissionRefused(_NO_TIME, "gpu_no_place", 503)
        finally:
            starting.cancel()
            following.cancel()
            await asyncio.gather(starting, following, return_exceptions=True)

    async def _find_another(self, service: ServiceClient, view: TicketView, deadline: float) -> None:
        left = _left(deadline)
        admission = Admission(
            service=service,
            wish=Wish(server=self.name, request=ShareRequest(milli=parse_request(view.gpus)), as_pod=True),
            board=self._board,
            patience=Patience(period=self.gpu_queue_poll_interval, longest_wait=left, outage=left),
        )
        self._share = await admission.obtain_again(view)
        self._start_future = None  # of the attempt that ended; KubeSpawner's progress would end with it
        self._show_starting()

    def _show_lost(self, view: TicketView) -> None:
        sentence = f"That place was not to be had. {view.sentence}"
        self._board.show(SpawnStatus(step="waiting", gpus=view.gpus, sentence=sentence))


async def _until_lost(service: ServiceClient, share: Share, period: float) -> TicketView:
    """Follow the ticket until its place changes or is lost, and return the ticket then.

    Raises `AdmissionRefused` when the ticket has ended.
    """
    while True:
        await asyncio.sleep(period)
        try:
            view = await service.ticket(share.ticket)
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                sentence = "The GPU service does not know of this server any more. Start it again."
                raise AdmissionRefused(sentence, "gpu_no_service", 409) from error
            continue  # it may be restarting; meanwhile the pod starts
        refuse_when_over(view)
        if view.phase == "waiting" or (view.phase == "starting" and _moved(share.pod, view.pod)):
            return view


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _moved(before: PodAdditions | None, now: PodAdditions | None) -> bool:
    if before is None or now is None:
        return False
    return (before.node, before.labels.get(_ATTEMPT)) != (now.node, now.labels.get(_ATTEMPT))


def _no_place(view: TicketView, attempts: int) -> str:
    times = f"{attempts} times" if attempts > 1 else "once"
    return (
        f"The cluster was asked {times} for a place with {view.gpus} GPU, and refused. {view.sentence} "
        "Try again later, choose less, or start without a GPU."
    )
