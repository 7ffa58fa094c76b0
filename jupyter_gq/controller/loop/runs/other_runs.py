"""The runs that no record names: adopted, kept and reported, or stopped with grace.

Rules
-----
Adopted: the record of the workload takes over a live run if that is possible; see `adoption`.

Kept: another live run of a waiting workload, or of a workload that the store never heard of, goes on and is reported,
if its backend keeps unknown runs. The devices of that run take nothing new. A waiting workload backs off meanwhile.

Suspended: the suspended run of a waiting job is left alone. A suspended run that no record names is stopped, because it
cannot go on by itself; so is the run of such a job that goes on without devices.

Stopped: a live run beside the present one of its workload, or of a workload that has ended, is told to end with the
usual grace. The devices of that run take nothing new until it has ended, however long that takes.

See docs/decisions/0216-hold-devices-until-the-last-process-is-gone.md.
"""

import logging
from collections.abc import Mapping

from jupyter_gq.backends.protocol import Backend, Observation, Phase
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.suspended_runs import has_suspended_run, waits_suspended
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Backoff, RunKey
from jupyter_gq.store.protocol import Record

from .adoption import adopt, can_adopt
from .observed_runs import ObservedRuns

log = logging.getLogger(__name__)

#: Time between two stops of a run that outlives its grace.
STOP_AGAIN = Seconds(10)
#: Time for which a workload waits while a run of it is alive that its record cannot adopt.
_OTHER_RUN_PAUSE = Seconds(60)


def describe_unknown_run(run: Observation) -> str:
    """Return a sentence about a live run without a record, with its owner and processes if the backend knows them."""
    owner = f" of {run.owner}" if run.owner else ""
    pids = f" (processes {', '.join(map(str, run.pids))})" if run.pids else ""
    return f"{run.workload}{owner} runs and is in no record; it is left alone, with its devices{pids}"


def describe_needless_run(run: Observation) -> str:
    """Return a phrase about a live run that should not be."""
    return f"{run.workload} runs and should not; it is told to end"


def _is_away(seen: Observation) -> bool:
    """Return whether the GPU state of the run is in host memory, so that the run cannot go on by itself."""
    return seen.share is not None and seen.share.phase is not SharePhase.IN_USE


def _is_named(record: Record, seen: Observation) -> bool:
    """Return whether a run with the number of the record's own is the record's: it holds devices, or is suspended.

    A run whose share is not known yet, right after a start of the service, counts as suspended if the record says so.
    """
    is_away = seen.share is None or _is_away(seen)
    return record.workload.holds or (waits_suspended(record) and seen.phase is not Phase.ENDED and is_away)


