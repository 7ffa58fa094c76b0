"""The Lease: several services share one, and the service that renews it leads.

Rules
-----
1. Compare and swap. The Lease changes only by compare-and-swap on its version: of two writes at once, one is refused.
2. Own clock. Clocks of two machines are never compared. A candidate counts from when *it* last saw the record change;
   after a longer time than the Lease lasts, the candidate may take it.
3. Early stop. A leader counts from the moment *before* it sent the renewal that succeeded, and leads for a shorter time
   than a candidate waits. So the leader has stopped when another may begin, whatever the clocks say and however long an
   answer takes.
4. Failure. A leader that cannot renew stops acting, and continues if the Lease is still its own. If another service
   holds it, this one ends. Two services never *write*, even if a clock stood still: the epoch in the store prevents
   that. See docs/decisions/0030-choose-the-acting-service-by-lease-and-epoch.md.
5. Orderly end. The Lease is given back, so that the next service need not wait.
6. Fitness. A service that does not reach what a leader needs only watches: the Lease is for services that do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from jupyter_gq.domain.errors import BackendError, MachineError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .election import Election, Move, Times, parse_lease

log = logging.getLogger(__name__)


class LeasePort(Protocol):
    """The part of the cluster that an election needs. Each method raises `BackendError` if it failed, or may have."""

    async def read_lease(self, namespace: str, name: str) -> JsonObject | None:
        """Return the Lease; None if there is none."""
        ...

    async def create_lease(self, body: JsonObject) -> JsonObject:
        """Create the Lease and return it; raise `Exists` if there is one."""
        ...

    async def replace_lease(self, body: JsonObject) -> JsonObject:
        """Replace the Lease and return it; refused if it is not at the version that the body names."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class LeaseLost(MachineError):
    """Another service leads now; this one must end."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"The service {holder} leads now, so this one ends.")
        self.holder = holder


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The name of the Lease, and the identity of the candidate."""

    namespace: str
    name: str
    #: Identity of this process; new after each start.
    identity: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Lease:
    """The Lease of this service: taken, renewed, and given back."""

    def __init__(
        self,
        port: LeasePort,
        seat: Seat,
        *,
        elapsed: Callable[[], float],
        now: Callable[[], float],
        times: Times | None = None,
    ) -> None:
        """Create a candidate that does not lead yet.

        `elapsed` is a clock that nobody sets, for all decisions; `now` is the time of day, for people who look.
        """
        self._port, self._seat, self._elapsed, self._now = port, seat, elapsed, now
        self._times = times or Times()
        self._election = Election(identity=seat.identity, times=self._times)
        #: Why this service should not lead, by the last check; "" = it may.
        self._unfit = ""
        #: The Lease as last read or written; None if it has to be read again.
        self._body: JsonObject | None = None
        #: Why the last try failed; "" if it did not.
        self.failure = ""

    @property
    def times(self) -> Times:
        """The times of this election."""
        return self._times

    @property
    def leads(self) -> bool:
        """True if this service may act now: it holds the Lease and has renewed it in time."""
        return self._election.leads(self._elapsed())

    @property
    def holder(self) -> str:
        """The identity of the Lease's holder when last seen; "" = nobody."""
        return self._election.holder()

    @property
    def waiting(self) -> str:
        """The reason why this service does not lead yet, for people who look."""
        return (
            self.failure
            or self._unfit
            or (f"{self.holder} leads; " if self.holder else "") + "this service waits for its place."
        )

    async def acquire(self, why_unfit: Callable[[], Awaitable[str]]) -> None:
        """Try for the Lease every `retry` seconds; return when this service leads.

        If the Lease is free, `why_unfit` says why this service should not take it; "" = it may. Each new reason to wait
        is logged.
        """
        told = ""
        while not await self._try_if_fit(why_unfit):
            if self.waiting != told:
                told = self.waiting
                log.info("%s", told)
            await asyncio.sleep(self._times.retry)
        log.info("this service leads: it holds the lease %s/%s", self._seat.namespace, self._seat.name)

    async def keep(self) -> None:
        """Renew the Lease every `retry` seconds until cancelled; log when renewals begin to fail or succeed again.

        Raises `LeaseLost` if another service has the Lease.
        """
        led = True
        while True:
            await asyncio.sleep(self._times.retry)
            await self._try()
            if self.holder not in ("", self._seat.identity):
                raise LeaseLost(self.holder)
            if led != self.leads:
                led = self.leads
                log.warning("the lease is renewed again" if led else f"the lease is not renewed: {self.failure}")

    async def release(self) -> None:
        """Give the Lease back if this service holds it; wait `renewed_within` seconds at most.

        A failure is logged and harmless, since the Lease expires.
        """
        try:
            # On a busy cluster the answers take longer than a `retry`; the next service would wait much longer.
            async with asyncio.timeout(self._times.renewed_within):
                try:
                    await self._give_back()
                except BackendError:
                    # A renewal that was sent before may have changed the Lease between the read and the write.
                    await self._give_back()
        except BackendError as error:
            log.warning("the lease could not be given back: %s", error)
        except TimeoutError:
            log.warning("the lease could not be given back: the cluster did not answer in time")

    async def _give_back(self) -> None:
        body = await self._port.read_lease(self._seat.namespace, self._seat.name)
        if body is not None and parse_lease(body).holder == self._seat.identity:
            await self._write(body, Move.WAIT)
            log.info("the lease is given back")

    def close(self) -> None:
        """Close the connections."""
        self._port.close()

    async def _try_if_fit(self, why_unfit: Callable[[], Awaitable[str]]) -> bool:
        """Read the Lease, and try to take it if it is free and this service is fit; return True if this one leads."""
        move = await self._try(only_look=True)
        # Checked only then, so that waiting services do not burden what the leader works with.
        self._unfit = "" if move is Move.WAIT else await why_unfit()
        if move is Move.WAIT or self._unfit:
            return False
        await self._try()
        return self.leads

    async def _try(self, *, only_look: bool = False) -> Move:
        """Read the Lease, do the step that the election chooses, and return that step.

        With `only_look`, nothing is written. A failed step leaves its reason in `failure`; then the result is WAIT.
        """
        move, failure = Move.WAIT, ""
        try:
            # A request that takes longer than a renewal may has failed: its answer would come too late.
            async with asyncio.timeout(self._times.renewed_within / 2):
                move = await self._step(only_look=only_look)
        except BackendError as error:
            failure, self._body = str(error), None
        except TimeoutError:
            failure, self._body = "The cluster did not answer in time about the lease.", None
        # Only now: while a step is on its way, the failure of the last one is still the reason to wait.
        self.failure = failure
        return move

    async def _step(self, *, only_look: bool) -> Move:
        body = self._body or await self._port.read_lease(self._seat.namespace, self._seat.name)
        move = self._election.next_move(None if body is None else parse_lease(body), self._elapsed())
        if move is Move.WAIT or only_look:
            self._body = None
        else:
            await self._write(body or self._new(), move)
        return move

    async def _write(self, body: JsonObject, move: Move) -> None:
        wanted = {**body, "spec": self._spec(body.get("spec") or {}, move)}
        send: Callable[[JsonObject], Awaitable[JsonObject]] = (
            self._port.create_lease if move is Move.CREATE else self._port.replace_lease
        )
        began = self._elapsed()
        self._body = None
        written = await send(wanted)
        self._election.record_write(parse_lease(written), began, self._elapsed())
        self._body = written

    def _new(self) -> JsonObject:
        meta = {"name": self._seat.name, "namespace": self._seat.namespace, "labels": dict(self._seat.labels)}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}

    def _spec(self, before: JsonMapping, move: Move) -> JsonObject:
        now = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {**before, "renewTime": now, "leaseDurationSeconds": max(1, round(self._times.duration))}
        if move is Move.WAIT:
            return {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
        if move is not Move.RENEW:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0) + (move is Move.TAKE)
        return {**spec, "holderIdentity": self._seat.identity}
