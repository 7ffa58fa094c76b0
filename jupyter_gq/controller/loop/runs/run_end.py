"""The meaning of an observation for a record: pure functions of the record and of what a backend shows.

Rules
-----
Launched if shown: a run that the backend shows was launched, even if the record does not say so. This mends a crash
between the launch and its record.

Result of the code: a job that finished although it was told to stop has finished.

Stops: work that was told to pause goes back to its queue with its seniority. Work that was told to end is cancelled,
and its owner is told if its last outputs were lost.

Lost runs: a job that vanished goes back to its queue, at most `MOST_LOST` times in a row. The count begins again after
a run that made progress: it lasted for `PROGRESS_AFTER` and saved its state meanwhile. So a job of weeks outlives many
nodes, and a job that kills each of its processes does not go on for ever. A run that somebody else ended on purpose, as
by a taint of its node, is not counted. A notebook does not come back by itself: its process is gone, so it has stopped.

No conclusion from silence: nothing follows from a backend that could not be observed. Nothing follows either if a
forgetful backend does not show a run; the run is launched to it again (see `act`).

Suspended: a notebook whose share is suspended and that was told to end keeps its state until its server has ended,
since its devices may be lent. So the devices are never counted twice.

Back-off: a workload whose place was refused goes back to its queue with its seniority and backs off, each time in a row
for twice as long. So it does not win every cycle, and its backend is not asked all the time.

See docs/decisions/0043-give-up-after-consecutive-lost-runs.md and
docs/decisions/0217-do-not-count-runs-that-others-ended.md.
"""

from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Observation, Outcome, Phase
from jupyter_gq.client.exit_status import OUTPUTS_LOST
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.suspended_runs import has_suspended_run
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Backoff, Kind, Workload
from jupyter_gq.domain.workload_detail import ENDED, Eviction
from jupyter_gq.store.protocol import Record

#: Number of runs in a row that may vanish before a job fails.
MOST_LOST = 3
#: Least duration of a run that made progress.
PROGRESS_AFTER = Seconds(600)
#: The first and the longest back-off.
FIRST_PAUSE, LONGEST_PAUSE = Seconds(20), Seconds(600)
#: States of workloads whose run was launched.
_HAS_RUN = frozenset({State.STARTING, State.RUNNING, State.SUSPENDED, State.RESUMING, State.STOPPING})
#: The sentence of a run that its backend does not show any more.
VANISHED = "The run ended without a result"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """How a run ended, as far as its backend knows."""

    outcome: Outcome
    sentence: str
    at: Instant
    #: Whether somebody else ended the run on purpose.
    disrupted: bool = False


def interpret(record: Record, seen: Observation | None, now: Instant, *, forgetful: bool) -> list[Change]:
    """Return the changes of one record that follow from the observation of its present run: launched, stopped, ended.

    `seen` is None if the backend does not show the run, which then counts as lost unless the backend is forgetful; see
    `backends.capabilities`.
    """
    workload = record.workload
    changes: list[Change] = []
    state = workload.state
    if state is State.ADMITTED and seen is not None:
        changes.append(Change(workload=workload.id, event=Event.LAUNCHED))
        state = State.STARTING
    if state in {State.STARTING, State.RUNNING, State.RESUMING} and workload.stop is not None:
        # The stop came while the run was being launched, or while the share was suspended.
        changes.append(Change(workload=workload.id, event=Event.STOP_REQUESTED))
        state = State.STOPPING
    if state not in _HAS_RUN:
        return changes
    if seen is None:
        # A run that a forgetful backend does not show is launched to it again; what the backend finds decides then.
        result = RunEnd(outcome=Outcome.LOST, sentence=VANISHED, at=now)
        return changes if forgetful else [*changes, _end_run(record, state, result)]
    if seen.phase is Phase.ENDED:
        outcome, at = seen.outcome or Outcome.LOST, min(seen.since, now)
        result = RunEnd(outcome=outcome, sentence=seen.sentence, at=at, disrupted=seen.disrupted)
        if state is State.SUSPENDED and workload.stop is not None:
            changes.append(Change(workload=workload.id, event=Event.STOP_REQUESTED))
            state = State.STOPPING
        return [*changes, _end_run(record, state, result)]
    is_unknown = seen.share is None and has_suspended_run(record)  # right after a start of the service
    if state is State.STARTING and seen.phase is Phase.RUNNING and not is_unknown:
        changes.append(_start_run(record, seen, now))
    return changes


