"""Changes of a job while it waits and runs, asked for by people.

Rules
-----
All or nothing: a request is checked completely before anything is stored, and stored in one commit with one entry of
the audit log for each act. Asking for what is so already changes nothing and is no act.

Held: a held job that waits is not considered until it is released. A held job that runs is paused as for other work: it
saves its state, stops, and waits. A released job has its old place in line, by its submission.

Overruling: an owner cannot release what a manager of the queue or an administrator holds, nor exceed the limit that one
of them set for the running time of the job. Nor can the owner move such a job, also not to a queue that the owner
manages.

Waiting: a job changes its queue, its GPUs and its tasks only while it waits. A job that runs is held first, so that its
devices count for its old queue until they are free.

Tasks: a job that starts with all of its tasks or not at all stays so if only the number of its tasks changes. The least
number of tasks of any other job stays as it is unless it is named.

See docs/decisions/0108-change-a-job-by-one-patch.md, docs/decisions/0109-hold-a-job-in-the-cycle.md and
docs/decisions/0184-change-tasks-while-a-job-waits.md.
"""

from dataclasses import replace

from jupyter_gq.client.models import JobChange, JobView, describe_excess_of_tasks
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.loop.suspended_jobs import plan_job_suspension
from jupyter_gq.controller.records.acts import act_of
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.run_time_limits import find_own_limit, set_run_time_limit
from jupyter_gq.controller.suspended_runs import RUN_DOES_NOT_FIT, has_suspended_run
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.controller.views.workload_views import PAUSING_AND_HELD
from jupyter_gq.domain.amount import Instant, format_gpus
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.errors import Conflict, ManagersOnly, NeverFits, Resource
from jupyter_gq.domain.json_types import JsonValue
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Hold, Request, Stop, Workload
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.store.protocol import Record

from .job_access import find_changeable_job, may_manage
from .job_checks import check_limits_of_queue, check_priority, check_tasks, find_queue, find_usable_queue
from .job_devices import parse_devices
from .job_resources import with_resources_of

#: The sentence of a job that was held while it ran, and released before it has stopped.
_RELEASED = "Pausing: it has a moment to save its state. Then it waits for its turn, and continues by itself."


