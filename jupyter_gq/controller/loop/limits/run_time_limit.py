"""The end of jobs that have run for as long as they may.

Rules
-----
Running time: the seconds in which runs of the job ran, over all runs, without starts and pauses.

Saved: a job at its limit is told to stop with the grace period of a pause, so that it saves its state; then it ends.

Held: a held job that waits is left alone, so that its limit can still be changed.

See docs/decisions/0110-count-the-running-time-of-all-runs.md.
"""

from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.records.records import Records
from jupyter_gq.controller.run_time_limits import EffectiveLimit, find_run_time_limit
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Kind, Stop, Workload
from jupyter_gq.domain.workload_detail import Eviction


def end_overdue_jobs(records: Records, settings: Settings, now: Instant) -> None:
    """Tell each running job at its limit to end, and end each waiting one that an interrupted run brought there."""
    changes = []
    for record in records.unfinished():
        workload = record.workload
        if not _may_end(workload):
            continue
        limit = find_run_time_limit(settings, workload)
        if limit is not None and workload.running_time(now) >= limit.seconds:
            changes.append(_make_end(workload, limit, now))
    records.commit_each(changes)


def _may_end(workload: Workload) -> bool:
    """Return whether the workload is a job that runs undisturbed, or waits after a run and is not held."""
    if workload.kind is not Kind.TRAINING:
        return False
    waits = workload.state is State.PENDING and workload.ran > 0 and workload.hold is None
    return waits or (workload.state is State.RUNNING and workload.stop is None)


def _make_end(workload: Workload, limit: EffectiveLimit, now: Instant) -> Change:
    """Return the change that ends a job at its limit: at once if it waits, else by telling its run to stop."""
    reason, told = EvictReason.RUN_TIME_LIMIT, limit.sentence
    audit = act_of_scheduler(Action.JOB_EVICT, workload, now, reason=reason.value, sentence=reveal(told))
    eviction = Eviction(reason=reason.value, sentence=told, by=None, at=now)
    detail = DetailChange(sentence=told, eviction=eviction)
    if workload.state is State.PENDING:
        fields = WorkloadChange(finished_at=now)
        return Change(workload=workload.id, event=Event.CANCELLED, fields=fields, detail=detail, audit=audit)
    stop = Stop(reason=reason, sentence=told, by=None, at=now, requeue=False)
    return make_stop_change(workload, stop, detail, audit)
