"""Look at every backend, write down what has ended or begun, and end what should not be there."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.protocol import Backend, Observation, Phase
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.controller.records.last_evictions import remember_eviction
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

from .run_end import judge

log = logging.getLogger(__name__)

RunKey = tuple[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One look at all backends."""

    #: By workload and run, with the backend that shows it.
    runs: Mapping[RunKey, tuple[Backend, Observation]]
    #: Kinds whose backend could not be observed this time.
    unseen: frozenset[Kind]

    def of(self, workload: str, run: int) -> Observation | None:
        """That run, when it was seen."""
        found = self.runs.get((workload, run))
        return found[1] if found else None


class Observer:
    """Turns observations into changes of the records."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Backends whose failure has been logged, so that it is said once.
        self._failing: set[int] = set()
        #: Workloads without a record, and pods without a ticket, that have been reported.
        self._unknown: set[str] = set()

    async def look(self) -> Seen:
        """Ask every backend what it sees; one that fails leaves its kinds unseen."""
        runs: dict[RunKey, tuple[Backend, Observation]] = {}
        unseen: set[Kind] = set()
        for backend in self._context.backends:
            try:
                observations = await backend.observe()
            except (BackendError, OSError) as error:
                unseen |= backend.kinds
                if id(backend) not in self._failing:
                    self._failing.add(id(backend))
                    log.warning("a backend cannot be observed, its workloads are left as they are: %s", error)
                continue
            self._failing.discard(id(backend))
            runs.update({(seen.workload, seen.run): (backend, seen) for seen in observations})
        self._context.known_runs = set(runs)
        self._context.unseen = frozenset(unseen)
        return Seen(runs=runs, unseen=frozenset(unseen))

    async def record(self, seen: Seen) -> None:
        """Write down what it means, then let the backends forget what has ended and end what nobody knows."""
        now = self._context.clock.now()
        changes = [
            change
            for record in self._context.records.begun()
            if record.workload.kind not in seen.unseen
            for change in self._judged(record, seen, now)
        ]
        self._context.records.commit(changes)
        self._tell_owners(changes)
        self._remember_processes(seen)
        self._remember_troubles(seen)
        for (workload, run), (backend, observation) in seen.runs.items():
            record = self._context.records.alive(workload)
            if record is None or not record.workload.holds or record.workload.run != run:
                await self._tidy(backend, workload, run, observation)
        strays = [
            stray
            for backend in self._context.backends
            if not backend.kinds & seen.unseen
            for stray in backend.capabilities.strays()
        ]
        self._report_strays(strays)
        if not seen.unseen:
            self._unknown &= {workload for workload, _ in seen.runs} | {stray.pod for stray in strays}

    def _judged(self, record: Record, seen: Seen, now: Instant) -> list[Change]:
        workload = record.workload
        forgetful = self._context.backend_of(workload.kind).capabilities.forgetful
        return judge(record, seen.of(workload.id, workload.run), now, forgetful=forgetful)

    def _tell_owners(self, changes: Sequence[Change]) -> None:
        """Whose notebook ended without his doing reads why when he chooses the next one."""
        for change in changes:
            eviction = change.eviction
            record = self._context.records.get(change.workload) if eviction is not None else None
            if eviction is not None and record is not None and record.workload.kind is Kind.NOTEBOOK:
                remember_eviction(self._context.store, record.workload.owner, eviction)

    def _remember_processes(self, seen: Seen) -> None:
        self._context.pids = {
            record.workload.id: observation.pids
            for record in self._context.records.notebooks()
            if (observation := seen.of(record.workload.id, record.workload.run)) is not None
        }

    def _remember_troubles(self, seen: Seen) -> None:
        """Of runs that are not seen at present it stays as it was said last."""
        kept = {
            name: told
            for name, told in self._context.troubles.items()
            if (record := self._context.records.alive(name)) is not None and record.workload.kind in seen.unseen
        }
        told = {
            name: observation.sentence
            for (name, run), (_, observation) in seen.runs.items()
            if observation.phase is Phase.RUNNING and observation.sentence and self._is_present(name, run)
        }
        for name in told.keys() - self._context.troubles.keys():
            log.warning("%s: %s", name, told[name])
        self._context.troubles = kept | told

    def _is_present(self, workload: str, run: int) -> bool:
        record = self._context.records.alive(workload)
        return record is not None and record.workload.run == run

    async def _tidy(self, backend: Backend, workload: str, run: int, observation: Observation) -> None:
        """An ended run whose end is written down is forgotten; a run that should not be alive is ended."""
        if backend.capabilities.keeps_unknown and self._context.records.get(workload) is None:
            self._report_unknown(workload)
            return
        try:
            if observation.phase is Phase.ENDED:
                await backend.forget(workload, run)
            else:
                log.warning("run %d of %s is alive and should not be: it is ended", run, workload)
                await backend.stop(workload, run, Seconds(0))
        except (BackendError, OSError) as error:
            log.warning("run %d of %s could not be tidied away, it is tried again: %s", run, workload, error)

    def _report_unknown(self, workload: str) -> None:
        """The database may be a restored backup: nothing is ended that it may have known."""
        if workload not in self._unknown:
            self._unknown.add(workload)
            log.warning("%s runs and is in no record; it is left alone. End it by hand if nobody needs it", workload)

    def _report_strays(self, strays: Sequence[Stray]) -> None:
        """A server is ended by the Hub, never here; but who keeps devices from others is named, once."""
        for stray in strays:
            if stray.pod not in self._unknown:
                self._unknown.add(stray.pod)
                known = self._context.records.get(stray.workload) is not None
                log.warning(
                    "the notebook's pod %s on %s %s and keeps %d devices from others; it is left alone. "
                    "Stop its server in the Hub, or delete the pod, if nobody needs it",
                    stray.pod,
                    stray.node or "no node",
                    "has no ticket any more" if known else "is in no record",
                    stray.devices,
                )
