"""The observation of all backends: starts and ends are recorded, and runs that should not exist are ended."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.protocol import Backend, Observation, Phase
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.controller.records.last_evictions import remember_eviction
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

from .run_end import interpret

log = logging.getLogger(__name__)

#: Id of a workload and number of its run.
RunKey = tuple[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedRuns:
    """The observations of all backends in one step."""

    #: Each run with the backend that shows it.
    runs: Mapping[RunKey, tuple[Backend, Observation]]
    #: Kinds of workload whose backend could not be observed this time.
    unobserved: frozenset[Kind]

    def find(self, workload: str, run: int) -> Observation | None:
        """Return the observation of a run; None if no backend shows it."""
        found = self.runs.get((workload, run))
        return found[1] if found else None


def describe_unknown_run(run: Observation) -> str:
    """Return a sentence about a live run without a record, with its owner and processes if the backend knows them."""
    owner = f" of {run.owner}" if run.owner else ""
    pids = f" (processes {', '.join(map(str, run.pids))})" if run.pids else ""
    return f"{run.workload}{owner} runs and is in no record; it is left alone, with its devices{pids}"


def _plain(seen: Observation) -> Observation:
    """Return the observation with a plain sentence: the user's code may have written the words."""
    sentence = strip_controls(seen.sentence)
    return seen if sentence == seen.sentence else replace(seen, sentence=sentence)