def _start_run(record: Record, seen: Observation, now: Instant) -> Change:
    """Return the change by which a run runs from now on, with an entry in the audit log if it was suspended."""
    workload, suspension = record.workload, record.detail.suspension
    detail = DetailChange(backoff=None) if record.detail.backoff else DetailChange()
    since, audit = Instant(min(seen.since, now)), None
    if suspension is not None and has_suspended_run(record):
        since, detail["suspension"] = now, None
        audit = act_of_scheduler(
            Action.JOB_RESUME,
            workload,
            now,
            memory_mib=suspension.memory,
            seconds=None if seen.share is None else seen.share.seconds,
            suspended_seconds=None if suspension.since is None else round(now - suspension.since, 1),
        )
    fields = WorkloadChange(running_since=since)
    return Change(workload=workload.id, event=Event.STARTED, fields=fields, detail=detail, audit=audit)


def _end_run(record: Record, state: State, result: RunEnd) -> Change:
    """Return the change for a run that has ended; `state` is the state of the workload just before.

    A refused workload backs off, and a run that succeeded or failed is final. After any other end a job goes back to
    its queue, unless lost too often; a notebook has ended, FAILED if its server never started. See `_end_stopped_run`
    for STOPPING.
    """
    if state is State.STOPPING:
        return _end_stopped_run(record, result)
    if result.outcome is Outcome.REFUSED:
        return _back_off(record, result)
    if result.outcome is Outcome.SUCCEEDED:
        return _finish(record, Event.SUCCEEDED, result, result.sentence)
    if result.outcome is Outcome.FAILED:
        return _explain_failure(_finish(record, Event.FAILED, result, result.sentence), record, result)
    if record.workload.kind is Kind.NOTEBOOK:
        if state is State.STARTING:
            return _finish(record, Event.FAILED, result, result.sentence or "No server process started for the share.")
        return _finish(record, Event.SUCCEEDED, result, "" if result.sentence == VANISHED else result.sentence)
    return _end_interrupted_run(record, result)


def _end_stopped_run(record: Record, result: RunEnd) -> Change:
    """Return the change for the end of a run that was told to stop: CANCELLED, or requeued if the stop says so.

    A job that succeeded nevertheless is SUCCEEDED. Work that was to be requeued and failed is FAILED.
    """
    stop = record.workload.stop
    requeue = stop is not None and stop.requeue
    if result.outcome is Outcome.SUCCEEDED and record.workload.kind is Kind.TRAINING:
        return _finish(record, Event.SUCCEEDED, result, result.sentence)
    if result.outcome is Outcome.FAILED and requeue:
        return _finish(record, Event.FAILED, result, result.sentence)
    if requeue:
        event = Event.LOST if result.outcome is Outcome.LOST else Event.REQUEUED
        return _requeue(record, event, result.at, DetailChange())
    # The sentence for the owner was recorded with the intent to stop.
    told = f"{record.detail.sentence} {result.sentence}" if result.sentence.startswith(OUTPUTS_LOST) else None
    return _explain_failure(_finish(record, Event.CANCELLED, result, told), record, result)


def _explain_failure(change: Change, record: Record, result: RunEnd) -> Change:
    """Return the change with the failure of a notebook, for the owner's options page; unchanged for all other ends."""
    failed = result.outcome is Outcome.FAILED and result.sentence
    if record.workload.kind is Kind.TRAINING or not failed:
        return change
    failure = Eviction(reason=ENDED, sentence=result.sentence, by=None, at=result.at)
    return replace(change, detail=DetailChange(eviction=failure, sentence=result.sentence))


