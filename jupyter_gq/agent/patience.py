"""Looks that end in time, also when the driver hangs: a GPU that falls off the bus can block a call for ever."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from jupyter_gq.client.agents import AgentReport, AgentShare, WatchedPod
from jupyter_gq.devices.probe import ProbeState

log = logging.getLogger(__name__)


class Looks(Protocol):
    """The part of `Node` that is used here."""

    def look(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Report all that can be seen now."""
        ...


class PatientLook:
    """Looks in a thread beside the loop. While one look hangs no other is begun, and what is reported is unknown."""

    def __init__(self, node: Looks, patience: float) -> None:
        """`patience` is in seconds."""
        self._node, self._patience = node, patience
        self._hanging: asyncio.Future[AgentReport] | None = None

    async def look(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Return a report within the timeout; raise the error of `Node.look`, which is a defect."""
        pending = self._hanging or self._begin(list(watch))
        done, _ = await asyncio.wait([pending], timeout=self._patience)
        if not done:
            if self._hanging is None:
                log.error("the driver or the kubelet has not answered for %g s; it is waited for", self._patience)
            self._hanging = pending
            return self._unknown(watch)
        if self._hanging is not None:
            log.info("the driver or the kubelet answers again")
            self._hanging = None
            pending.exception()  # a defect would show again
            return await self.look(watch)  # what the late look saw is too old
        return pending.result()

    def _begin(self, watch: Sequence[WatchedPod]) -> "asyncio.Future[AgentReport]":
        loop = asyncio.get_running_loop()
        result: asyncio.Future[AgentReport] = loop.create_future()

        def run() -> None:
            try:
                report = self._node.look(watch)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the look is awaited
                _tell(loop, result, error)
            else:
                _tell(loop, result, report)

        # A daemon: a thread that hangs in the driver must not keep the agent from ending.
        threading.Thread(target=run, name="look", daemon=True).start()
        return result

    def _unknown(self, watch: Sequence[WatchedPod]) -> AgentReport:
        sentence = f"The driver or the kubelet of this node has not answered for {self._patience:g} seconds."
        return AgentReport(
            probe=ProbeState.BROKEN.value,
            detail=sentence,
            shares=[AgentShare(pod_uid=pod.pod_uid) for pod in watch],
            missing={"kubelet": sentence, "suspend": sentence},
        )


def _tell(
    loop: asyncio.AbstractEventLoop, result: "asyncio.Future[AgentReport]", outcome: AgentReport | Exception
) -> None:
    def tell() -> None:
        if result.cancelled():
            return
        if isinstance(outcome, Exception):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # the agent has ended meanwhile
        log.debug("a look ended after the agent")