class Observer:
    """The observer of all backends, which records what their observations mean."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Backends whose failure has been logged, by identity: a failure is logged once.
        self._failing: set[int] = set()
        #: Workloads without a record, and pods without a ticket, that have been logged.
        self._unknown: set[str] = set()

    async def observe(self) -> ObservedRuns:
        """Return the runs that all backends show now, and the kinds of workload whose backend failed.

        The context gets the same. The first failure of a backend in a row is logged.
        """
        runs: dict[RunKey, tuple[Backend, Observation]] = {}
        unobserved: set[Kind] = set()
        for backend in self._context.backends:
            try:
                observations = await backend.observe()
            except (BackendError, OSError) as error:
                unobserved |= backend.kinds
                if id(backend) not in self._failing:
                    self._failing.add(id(backend))
                    log.warning("a backend cannot be observed, its workloads are left as they are: %s", error)
                continue
            self._failing.discard(id(backend))
            runs.update({(seen.workload, seen.run): (backend, _plain(seen)) for seen in observations})
        self._context.known_runs = set(runs)
        self._context.unobserved = frozenset(unobserved)
        return ObservedRuns(runs=runs, unobserved=frozenset(unobserved))

    async def record(self, observed: ObservedRuns) -> None:
        """Record starts and ends of runs, with the processes and troubles of running ones.

        Then end runs that should not exist, let backends forget recorded ends, and log live work without a record or
        ticket.
        """
        now = self._context.clock.now()
        changes = [
            change
            for record in self._context.records.holding()
            if record.workload.kind not in observed.unobserved
            for change in self._changes_alone(record, observed, now)
        ]
        self._context.records.commit_each(changes)
        self._tell_owners(changes)
        self._remember_processes(observed)
        self._remember_troubles(observed)
        await self._clean_up_all(observed)
        strays = [
            stray
            for backend in self._context.backends
            if not backend.kinds & observed.unobserved
            for stray in backend.capabilities.strays()
        ]
        self._report_strays(strays)
        if not observed.unobserved:
            self._unknown &= {workload for workload, _ in observed.runs} | {stray.pod for stray in strays}

    def _changes_alone(self, record: Record, observed: ObservedRuns, now: Instant) -> list[Change]:
        """Return the changes of one record; if they cannot be computed, set the workload aside and return none."""
        set_aside = self._context.set_aside
        return set_aside.attempt(record.workload.id, "observing", lambda: self._changes(record, observed, now)) or []

    def _changes(self, record: Record, observed: ObservedRuns, now: Instant) -> list[Change]:
        """Return the changes of one record that follow from the observation of its present run."""
        workload = record.workload
        forgetful = self._context.backend_of(workload.kind).capabilities.forgetful
        return interpret(record, observed.find(workload.id, workload.run), now, forgetful=forgetful)

    def _tell_owners(self, changes: Sequence[Change]) -> None:
        """Store the evictions and failures of notebooks in these changes, for the options page of their owners."""
        for change in changes:
            eviction = change.eviction
            record = self._context.records.get(change.workload) if eviction is not None else None
            if eviction is not None and record is not None and record.workload.kind is Kind.NOTEBOOK:
                remember_eviction(self._context.store, record.workload.owner, eviction)

    def _remember_processes(self, observed: ObservedRuns) -> None:
        """Replace the process ids in the context by those of the present run of each notebook."""
        self._context.pids = {
            record.workload.id: observation.pids
            for record in self._context.records.notebooks()
            if (observation := observed.find(record.workload.id, record.workload.run)) is not None
        }

    def _remember_troubles(self, observed: ObservedRuns) -> None:
        """Replace the troubles in the context by what is wrong with each running run; log new ones.

        A run that cannot be observed keeps its last sentence.
        """
        kept = {
            name: told
            for name, told in self._context.troubles.items()
            if (record := self._context.records.find_unfinished(name)) is not None
            and record.workload.kind in observed.unobserved
        }
        told = {
            name: observation.sentence
            for (name, run), (_, observation) in observed.runs.items()
            if observation.phase is Phase.RUNNING and observation.sentence and self._is_present(name, run)
        }
        for name in told.keys() - self._context.troubles.keys():
            log.warning("%s: %s", name, told[name], extra={"workload": name})
        self._context.troubles = kept | told

    def _is_present(self, workload: str, run: int) -> bool:
        """Return whether that run is the present one of an unfinished workload."""
        record = self._context.records.find_unfinished(workload)
        return record is not None and record.workload.run == run

    async def _clean_up_all(self, observed: ObservedRuns) -> None:
        """Clean up each observed run that no record holds, except runs of unknown workloads that their backend keeps.

        Such unknown runs are logged, and become the `unknown_runs` of the context.
        """
        # A run that cannot be observed is remembered as it was.
        unknown = {run.workload: run for run in self._context.unknown_runs if observed.unobserved}
        for (workload, run), (backend, observation) in observed.runs.items():
            record = self._context.records.find_unfinished(workload)
            if record is not None and record.workload.holds and record.workload.run == run:
                continue
            if self._is_unknown(backend, observation):
                unknown[workload] = observation
                self._report_unknown(observation)
            else:
                await self._clean_up(backend, workload, run, observation)
        self._context.unknown_runs = tuple(unknown.values())

    async def _clean_up(self, backend: Backend, workload: str, run: int, observation: Observation) -> None:
        """Let the backend forget a run that has ended, or kill a live run without grace; failures are logged."""
        ids = {"workload": workload, "run": run}
        try:
            if observation.phase is Phase.ENDED:
                await backend.forget(workload, run)
            else:
                log.warning("run %d of %s is alive and should not be: it is ended", run, workload, extra=ids)
                await backend.stop(workload, run, Seconds(0))
        except (BackendError, OSError) as error:
            log.warning("run %d of %s could not be removed, it is tried again: %s", run, workload, error, extra=ids)

    def _is_unknown(self, backend: Backend, observation: Observation) -> bool:
        """Return True for a live run that its backend keeps, of a workload that the store has never heard of."""
        return (
            backend.capabilities.keeps_unknown
            and observation.phase is not Phase.ENDED
            and self._context.records.get(observation.workload) is None
        )

    def _report_unknown(self, observation: Observation) -> None:
        """Log a run without a record, once for each workload.

        The run goes on: the database may be a restored backup that lost the record.
        """
        if observation.workload not in self._unknown:
            self._unknown.add(observation.workload)
            log.warning("%s. End it by hand if nobody needs it", describe_unknown_run(observation))

    def _report_strays(self, strays: Sequence[Stray]) -> None:
        """Log each pod of a notebook that has no ticket and keeps devices from other work, once for each pod.

        Only the Hub may end a server.
        """
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
