"""The observation of all backends: starts and ends of runs are recorded."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.protocol import Backend, Observation, Outcome, Phase
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.controller.suspended_runs import waits_suspended
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.domain.workload import Kind, RunKey
from jupyter_gq.store.protocol import Record

from .runs.adoption import correct_place
from .runs.left_outputs import LeftOutputReader
from .runs.observed_runs import ObservedRuns
from .runs.other_runs import OtherRuns
from .runs.resizing import correct_size
from .runs.run_end import interpret
from .shares import describe_unusable_gpu, interpret_share
from .suspended_jobs import interpret_job_share

log = logging.getLogger(__name__)


def _plain(seen: Observation) -> Observation:
    """Return the observation with a plain sentence: the user's code may have written the words."""
    sentence = strip_controls(seen.sentence)
    return seen if sentence == seen.sentence else replace(seen, sentence=sentence)


class Observer:
    """The observer of all backends, which records what their observations mean."""

    def __init__(self, context: Context, left_outputs: LeftOutputReader) -> None:
        self._context, self._left_outputs = context, left_outputs
        self._other_runs = OtherRuns(context)
        #: Backends whose failure has been logged, by identity: a failure is logged once.
        self._failing: set[int] = set()
        #: Pods without a ticket that have been logged.
        self._strays: set[str] = set()
        #: Jobs whose trouble is what keeps their runs from starting; it is logged for information only.
        self._held_up: frozenset[str] = frozenset()
        # Requests may come before the first observation, from which the backend of a cluster learns its nodes.
        if not any(backend.nodes() for backend in context.backends):
            context.unobserved = frozenset(kind for backend in context.backends for kind in backend.kinds)

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
        self._context.ended_runs = {key for key, (_, seen) in runs.items() if seen.phase is Phase.ENDED}
        self._context.closed_runs = {key for key, (_, seen) in runs.items() if seen.closed}
        self._context.unobserved = frozenset(unobserved)
        return ObservedRuns(runs=runs, unobserved=frozenset(unobserved))

    async def record(self, observed: ObservedRuns) -> None:
        """Record starts and ends of runs, and the processes and troubles of running ones.

        Before that, store a portion of the outputs that ended runs have left, and let records adopt live runs.
        Afterwards, deal with the runs that no record names, and log pods without a ticket.
        """
        await self._left_outputs.store_portions()  # first, so that the outputs of most jobs are complete at their end
        now = self._context.clock.now()
        adopted = self._other_runs.adopt(observed)
        changes = [
            change
            for record in (*self._context.records.holding(), *self._suspended())
            if record.workload.kind not in observed.unobserved and record.workload.id not in adopted
            for change in self._changes_alone(record, observed, now)
        ]
        self._context.records.commit_each(changes)
        self._remember_processes(observed)
        self._remember_troubles(observed)
        await self._other_runs.clean_up(observed, adopted)
        strays = [
            stray
            for backend in self._context.backends
            if not backend.kinds & observed.unobserved
            for stray in backend.capabilities.strays()
        ]
        self._report_strays(strays)
        if not observed.unobserved:
            self._strays &= {stray.pod for stray in strays}

    def _suspended(self) -> list[Record]:
        """Return the records of jobs that wait with a suspended run."""
        if self._context.backend_of(Kind.TRAINING).capabilities.suspension is None:
            return []
        return [record for record in self._context.records.unfinished() if waits_suspended(record)]

    def _changes_alone(self, record: Record, observed: ObservedRuns, now: Instant) -> list[Change]:
        """Return the changes of one record; if they cannot be computed, set the workload aside and return none."""
        set_aside = self._context.set_aside
        return set_aside.attempt(record.workload.id, "observing", lambda: self._changes(record, observed, now)) or []

    def _changes(self, record: Record, observed: ObservedRuns, now: Instant) -> list[Change]:
        """Return the changes of one record that follow from the observation of its present run."""
        workload = record.workload
        able, seen = self._context.backend_of(workload.kind).capabilities, observed.find(workload.id, workload.run)
        if waits_suspended(record):
            return interpret_job_share(record, seen, now)
        seen = self._explain_end(record, seen)
        corrections = [] if seen is None else correct_place(record, seen)
        if seen is not None and able.resizing is not None and workload.can_shrink:
            corrections = correct_size(record, seen)
        changes = [*corrections, *interpret(record, seen, now, forgetful=able.forgetful)]
        if changes or seen is None:
            return changes
        if workload.kind is Kind.TRAINING:
            return interpret_job_share(record, seen, now)
        return interpret_share(record, seen.share, now)

    def _explain_end(self, record: Record, seen: Observation | None) -> Observation | None:
        """Return an observation whose sentence begins with the interrupt or the end of a program by the watchdog.

        Without such an act, and for a run that succeeded or goes on, return the observation as it is.
        """
        excess = self._context.excesses.get(record.workload.id)
        if seen is None or seen.phase is not Phase.ENDED or seen.outcome is Outcome.SUCCEEDED:
            return seen
        if excess is None or not excess.acted or record.workload.kind is not Kind.TRAINING:
            return seen
        return replace(seen, sentence=f"{excess.describe_past()} {seen.sentence}".strip())

    def _remember_processes(self, observed: ObservedRuns) -> None:
        """Replace what the context has of the processes and shares of the present run of each workload.

        Forget also which notebooks were heard of, if they are no more.
        """
        seen = {
            record.workload.id: observation
            for record in (*self._context.records.notebooks(), *self._context.records.holding())
            if (observation := observed.find(record.workload.id, record.workload.run)) is not None
        }
        self._context.pids = {name: each.pids for name, each in seen.items()}
        moving = (name for name, each in seen.items() if each.share and each.share.phase is SharePhase.SUSPENDING)
        self._context.moving = frozenset(moving)
        self._context.heard.intersection_update(each.workload.id for each in self._context.records.notebooks())

    def _remember_troubles(self, observed: ObservedRuns) -> None:
        """Replace the troubles in the context by what is wrong with each running run, or keeps a job from starting.

        New ones are logged. A run that cannot be observed keeps its last sentence.
        """
        kept = {
            name: told
            for name, told in self._context.troubles.items()
            if (record := self._context.records.find_unfinished(name)) is not None
            and record.workload.kind in observed.unobserved
        }
        said = {
            name: observation
            for (name, run), (_, observation) in observed.runs.items()
            if observation.sentence and self._context.records.is_present_run(name, run)
        }
        told = {
            name: observation.sentence
            for name, observation in said.items()
            if observation.phase is Phase.RUNNING or observation.share is not None
        }
        told = self._find_unusable_gpus() | told
        for name in told.keys() - (self._context.troubles.keys() - self._held_up):
            log.warning("%s: %s", name, told[name], extra={"workload": name})
        held_up = {
            name: observation.sentence
            for name, observation in said.items()
            if observation.phase is Phase.STARTING and name not in told and self._is_job(name)
        }
        for name in held_up.keys() - self._context.troubles.keys():
            log.info("%s: %s", name, held_up[name], extra={"workload": name})
        self._held_up = frozenset(held_up)
        self._context.troubles = kept | held_up | told

    def _is_job(self, name: str) -> bool:
        """Return whether an unfinished workload of this id is a job."""
        record = self._context.records.find_unfinished(name)
        return record is not None and record.workload.kind is Kind.TRAINING

    def _find_unusable_gpus(self) -> dict[str, str]:
        """Return a sentence for each suspended notebook that a cell waits for and whose GPU cannot be used, by id."""
        devices = {device.id: device for node in self._context.nodes() for device in node.devices}
        found = {
            record.workload.id: describe_unusable_gpu(record, devices) for record in self._context.records.notebooks()
        }
        return {name: sentence for name, sentence in found.items() if sentence}

    def _report_strays(self, strays: Sequence[Stray]) -> None:
        """Log each pod of a notebook that has no ticket and keeps devices from other work, once for each pod.

        Only the Hub may end a server.
        """
        for stray in strays:
            if stray.pod not in self._strays:
                self._strays.add(stray.pod)
                known = self._context.records.get(stray.workload) is not None
                log.warning(
                    "the notebook's pod %s on %s %s and keeps %d devices from others; it is left alone. "
                    "Stop its server in the Hub, or delete the pod, if nobody needs it",
                    stray.pod,
                    stray.node or "no node",
                    "has no ticket any more" if known else "is in no record",
                    stray.devices,
                )
