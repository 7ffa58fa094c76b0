"""Requests to the Hub to stop a server, repeated until the Hub has taken one and the pod is being deleted."""

import asyncio
import logging
from collections.abc import Callable

from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import RunKey

from .run import Run

log = logging.getLogger(__name__)

#: Seconds until the Hub is asked again, if it has not taken the request or the pod is not being deleted.
_ASK_AGAIN = 10.0


class ServerStops:
    """The requests that were made, by run."""

    def __init__(self, stopper: ServerStopper, now: Callable[[], float]) -> None:
        self._stopper, self._now = stopper, now
        self._asking: dict[RunKey, asyncio.Task[None]] = {}
        #: When the Hub was last asked to stop the server, and whether it took the request.
        self._asked: dict[RunKey, tuple[float, bool]] = {}
        #: Runs whose server the Hub stops by itself.
        self._withdrawn: set[RunKey] = set()

    def ask(self, run: Run) -> None:
        """Ask the Hub in the background to stop the server of a run, if that is due.

        No request is sent while one is under way, for 10 seconds after one, and once the pod is being deleted. None is
        needed if the Hub has taken one before there was a pod, or after `withdraw`.
        """
        at, heard = self._asked.get(run.key, (float("-inf"), False))
        pod = run.pods.get(0)
        if run.key in self._asking or (pod is not None and pod.terminating):
            return
        if run.key in self._withdrawn or self._now() < at + _ASK_AGAIN or (heard and pod is None):
            return
        self._asking[run.key] = asyncio.get_running_loop().create_task(self._ask(run))

    def withdraw(self, key: RunKey) -> None:
        """Ask no more for this run until `renew` or `forget`: the Hub stops the server by itself.

        A request that is under way goes on.
        """
        self._withdrawn.add(key)

    def renew(self, key: RunKey) -> None:
        """Ask again for this run: the Hub has not stopped the server by itself."""
        self._withdrawn.discard(key)

    def has_accepted(self, key: RunKey) -> bool:
        """Return whether the Hub has taken the last request for this run."""
        return self._asked.get(key, (0.0, False))[1]

    def forget(self, key: RunKey) -> None:
        """Drop what is known of a run, and cancel a request that is under way."""
        self._asked.pop(key, None)
        self._withdrawn.discard(key)
        asking = self._asking.pop(key, None)
        if asking is not None:
            asking.cancel()

    async def close(self) -> None:
        """Cancel all requests that are under way."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _ask(self, run: Run) -> None:
        assert run.workload is not None
        heard = False
        try:
            await self._stopper.stop(run.workload.owner, run.workload.name)
            heard = True
        except BackendError as error:
            log.warning(
                "server could not be stopped yet: workload=%s: %s", run.id, error, extra=run.workload.log_fields
            )
        finally:
            if self._asking.pop(run.key, None) is not None:  # the run has not been forgotten meanwhile
                self._asked[run.key] = (self._now(), heard)
