"""Whether this service may act at this moment.

Rules
-----
1. It acts only while it leads, the store answers, and nobody has taken over there.
2. Whether a write was kept is not known when the store did not answer: before it acts again, everything that is alive
   is read anew. So memory and store agree, and nothing is launched or stopped from what was.
3. Who has been replaced ends: `Superseded` is for nobody to catch but the loop's own caller. So does, for a while, who
   has not reached the store for too long where another service might: `StoreAway`.
"""

import asyncio
import logging
from collections.abc import Callable

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import NotLeading, StoreUnavailable, Superseded

from .store_outage import Absence

log = logging.getLogger(__name__)


class Duty:
    """Asked by the loop before each step, and once more before it acts."""

    def __init__(self, context: Context, leads: Callable[[], bool], absence: Absence) -> None:
        self._context, self._leads, self._absence = context, leads, absence
        #: Why requests should go to another service, or come later; "" = this one can answer them.
        self.unready = "The service has just started and has not looked around yet."

    async def begin(self) -> None:
        """Return when the store answers and nobody has taken over; raise, and wait for it elsewhere, when not."""
        try:
            # In a thread: a database that hangs must not keep requests waiting.
            await asyncio.to_thread(self._context.store.confirm)
            if self._context.records.settle():
                self._context.seqs.clear()
                self._context.broker.mention(None, "reset", "", {})
                log.info("the database answers again; what is alive was read anew")
        except StoreUnavailable as error:
            self.unready = str(error)
            self._absence.bear(error)
            raise
        except Superseded as error:
            self.unready = str(error)
            raise
        self._absence.is_over()
        self.unready = ""
        self.check()

    def check(self) -> None:
        """Raise `NotLeading` when another may lead by now."""
        if not self._leads():
            raise NotLeading
