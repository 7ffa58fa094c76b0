"""The observation of a node with a timeout: a GPU that falls off the bus can block a call of the driver for ever."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from jupyter_gq.client.agents import AgentReport, AgentShare, WatchedPod
from jupyter_gq.devices.probe import ProbeState

log = logging.getLogger(__name__)


class ObservableNode(Protocol):
    """The part of `LocalNode` that the observer uses."""

    def observe(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Return the present state of the node and the use of these pods; may block."""
        ...


class NodeObserver:
    """An observer of a node, in a thread beside the event loop, with a timeout.

    While one observation hangs, no other is started, and the report says that the state of the node is unknown.
    """

    def __init__(self, node: ObservableNode, timeout: float) -> None:
        """Create an observer of `node`, with a timeout in seconds for each observation."""
        self._node, self._timeout = node, timeout
        #: The observation that exceeded the timeout and has not ended yet.
        self._hanging: asyncio.Future[AgentReport] | None = None

    async def observe(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Return a report on these pods; after the timeout, a report which says that all is unknown.

        An observation that exceeded the timeout is awaited by the next calls. Once it ends, its report is dropped and
        the node is observed anew. An error of `LocalNode.observe`, which is a defect, is raised.
        """
        pending = self._hanging or self._start(list(watch))
        done, _ = await asyncio.wait([pending], timeout=self._timeout)
        if not done:
            if self._hanging is None:
                log.error("the driver or the kubelet has not answered for %g s; the agent waits", self._timeout)
            self._hanging = pending
            return self._unknown_report(watch)
        if self._hanging is not None:
            log.info("the driver or the kubelet answers again")
            self._hanging = None
            pending.exception()  # marks the error as handled; a defect would raise it again below
            return await self.observe(watch)  # the report of the late observation is too old
        return pending.result()

    def _start(self, watch: Sequence[WatchedPod]) -> "asyncio.Future[AgentReport]":
        """Observe the node in a new thread; return the future of its report."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[AgentReport] = loop.create_future()

        def run() -> None:
            try:
                report = self._node.observe(watch)
            except Exception as error:  # noqa: BLE001 - any error is raised again in `observe`, which awaits the future
                _set_outcome(loop, future, error)
            else:
                _set_outcome(loop, future, report)

        # A daemon thread: if it hangs in the driver, it must not keep the agent from ending.
        threading.Thread(target=run, name="observe node", daemon=True).start()
        return future

    def _unknown_report(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Return the report of a node that has not answered: the driver is BROKEN and all use is unknown."""
        sentence = f"The driver or the kubelet of this node has not answered for {self._timeout:g} seconds."
        return AgentReport(
            probe=ProbeState.BROKEN.value,
            detail=sentence,
            shares=[AgentShare(pod_uid=pod.pod_uid) for pod in watch],
            missing={"kubelet": sentence, "suspend": sentence, "signal": sentence},
        )


def _set_outcome(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[AgentReport]", outcome: AgentReport | Exception
) -> None:
    """Set the result or the exception of a future from another thread.

    Nothing happens if the future was cancelled, as after a timeout, or if its loop has ended.
    """

    def set_in_loop() -> None:
        if future.cancelled():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    try:
        loop.call_soon_threadsafe(set_in_loop)
    except RuntimeError:  # the agent has ended meanwhile
        log.debug("an observation ended after the agent")
