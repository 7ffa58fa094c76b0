"""The adoption of a live run by a record that names another run or none, as after the restore of an older database.

Rules
-----
Goes on: the record takes the number, the place and the token of the run, and the run is not touched. So a restore costs
no work, whatever happened to the job since the backup.

True place: if the backend remembers another place for the record's own run, the record takes that place.

Own run first: a record whose own run is alive adopts no other run. A forgetful backend may show the own run later, so
only a later run is adopted there.

Whole place: a run is adopted only if its backend knows a place that suits the request of the workload.

Cancelled: a workload that was told to end stays told. The adopted run is stopped with the usual grace.

See docs/decisions/0077-back-up-into-one-sqlite-file.md.
"""

from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.controller.records.changes import NEW_RUN, Change, DetailChange, WorkloadChange
from jupyter_gq.controller.suspended_runs import has_suspended_run
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Leaving, Stop, TaskPlacement, Workload
from jupyter_gq.domain.workload_detail import Place
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.store.protocol import Record

from .run_end import count_running_time

#: The events by which a workload loses the run that its record names, before it adopts another one.
_LEAVES = {
    State.ADMITTED: Event.REQUEUED,
    State.STARTING: Event.LOST,
    State.RUNNING: Event.LOST,
    State.STOPPING: Event.REQUEUED,
}


def can_adopt(record: Record, own: Observation | None, seen: Observation, *, forgetful: bool) -> bool:
    """Return whether the record may take over the run `seen`: a live run at a place that suits the workload's request.

    The workload must wait, or its own run must not be shown; `own` is the observation of that run, or None. If
    `forgetful`, the backend may show the own run later, so only a later run is taken over.
    """
    workload = record.workload
    if has_suspended_run(record) and seen.run == workload.run:
        return False
    if seen.phase is Phase.ENDED or workload.state not in {State.PENDING, *_LEAVES}:
        return False
    if workload.holds and (own is not None or (forgetful and seen.run < workload.run)):
        return False
    return _is_place_of(workload, seen.placement)


def adopt(record: Record, seen: Observation, now: Instant, *, forgetful: bool) -> list[Change]:
    """Return the changes by which a record takes over the run `seen` with its place, start and token, as STARTING.

    With a forgetful backend the workload stays ADMITTED, since the run must be launched to that backend again. A
    workload that was told to end for good keeps its state and its stop.
    """
    workload = record.workload
    started = Instant(min(seen.since, now))
    run = WorkloadChange(
        run=seen.run,
        placement=seen.placement,
        leaving=_leaving_of(seen, now),
        started_at=started,
        **count_running_time(workload, started),
    )
    token_hash = seen.token_hash or None
    if workload.stop is not None and not workload.stop.requeue:
        return [Change(workload=workload.id, fields=run, token_hash=token_hash)]
    detail: DetailChange = {
        **DetailChange(place=Place.of(seen.placement), backoff=None, sentence=""),
        **NEW_RUN,
    }
    admitted = Change(
        workload=workload.id,
        event=Event.ADMITTED,
        fields={**run, **WorkloadChange(reserved=(), nominated=False, stop=None, hold=None)},
        detail=detail,
        token_hash=token_hash,
    )
    left = [Change(workload=workload.id, event=_LEAVES[workload.state])] if workload.holds else []
    launched = [] if forgetful else [Change(workload=workload.id, event=Event.LAUNCHED)]
    return [*left, admitted, *launched]


def correct_place(record: Record, seen: Observation) -> list[Change]:
    """Return the change by which a record takes the place that the backend remembers for its present run.

    Returns [] if the places agree, if the run has ended or the workload is leaving, or if the remembered place does not
    have the requested numbers of tasks and devices. A suspended run has no place until it is resumed.
    """
    workload = record.workload
    if seen.phase is Phase.ENDED or seen.placement == workload.placement or has_suspended_run(record):
        return []
    if workload.leaving or not _is_place_of(workload, seen.placement):
        return []
    fields = WorkloadChange(placement=seen.placement)
    return [Change(workload=workload.id, fields=fields, token_hash=seen.token_hash or None)]


def _leaving_of(seen: Observation, now: Instant) -> tuple[Leaving, ...]:
    """Return the tasks that leave the run. The record that knew why they leave is gone."""
    stop = Stop(reason=EvictReason.RECLAIMED, sentence="", by=None, at=now, requeue=True)
    return tuple(Leaving(task=task, stop=stop) for task in seen.leaving)


def _is_place_of(workload: Workload, placement: tuple[TaskPlacement, ...]) -> bool:
    """Return whether the placement has enough tasks of each group, and the requested number of devices for each."""
    for group in gang.groups_of(workload):
        placed = [task for task in placement if task.group == group.name]
        if not group.min_members <= len(placed) <= group.tasks:
            return False
        if any(len(task.devices) != group.request.devices for task in placed):
            return False
    return bool(placement)
