"""The changes of the number of tasks of elastic jobs, from the record, a decision and an observation.

Rules
-----
Intent first: which tasks a job is to have, and which leave it, is saved before the backend is told. The backend is told
as long as it shows other tasks than the record, so a crash at any instant is mended by the next step.

Devices until the end: a task that leaves keeps its devices in the record until the backend does not show it any more.

The backend has the last word on growth only: a task that it cannot add is given up, and its devices are free again.

See docs/decisions/0154-resize-runs-of-the-local-backend.md.
"""

import logging
from collections import Counter
from collections.abc import Iterator

from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Leaving, Stop, TaskPlacement, Workload
from jupyter_gq.domain.workload_detail import Place
from jupyter_gq.scheduling.decision import Grow, Shrink
from jupyter_gq.scheduling.workloads.replicas import without
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

_RUNS = frozenset({State.STARTING, State.RUNNING})


def plan_resize(record: Record, instruction: Grow | Shrink, now: Instant) -> list[Change]:
    """Return the change that gives an elastic job more tasks or fewer; none if it has no run or is told to stop."""
    workload = record.workload
    if not workload.holds or workload.stop is not None:
        return []
    if isinstance(instruction, Shrink):
        return [_plan_shrink(workload, instruction, now)]
    return [_plan_growth(workload, instruction)]


def _plan_growth(workload: Workload, grow: Grow) -> Change:
    placement = (*workload.placement, *grow.placement)
    missing = len(placement) < workload.tasks
    told = f"Grew to {len(placement)} of its {workload.tasks} tasks." if missing else ""
    return _make_change(workload, placement, workload.leaving, DetailChange(sentence=told))


def _plan_shrink(workload: Workload, shrink: Shrink, now: Instant) -> Change:
    """Return the change that lets tasks leave a job, with an entry for the audit log."""
    stop = Stop(reason=shrink.reason, sentence=shrink.sentence, by=shrink.by, at=now, requeue=True)
    leaving = (*workload.leaving, *(Leaving(task=task, stop=stop) for task in shrink.placement))
    log.info(
        "%s of %s shrinks: %s",
        workload.id,
        workload.owner,
        shrink.sentence,
        extra={**workload.log_fields, "reason": shrink.reason.value},
    )
    audit = act_of_scheduler(
        Action.JOB_EVICT,
        workload,
        now,
        reason=shrink.reason.value,
        for_workload=shrink.by,
        sentence=reveal(shrink.sentence),
        tasks=len(shrink.placement),
    )
    left = without(workload, shrink.placement).placement
    return _make_change(workload, left, leaving, DetailChange(sentence=shrink.sentence), audit)


def correct_size(record: Record, seen: Observation) -> list[Change]:
    """Return the change that follows from the tasks which the backend shows; none if the run has ended.

    Tasks have left, or could not be added. A task of which the record does not know, as after the restore of an older
    database, is a task of the job.
    """
    workload = record.workload
    if seen.phase is Phase.ENDED:
        return []
    placement = workload.placement
    if seen.closed:
        kept = tuple(_keep(placement, Counter(seen.placement)))
        placement = kept if len(kept) >= workload.min_members else placement
    others = Counter((*seen.placement, *seen.leaving))
    others.subtract(placement)
    leaving = tuple(each for each in workload.leaving if _take(others, each.task))
    unknown = tuple(task for task in seen.placement if _take(others, task))
    placement = (*placement, *unknown)[: workload.tasks]
    if (placement, leaving) == (workload.placement, workload.leaving):
        return []
    return [_make_change(workload, placement, leaving, DetailChange())]


def needs_resize(workload: Workload, seen: Observation | None) -> bool:
    """Tell whether the backend shows other tasks than those that a running elastic job is to have."""
    if seen is None or seen.phase is Phase.ENDED or not workload.can_shrink:
        return False
    if workload.state not in _RUNS or workload.stop is not None:
        return False
    return Counter(seen.placement) != Counter(workload.placement)


def stops_of_leaving(workload: Workload) -> Iterator[Stop]:
    """Yield why each task that leaves was told to stop."""
    return (leaving.stop for leaving in workload.leaving)


def _make_change(
    workload: Workload,
    placement: tuple[TaskPlacement, ...],
    leaving: tuple[Leaving, ...],
    detail: DetailChange,
    audit: AuditEntry | None = None,
) -> Change:
    """Return the change to these tasks, with the place that people are shown."""
    return Change(
        workload=workload.id,
        fields=WorkloadChange(placement=placement, leaving=leaving),
        detail={**detail, **DetailChange(place=Place.of(placement))},
        audit=audit,
    )


def _keep(placement: tuple[TaskPlacement, ...], shown: Counter[TaskPlacement]) -> Iterator[TaskPlacement]:
    """Yield the places of the placement that are shown, each as often as it is shown."""
    return (task for task in placement if _take(shown, task))


def _take(counts: Counter[TaskPlacement], task: TaskPlacement) -> bool:
    """Count a task down and return True, or return False if none of its place is left."""
    if counts[task] <= 0:
        return False
    counts[task] -= 1
    return True
