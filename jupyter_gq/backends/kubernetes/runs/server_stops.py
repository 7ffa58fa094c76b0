"""A notebook ends through the Hub: it is asked, and asked again until it has heard and the pod is told to go."""

import asyncio
import logging
from collections.abc import Callable

from jupyter_gq.backends.kubernetes.pods.runs import Run, RunKey
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.domain.errors import BackendError

log = logging.getLogger(__name__)

#: Seconds until the Hub is asked again, if it did not hear or the pod stands.
_ASK_AGAIN = 10.0


class ServerStops:
    """What the Hub has been asked to stop."""

    def __init__(self, stopper: ServerStopper, now: Callable[[], float]) -> None:
        self._stopper, self._now = stopper, now
        self._asking: dict[RunKey, asyncio.Task[None]] = {}
        #: When the Hub was last asked to end it, and whether it heard.
        self._asked: dict[RunKey, tuple[float, bool]] = {}

    def ask(self, run: Run) -> None:
        """Ask the Hub to end it, unless that is under way, was done a moment ago, or is not needed any more."""
        at, heard = self._asked.get(run.key, (float("-inf"), False))
        pod = run.pods.get(0)
        if run.key in self._asking or (pod is not None and pod.terminating):
            return
        if run.released or self._now() < at + _ASK_AGAIN or (heard and pod is None):
            return
        self._asking[run.key] = asyncio.get_running_loop().create_task(self._ask(run))

    def heard(self, key: RunKey) -> bool:
        """The Hub has heard."""
        return self._asked.get(key, (0.0, False))[1]

    def forget(self, key: RunKey) -> None:
        """Its end is written down."""
        self._asked.pop(key, None)
        asking = self._asking.pop(key, None)
        if asking is not None:
            asking.cancel()

    async def close(self) -> None:
        """Give up what is under way."""
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
            log.warning("server could not be stopped yet: workload=%s: %s", run.id, error)
        finally:
            if self._asking.pop(run.key, None) is not None:  # it has not been forgotten meanwhile
                self._asked[run.key] = (self._now(), heard)
