"""The repetition of work beside the steps of the loop, with a last guard."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress

from jupyter_gq.domain.errors import NotLeading, StorageFull, StoreUnavailable, Superseded

log = logging.getLogger(__name__)

#: Troubles of the whole service, of which the steps of the loop say more.
_OF_THE_SERVICE = (NotLeading, StorageFull, StoreUnavailable, Superseded)


async def run_every(
    seconds: float,
    what: str,
    work: Callable[[], Awaitable[object]],
    failures: MutableMapping[str, str],
    *,
    asked: asyncio.Event | None = None,
) -> None:
    """Do `work`, named `what`, again `seconds` seconds after its end, and once `asked` is set, until cancelled.

    A failure is logged once in a row and is in `failures` until the work succeeds. If the store is away or full, that
    is no failure of the work: it is logged only.
    """
    told = ""
    asked = asked or asyncio.Event()
    while True:
        asked.clear()
        try:
            await work()
        except _OF_THE_SERVICE as error:
            if repr(error) != told:
                log.info("%s waits until the store can be used; it is tried again", what)
            told = repr(error)
        except Exception as error:  # the last guard: the next attempt may go well
            if repr(error) != told:
                log.exception("%s failed and is tried again", what)
            failures[what] = told = repr(error)
        else:
            told = ""
            failures.pop(what, None)
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), seconds)