def _end_interrupted_run(record: Record, result: RunEnd) -> Change:
    """Return the change for a job whose run was lost or interrupted: the job goes back to its queue.

    After more than `MOST_LOST` lost runs in a row the job fails instead. Interrupted runs (PAUSED) and runs that
    somebody else ended on purpose are not counted.
    """
    reason = (result.sentence or VANISHED).rstrip(".")
    if result.outcome is Outcome.PAUSED or result.disrupted:
        reason = result.sentence.rstrip(".") or "The job was interrupted from outside"
        told = f"{reason}. The job continues by itself."
        return _requeue(record, Event.LOST, result.at, DetailChange(sentence=told))
    times = 1 if _made_progress(record, result.at) else record.detail.consecutive_losses + 1
    if times > MOST_LOST:
        told = f"{reason}, for the {times}th time in a row. The job is not started again."
        return _finish(record, Event.FAILED, result, told)
    told = f"{reason}. The job starts again by itself ({times} of {MOST_LOST})."
    return _requeue(record, Event.LOST, result.at, DetailChange(consecutive_losses=times, sentence=told))


def _made_progress(record: Record, at: Instant) -> bool:
    """Return whether the run lasted at least `PROGRESS_AFTER` until `at`, and saved its state meanwhile."""
    saved, started = record.workload.checkpointed_at, record.workload.started_at
    return saved is not None and started is not None and saved > started and at - started >= PROGRESS_AFTER


def _back_off(record: Record, result: RunEnd) -> Change:
    """Return the change that requeues a workload whose run was refused by its place."""
    return make_backoff_change(record, Event.LOST, result.sentence, result.at)


def make_backoff_change(record: Record, event: Event, sentence: str, at: Instant) -> Change:
    """Return the change that requeues a workload that cannot run now, for the reason in `sentence`.

    The workload waits for a pause that doubles each time in a row, and is at most `LONGEST_PAUSE` seconds.
    """
    before = record.detail.backoff
    times = 1 if before is None else before.times + 1
    pause = Seconds(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (times - 1)))
    backoff = Backoff(times=times, until=Instant(at + pause), pause=pause, sentence=sentence)
    return _requeue(record, event, at, DetailChange(backoff=backoff, sentence=""))


def _requeue(record: Record, event: Event, at: Instant, detail: DetailChange) -> Change:
    """Return the change that puts a workload without its devices and its stop back into its queue."""
    return Change(
        workload=record.workload.id,
        event=event,
        fields=WorkloadChange(
            placement=(),
            leaving=(),
            stop=None,
            activity=None,
            requeued_at=at,
            **count_running_time(record.workload, at),
        ),
        detail={**_end_suspension(record), **detail},
    )


def _finish(record: Record, event: Event, result: RunEnd, sentence: str | None) -> Change:
    """Return the change to a final state; `sentence` None keeps the sentence that the owner was told before."""
    return Change(
        workload=record.workload.id,
        event=event,
        fields=WorkloadChange(
            placement=(), leaving=(), finished_at=result.at, **count_running_time(record.workload, result.at)
        ),
        detail={**_end_suspension(record), **(DetailChange() if sentence is None else DetailChange(sentence=sentence))},
    )


def _end_suspension(record: Record) -> DetailChange:
    """Return the change by which a job whose run has ended has no suspension; an empty one if it has none."""
    is_job = record.workload.kind is Kind.TRAINING
    return DetailChange(suspension=None) if is_job and record.detail.suspension is not None else DetailChange()


def count_running_time(workload: Workload, at: Instant) -> WorkloadChange:
    """Return the fields that add the run which ended at `at` to the running time of its workload."""
    return WorkloadChange(ran=workload.running_time(at), running_since=None)
