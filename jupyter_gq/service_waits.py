"""The waits of the service before it has a controller: for its lead, and for its database.

Meanwhile the API answers as `Standby`, with the reason.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from jupyter_gq import __version__
from jupyter_gq.api.listener import Listener
from jupyter_gq.api.standby import Standby
from jupyter_gq.backends.kubernetes.leader.lease import Lease
from jupyter_gq.controller.controller import is_only_replica
from jupyter_gq.controller.loop.store_outage import StoreOutage
from jupyter_gq.domain.errors import StoreUnavailable
from jupyter_gq.store.reachability import check_reachable

log = logging.getLogger(__name__)

#: Seconds until a database that did not answer at the start is tried again.
_TRY_AGAIN = 2.0

T = TypeVar("T")


class Ended(Exception):
    """A signal to end came while the service waited for its lead or its database."""


@contextlib.asynccontextmanager
async def lead(listener: Listener, lease: Lease | None, database_url: str) -> AsyncIterator[Callable[[], bool]]:
    """Wait until this service is the leader; then yield a function without arguments that returns whether it still is.

    `listener` serves the API meanwhile: each request is answered with the reason for the wait. `lease` is the lease to
    get; with None there is only one service, which leads at once and always. `database_url` is the SQLAlchemy URL of
    the database. A service that does not reach its database never becomes the leader, so that another one can.

    The lease is renewed while the block runs, and released after it, also after an error. The function returns False
    once the lease could not be renewed in time. The task in `listener.keeping` raises `LeaseLost` once another service
    has the lease. Raises `Ended` if a signal comes before the service leads, and `AdminError` for a URL that
    cannot be used.
    """
    if lease is None:
        yield is_only_replica
        return

    async def why_unfit() -> str:
        """Return why this service must not become the leader now; "" = it may, because it reaches the database."""
        try:
            await asyncio.to_thread(check_reachable, database_url)
        except StoreUnavailable as error:
            return str(error)
        return ""

    async with listener.serve(Standby(__version__, lambda: lease.waiting)):
        await listener.run_until_ended(lease.acquire(why_unfit))
    try:
        if listener.ended.is_set():
            raise Ended
        listener.keeping = asyncio.create_task(lease.keep(), name="jupyter-gq lease")
        yield lambda: lease.leads
    finally:
        if listener.keeping is not None:
            listener.keeping.cancel()
            await asyncio.gather(listener.keeping, return_exceptions=True)
            listener.keeping = None
        await lease.release()


async def wait_for_store(listener: Listener, outage: StoreOutage, act: Callable[[], T]) -> T:
    """Call `act` on a thread until it raises no `StoreUnavailable`, and return what it returns.

    Meanwhile the API answers with the reason, and each new reason is logged. Raises `Ended` if a signal comes first: a
    call that has begun then goes on. Raises `StoreAway` if the outage lasts too long, and any other error of `act` at
    once. The process stays: a pod that ends is restarted after a longer and longer time.
    """
    found: list[T] = []
    why = "The service opens its database."

    async def reach() -> None:
        """Try `act` until it succeeds; raise `StoreAway` if the outage lasts too long."""
        nonlocal why
        while not found:
            try:
                # In a thread, for the lease is renewed meanwhile.
                found.append(await asyncio.to_thread(act))
            except StoreUnavailable as error:
                if str(error) != why:
                    why = str(error)
                    log.warning("%s", why)
                outage.record_failure(error)
                await asyncio.sleep(_TRY_AGAIN)

    async with listener.serve(Standby(__version__, lambda: why)):
        await listener.run_until_ended(reach())
    if not found:
        raise Ended
    outage.end()
    return found[0]
