"""The question whether this service may act at this moment.

Rules
-----
Acting: a service acts only while it leads, the store answers, and no other service has taken over in the store.

Reading again: if the store did not answer, it is unknown whether a write was kept. So before the service acts again, it
reads all live records again. Memory and store then agree, and nothing is launched or stopped because of old records.

Not at once: a database that is busy has time to answer. A SQLite file that another program has locked is waited for as
long as by any write (`store.engine.BUSY_MS`), and PostgreSQL for its silence timeout. Until then `ready` says what was
found last. Requests do no more than wait, and to take a service away because of a short lock costs more.

Ending: a service that was replaced ends, so whatever catches `Superseded` inside the loop raises it again. The same
holds for `StoreAway`: a service that has not reached the store for too long steps back if another service might reach
it.
"""

import asyncio
import logging
from collections.abc import Callable

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import NotLeading, StoreUnavailable, Superseded

from .store_outage import StoreOutage

log = logging.getLogger(__name__)


class Leadership:
    """The check of the loop before each step, and again before it acts, that this service leads."""

    def __init__(self, context: Context, leads: Callable[[], bool], outage: StoreOutage) -> None:
        """Start as unready. `leads` tells whether this service holds the lease, and `outage` measures store outages."""
        self._context, self._leads, self._outage = context, leads, outage
        #: Why requests should go to another service or be repeated later; "" = this service can answer them.
        self.unready = "The service has just started and has not looked around yet."

    async def confirm(self) -> None:
        """Check that the store answers and that this service leads, and set `unready` to what was found.

        After an outage, unfinished records are read again and all listeners get a `reset`. Raises `StoreUnavailable`,
        `StoreAway`, `Superseded` or `NotLeading` if the service may not act.
        """
        try:
            # Asked in a thread: a database that hangs must not keep requests waiting.
            await asyncio.to_thread(self._context.store.confirm)
            if self._context.records.reload_after_outage():
                self._context.last_seqs.clear()
                self._context.broker.announce(None, "reset", "", {})
                log.info("the database answers again; unfinished records were read again")
        except StoreUnavailable as error:
            self.unready = str(error)
            self._outage.record_failure(error)
            raise
        except Superseded as error:
            self.unready = str(error)
            raise
        self._outage.end()
        self.unready = ""
        self.require_lease()

    def require_lease(self) -> None:
        """Raise `NotLeading` if this service does not hold the lease, so that another service may lead."""
        if not self._leads():
            raise NotLeading