class OtherRuns:
    """The treatment of the runs that no record names."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Workloads whose unknown run has been logged.
        self._reported: set[str] = set()
        #: When each run that should not exist is told to stop again, by the clock of the time awake.
        self._stop_again_at: dict[RunKey, float] = {}

    def adopt(self, observed: ObservedRuns) -> dict[str, Observation]:
        """Let records adopt live runs that they do not name; return the adopted runs by workload.

        If several runs of a workload are alive, the record adopts the last one.
        """
        now = self._context.clock.now()
        adopted: dict[str, Observation] = {}
        changes: list[Change] = []
        for backend, seen in sorted(observed.kept(), key=lambda found: -found[1].run):
            record = self._context.records.find_unfinished(seen.workload)
            if record is None or seen.workload in adopted:
                continue
            own, forgetful = observed.find(seen.workload, record.workload.run), backend.capabilities.forgetful
            if can_adopt(record, own if record.workload.holds else None, seen, forgetful=forgetful):
                ids = {"workload": seen.workload, "run": seen.run}
                told = "run %d of %s is alive and not in its record, which adopts it"
                log.warning(told, seen.run, seen.workload, extra=ids)
                adopted[seen.workload] = seen
                changes += adopt(record, seen, now, forgetful=forgetful)
        self._context.records.commit_each(changes)
        return adopted

    async def clean_up(self, observed: ObservedRuns, adopted: Mapping[str, Observation]) -> None:
        """Keep, stop or forget each observed run that no record names; `adopted` are the runs that records adopted.

        Kept runs are logged, and become the `unknown_runs` of the context; stopped runs become its `needless_runs`.
        Workloads that would start on the devices of any of these runs go back to their queues.
        """
        # A run that cannot be observed is remembered as it was.
        unknown = {(run.workload, run.run): run for run in self._context.unknown_runs if observed.unobserved}
        needless = {(run.workload, run.run): run for run in self._context.needless_runs if observed.unobserved}
        for (workload, run), (backend, observation) in observed.runs.items():
            record = self._context.records.find_unfinished(workload)
            if record is not None and record.workload.run == run and _is_named(record, observation):
                continue
            if self._is_kept(backend, observation, observed):
                unknown[(workload, run)] = observation
                self._report(observation)
                self._hold_back(record, observation)
            else:
                if observation.phase is not Phase.ENDED:
                    needless[(workload, run)] = observation
                await self._clean_up(backend, workload, run, observation)
        self._context.unknown_runs, self._context.needless_runs = tuple(unknown.values()), tuple(needless.values())
        self._requeue_displaced(observed, adopted)
        if not observed.unobserved:
            self._reported &= {workload for workload, _ in observed.runs}
        self._stop_again_at = {key: at for key, at in self._stop_again_at.items() if key in observed.runs}

    async def _clean_up(self, backend: Backend, workload: str, run: int, observation: Observation) -> None:
        """Let the backend forget an ended run whose outputs are stored, or stop a live run with the usual grace.

        Failures are logged.
        """
        ids = {"workload": workload, "run": run}
        try:
            if observation.phase is Phase.ENDED:
                if (workload, run) not in self._context.ended_runs:
                    await backend.forget(workload, run)
            else:
                await self._stop_needless(backend, (workload, run))
        except (BackendError, OSError) as error:
            log.warning("run %d of %s could not be removed, it is tried again: %s", run, workload, error, extra=ids)

    async def _stop_needless(self, backend: Backend, key: RunKey) -> None:
        """Stop a live run with the usual grace: once, and `STOP_AGAIN` seconds after its grace again."""
        now, (workload, run) = self._context.clock.awake(), key
        if now < self._stop_again_at.get(key, now):
            return
        grace = self._context.settings.grace
        told = "run %d of %s is alive and should not be: it is told to end within %.0f s"
        log.warning(told, run, workload, grace, extra={"workload": workload, "run": run})
        await backend.stop(workload, run, grace)
        self._stop_again_at[key] = now + grace + STOP_AGAIN

    def _is_kept(self, backend: Backend, seen: Observation, observed: ObservedRuns) -> bool:
        """Return True for a live run that its backend keeps, unless its workload has ended or has another live run."""
        if not backend.capabilities.keeps_unknown or seen.phase is Phase.ENDED:
            return False
        record = self._context.records.get(seen.workload)
        if record is None:
            return True
        if record.workload.state is State.PENDING:
            return not (has_suspended_run(record) or _is_away(seen))
        return record.workload.holds and observed.find(seen.workload, record.workload.run) is None

    def _hold_back(self, record: Record | None, seen: Observation) -> None:
        """Let a waiting workload back off while a run of it is alive, since two runs would share its files.

        Does nothing if the workload does not wait, or backs off already.
        """
        now = self._context.clock.now()
        if record is None or record.workload.state is not State.PENDING:
            return
        before = record.detail.backoff
        if before is not None and now < before.until:
            return
        backoff = Backoff(
            times=1 if before is None else before.times + 1,
            until=Instant(now + _OTHER_RUN_PAUSE),
            pause=_OTHER_RUN_PAUSE,
            sentence=f"Run {seen.run} of it is still alive, and its place is unknown",
        )
        self._context.records.commit([Change(workload=seen.workload, detail=DetailChange(backoff=backoff))])

    def _report(self, seen: Observation) -> None:
        """Log a run without a record, once for each workload.

        The run goes on: the database may be a restored backup that lost the record.
        """
        if seen.workload not in self._reported:
            self._reported.add(seen.workload)
            log.warning("%s. End it by hand if nobody needs it", describe_unknown_run(seen))

    def _requeue_displaced(self, observed: ObservedRuns, adopted: Mapping[str, Observation]) -> None:
        """Requeue ADMITTED workloads without a run that would start on devices of adopted or other live runs."""
        runs = (*adopted.values(), *self._context.unknown_runs, *self._context.needless_runs)
        taken = {device for run in runs for device in run.devices}
        changes = [
            Change(workload=workload.id, event=Event.REQUEUED, fields=WorkloadChange(placement=(), leaving=()))
            for workload in (record.workload for record in self._context.records.holding())
            if workload.state is State.ADMITTED
            and workload.id not in adopted
            and observed.find(workload.id, workload.run) is None
            and any(device in taken for task in workload.placement for device in task.devices)
        ]
        self._context.records.commit_each(changes)