class JobChanges:
    """The requests that change jobs which have not ended."""

    def __init__(self, context: Context, presenter: Presenter) -> None:
        self._context, self._presenter = context, presenter

    def change(self, caller: Caller, job: str, wanted: JobChange) -> JobView:
        """Change what is named in `wanted`, and return the present view of the job.

        Raises `NotFound` if the caller may not change the job, `Conflict` if the state of the job forbids the change,
        and another `UserError` if the caller could not send the changed job.
        """
        record = find_changeable_job(self._context, caller, job)
        self._check_unfinished(record)
        before, now = record.workload, self._context.clock.now()
        after = self._apply(caller, before, wanted)
        self._check_request(caller, before, after)
        if wanted.held is False:
            self._check_release(caller, before)
        if after.queue != before.queue:
            self._check_move(caller, before)
        changes = _request_changes(caller, before, after, now)
        changes += self._hold_changes(caller, replace(record, workload=after), wanted.held, now)
        if has_suspended_run(record) and self._ends_suspended_run(before, after):
            changes.append(Change(workload=job, detail=DetailChange(suspension=None, sentence=RUN_DOES_NOT_FIT)))
        if changes:
            self._context.pending.pop(job, None)  # what the last cycle said is no longer true
            self._context.records.commit(changes)
            self._context.wake()
        return self._presenter.job(find_changeable_job(self._context, caller, job))

    def _ends_suspended_run(self, before: Workload, after: Workload) -> bool:
        """Return whether a suspended run cannot go on after a change: with other GPUs or tasks, or in another pool."""
        pools = {queue.name: queue.pool for queue in self._context.settings.training_tree()}
        return _shape(before) != _shape(after) or pools.get(before.queue) != pools.get(after.queue)

    def _hold_changes(self, caller: Caller, record: Record, held: bool | None, now: Instant) -> list[Change]:
        """Return the changes that hold or release a job; none if that is not asked for, or is so already.

        A hold of the owner becomes the hold of somebody else who asks for it, so that the owner cannot release it.
        """
        workload, hold = record.workload, record.workload.hold
        takes_over = held and hold is not None and hold.by == workload.owner != caller.user
        if held is None or (held is (hold is not None) and not takes_over):
            return []
        if held:
            return [_make_hold_change(self._context, caller, record, now)]
        return [_make_release_change(caller, workload, now)]

    def _check_unfinished(self, record: Record) -> None:
        """Raise `Conflict` if the job has ended, or was told to end for good."""
        workload = record.workload
        if workload.state in FINAL:
            phase = describe_phase(self._presenter.job(record).phase)
            raise Conflict(f"The job {workload.name!r} {phase} already; nothing can be changed any more.")
        if workload.stop is not None and not workload.stop.requeue:
            raise Conflict(f"The job {workload.name!r} is ending; nothing can be changed any more.")

    def _check_move(self, caller: Caller, workload: Workload) -> None:
        """Raise `ManagersOnly` if somebody else holds or limits the job, and the caller may not undo that."""
        hold, bound = workload.hold, workload.run_time_bound
        held = hold is not None and hold.by != caller.user
        if (not held and bound is None) or may_manage(self._context.settings, caller, workload.queue):
            return
        what = "held" if held else "limited in its running time"
        raise ManagersOnly(
            f"The job {workload.name!r} is {what} by a manager of the queue {workload.queue} or an administrator. Only "
            "they can move it."
        )

    def _check_release(self, caller: Caller, workload: Workload) -> None:
        """Raise `ManagersOnly` if somebody else holds the job, and the caller may not undo that."""
        hold = workload.hold
        if hold is None or hold.by == caller.user or may_manage(self._context.settings, caller, workload.queue):
            return
        by = mention(hold.by, hold.by, "a manager of the queue or an administrator")
        raise ManagersOnly(
            f"The job {workload.name!r} is held by {by}. Only a manager of the queue or an administrator can release "
            "it."
        )

    def _apply(self, caller: Caller, workload: Workload, wanted: JobChange) -> Workload:
        """Return the workload with the queue, priority, limit, GPUs and tasks that are wanted.

        Raises `InvalidAmount` or `NeverFits` for GPUs or tasks that the job cannot ask for, and `ManagersOnly` for a
        limit that the caller may not exceed. An amount equal to the present one changes nothing.
        """
        changed = replace(
            workload,
            queue=workload.queue if wanted.queue is None else wanted.queue,
            priority=workload.priority if wanted.priority is None else wanted.priority,
        )
        if wanted.max_seconds is not None:
            overrules = may_manage(self._context.settings, caller, workload.queue)
            changed = set_run_time_limit(changed, wanted.max_seconds, caller, overrules=overrules)
        return self._with_tasks(self._with_devices(changed, wanted), wanted)

    def _with_devices(self, workload: Workload, wanted: JobChange) -> Workload:
        """Return the workload with the GPUs or the GPU memory that are wanted; each takes the place of the other."""
        if wanted.gpus is None and wanted.gpu_memory is None:
            return workload
        before = workload.request
        devices = parse_devices(self._context, 1 if wanted.gpus is None else wanted.gpus, wanted.gpu_memory)
        is_same_part = devices.device_memory is not None or devices.milli == before.milli
        if devices.device_memory == before.device_memory and is_same_part:
            return workload
        return self._context.with_memory_part(replace(workload, request=with_resources_of(before, devices)))

    def _with_tasks(self, workload: Workload, wanted: JobChange) -> Workload:
        """Return the workload with the numbers of tasks that are wanted; see the rule on tasks above.

        Raises `NeverFits` for a least number above the number of tasks, or if jobs here cannot be resized.
        """
        most = workload.tasks if wanted.tasks is None else wanted.tasks
        kept = workload.min_members if workload.can_shrink else most
        least = kept if wanted.min_tasks is None else wanted.min_tasks
        changed = replace(workload, tasks=most, min_members=least)
        if changed == workload:
            return workload
        if least > most:
            raise NeverFits(f"{describe_excess_of_tasks(least, most)}.", Resource.TASKS)
        check_tasks(self._context.backend_of(workload.kind), least, most)
        return changed

    def _check_request(self, caller: Caller, before: Workload, after: Workload) -> None:
        """Raise a `UserError` if the caller could not send the job as it is after the change.

        Only what changes is checked. The queue, the GPUs and the tasks change only while the job waits.
        """
        context, settings, moves = self._context, self._context.settings, after.queue != before.queue
        if (moves or _shape(after) != _shape(before)) and before.state is not State.PENDING:
            raise Conflict(
                f"The job {before.name!r} does not wait, so its queue, its GPUs and its tasks cannot change. Hold it "
                "first: it is paused with its state. Then change and release it."
            )
        if moves:
            check_priority(find_usable_queue(settings, caller, after.queue), caller, after.priority)
            check_limits_of_queue(context.settings, context.records, after.queue)
        elif after.priority != before.priority:
            check_priority(find_queue(settings, caller, before.queue), caller, after.priority)
        if moves or _shape(after) != _shape(before):
            admission.check_fits(context.empty_snapshot([caller]), after)


def _request_changes(caller: Caller, before: Workload, after: Workload, now: Instant) -> list[Change]:
    """Return the changes of the queue, priority and request of a job, with an act for a move and one for the others."""
    changes = []
    place = WorkloadChange(reserved=(), nominated=False)  # kept for the old request
    if after.queue != before.queue:
        audit = act_of(caller, Action.JOB_MOVE, after, now, queue_before=before.queue)
        fields = WorkloadChange(queue=after.queue, **place)
        changes.append(Change(workload=after.id, fields=fields, detail=DetailChange(backoff=None), audit=audit))
    details: dict[str, JsonValue] = {}
    fields = WorkloadChange()
    if after.priority != before.priority:
        details |= {"priority": after.priority, "priority_before": before.priority}
        fields["priority"] = after.priority
    if (after.run_time_limit, after.run_time_bound) != (before.run_time_limit, before.run_time_bound):
        details |= {"max_seconds": _own_seconds(after), "max_seconds_before": _own_seconds(before)}
        fields["run_time_limit"], fields["run_time_bound"] = after.run_time_limit, after.run_time_bound
    if _shape(after) != _shape(before):
        details |= _describe_shape(before, after)
        shape = WorkloadChange(request=after.request, tasks=after.tasks, min_members=after.min_members)
        fields |= shape | place
    if details:
        audit = act_of(caller, Action.JOB_CHANGE, after, now, **details)
        changes.append(Change(workload=after.id, fields=fields, detail=_forget_backoff(fields), audit=audit))
    return changes


def _shape(workload: Workload) -> tuple[Request, int, int]:
    """Return what a job asks for: the request of each task, the number of tasks and the least number."""
    return workload.request, workload.tasks, workload.min_members


def _describe_shape(before: Workload, after: Workload) -> dict[str, JsonValue]:
    """Return the details of an act that changes the GPUs or the tasks of a job; the GPUs are those of all tasks."""
    details: dict[str, JsonValue] = {}
    if (before.request, before.milli) != (after.request, after.milli):
        details |= {"gpus_before": format_gpus(before.milli)}
    if before.tasks != after.tasks:
        details |= {"tasks": after.tasks, "tasks_before": before.tasks}
    if before.min_members != after.min_members:
        details |= {"min_tasks": after.min_members, "min_tasks_before": before.min_members}
    return details


def _own_seconds(workload: Workload) -> float:
    """Return the seconds that the job may run by the limits that were set for it alone; 0 if it has none."""
    limit = find_own_limit(workload)
    return 0.0 if limit is None else limit.seconds


def _forget_backoff(fields: WorkloadChange) -> DetailChange:
    """Return the change that ends the back-off if the request changes, since its refused place does not matter then."""
    return DetailChange(backoff=None) if "request" in fields else DetailChange()


def _make_hold_change(context: Context, caller: Caller, record: Record, now: Instant) -> Change:
    """Return the change that holds a job; a job that has devices is told to stop and comes back to its queue."""
    workload = record.workload
    hold = WorkloadChange(hold=Hold(by=caller.user, at=now), reserved=(), nominated=False)
    runs = workload.holds and workload.stop is None
    audit = act_of(caller, Action.JOB_HOLD, workload, now, paused=True if runs else None)
    if not runs:
        return Change(workload=workload.id, fields=hold, audit=audit)
    stop = Stop(
        reason=EvictReason.PAUSED_BY_USER,
        sentence=PAUSING_AND_HELD,
        by=None if caller.user == workload.owner else caller.user,
        at=now,
        requeue=True,
    )
    detail = DetailChange(sentence="") | plan_job_suspension(context, record, stop)
    change = make_stop_change(workload, stop, detail, audit)
    return replace(change, fields={**change.fields, **hold})


def _make_release_change(caller: Caller, workload: Workload, now: Instant) -> Change:
    """Return the change that releases a held job, which then waits as all others do, once it has stopped."""
    fields = WorkloadChange(hold=None) | _retell_pause(workload, _RELEASED)
    if workload.state is State.PENDING:
        # The time of the hold is no wait, for which devices would be reserved.
        fields["requeued_at"] = now
    audit = act_of(caller, Action.JOB_RELEASE, workload, now)
    return Change(workload=workload.id, fields=fields, detail=DetailChange(sentence=""), audit=audit)


def _retell_pause(workload: Workload, sentence: str) -> WorkloadChange:
    """Return the change that gives the pause of a job that was held while it ran this sentence, until it has stopped.

    Return an empty change for a job that does not stop, or that is paused for other work.
    """
    stop = workload.stop
    if stop is None or stop.reason is not EvictReason.PAUSED_BY_USER:
        return WorkloadChange()
    return WorkloadChange(stop=replace(stop, sentence=sentence))
