"""The suspension of jobs that are paused: whether a run is suspended instead of ended, and what follows from its share.

Rules
-----
- Instead of the end: the intent to suspend is saved with the intent to stop. The job is STOPPING and holds its devices
  until the backend shows that they are free. Then the job is back in its queue, and its run is kept.
- What is to be kept: the intent has the GPU memory of the last sample, so that no pause promises to keep what is not
  there. The attempt is made in any case, since the sample may be older than the memory.
- Half of the grace: if the run is not suspended by then, it is told to end as if it could not be suspended. The grace
  begins when this process can first act on the stop, so a time without a service does not count.
- Same run: the next admission of the job resumes the kept run, with its number, its token and its outputs.
- Nothing to keep: if the kept run ends, or a process of it, the job starts again as after any other pause.
- One task on one device: a run of several processes that exchange GPU memory cannot be restored.

See docs/decisions/0164-suspend-a-paused-job-instead-of-ending-it.md and
docs/decisions/0347-promise-to-keep-only-gpu-memory-that-was-seen.md.
"""

from dataclasses import replace
from typing import Final

from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.backends.share_suspension import ShareSuspension
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.suspended_runs import RUN_IS_GONE, has_suspended_run, waits_suspended
from jupyter_gq.devices.suspension.share_state import SharePhase, ShareState
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.queue_tree import path_of
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Kind, Stop, SuspensionRefusal, Workload
from jupyter_gq.domain.workload_detail import Suspension
from jupyter_gq.store.protocol import Record

from .runs.run_end import count_running_time
from .shares import act_of_suspension, has_failed

#: Reasons of a pause for which a run is suspended. For all others the job must go on elsewhere.
_REASONS: Final = frozenset(
    {EvictReason.RECLAIMED, EvictReason.PREEMPTED, EvictReason.QUOTA_LOWERED, EvictReason.PAUSED_BY_USER}
)


def plan_job_suspension(context: Context, record: Record, stop: Stop) -> DetailChange:
    """Return the change that records the intent to suspend a job; an empty change if its run has to end instead.

    `stop` tells the job to stop. If the job has not come back from its last pause, only the time of the decision is
    renewed. Otherwise a job is suspended if it runs, goes back to its queue, stops for one of `_REASONS` and can be
    suspended, and if the machine has memory for the work that needs the devices.
    """
    present = record.detail.suspension
    if present is not None and has_suspended_run(record):  # the job has not come back from its last pause yet
        return DetailChange(suspension=replace(present, decided_at=stop.at))
    if stop.reason not in _REASONS or not stop.requeue or record.workload.state is not State.RUNNING:
        return DetailChange()
    if not can_suspend_job(context, record) or not _has_memory(context, record.workload, stop.by):
        return DetailChange()
    use = context.job_use(record.workload)
    memory = None if use is None else use.memory
    return DetailChange(suspension=Suspension(sentence=stop.sentence, by=stop.by, decided_at=stop.at, memory=memory))


def can_suspend_job(context: Context, record: Record) -> bool:
    """Return whether a pause of the job would be tried as a suspension, as far as that is known now."""
    workload = record.workload
    port = context.backend_of(workload.kind).capabilities.suspension
    if workload.kind is not Kind.TRAINING or port is None:
        return False
    devices = [device for task in workload.placement for device in task.devices]
    if workload.tasks != 1 or workload.groups or len(devices) != 1:
        return False
    if not context.settings.suspension.allows_job(devices) or _has_memory_quota(context, workload):
        return False
    return not port.describe_refusal(workload.id, workload.run)


def interpret_job_share(record: Record, seen: Observation | None, now: Instant) -> list[Change]:
    """Return the changes of a record that follow from the suspension of its job's run, as the backend sees it.

    A kept run that is gone or has ended is forgotten. A job that is stopping is back in its queue once its share is
    suspended; if the suspension failed, the refusal is recorded. Returns [] for notebooks and for records without a
    suspension. `seen` is the observation of the run; None = there is no such run.
    """
    workload, suspension = record.workload, record.detail.suspension
    if workload.kind is not Kind.TRAINING or suspension is None:
        return []
    share = None if seen is None else seen.share
    if waits_suspended(record):
        is_gone = seen is None or seen.phase is Phase.ENDED or (share is not None and share.ended)
        return [_forget_run(record, now)] if is_gone else []
    stops = workload.state is State.STOPPING and workload.stop is not None and workload.stop.requeue
    if share is None or not stops:
        return []
    if share.phase is SharePhase.SUSPENDED and not share.ended:
        return [_suspended(record, suspension, share, now)]
    if share.phase is SharePhase.IN_USE and has_failed(share, suspension):
        return [_refused(record, share, now)]
    return []


def act_on_job_share(record: Record, share: ShareState | None, port: ShareSuspension) -> None:
    """Tell the backend to resume the share of a job that has its devices; do nothing if the share is there."""
    has_devices = record.workload.state in {State.STARTING, State.RUNNING}
    if has_devices and share is not None and share.phase is SharePhase.SUSPENDED:
        resume_job(record.workload, port)


def resume_job(workload: Workload, port: ShareSuspension) -> None:
    """Tell the backend to resume the run of a job on the devices that the job has now."""
    port.resume(workload.id, workload.run, tuple(device for task in workload.placement for device in task.devices))


def suspend_instead(
    record: Record, share: ShareState | None, port: ShareSuspension | None, grace: Seconds, passed: Seconds
) -> bool:
    """Return True if a STOPPING job must not be told to end, since it is being suspended; begin or undo that.

    `passed` seconds of the grace have passed. After half of it no suspension is begun, and one under way is undone.
    After the grace the run must end.
    """
    workload, stop = record.workload, record.workload.stop
    if workload.kind is not Kind.TRAINING or record.detail.suspension is None or port is None:
        return False
    if stop is None or not stop.requeue or passed >= grace:
        return False
    in_time = passed < grace / 2
    if share is None:
        return in_time
    match share.phase:
        case SharePhase.IN_USE if in_time:
            port.suspend(workload.id, workload.run)
        case SharePhase.IN_USE:
            return False
        case SharePhase.SUSPENDING if not in_time:
            port.resume(workload.id, workload.run)
    return True


def was_to_be_suspended(record: Record) -> bool:
    """Return whether a job that is told to end was to be suspended first, which took some of its grace."""
    tried = record.detail.suspension is not None or record.detail.suspension_refusal is not None
    return tried and record.workload.kind is Kind.TRAINING


def _suspended(record: Record, intent: Suspension, share: ShareState, now: Instant) -> Change:
    """Return the change by which a job is back in its queue with a suspended run, with its entry in the audit log."""
    workload = record.workload
    memory = intent.memory if share.memory is None else share.memory
    suspension = replace(intent, since=now, memory=memory, seconds=share.seconds)
    return Change(
        workload=workload.id,
        event=Event.REQUEUED,
        fields=WorkloadChange(
            placement=(),
            leaving=(),
            stop=None,
            requeued_at=now,
            # A place that was kept for a new run may be at a device to which this run cannot return.
            reserved=(),
            nominated=False,
            **count_running_time(workload, now),
        ),
        detail=DetailChange(suspension=suspension, suspension_refusal=None),
        audit=act_of_suspension(Action.JOB_SUSPEND, workload, suspension, now),
    )


def _refused(record: Record, share: ShareState, now: Instant) -> Change:
    """Return the change that withdraws the intent after a failed attempt, so that the run is told to end."""
    before = record.detail.suspension_refusal
    refusal = SuspensionRefusal(sentence=share.failure, times=1 if before is None else before.times + 1, until=now)
    return Change(workload=record.workload.id, detail=DetailChange(suspension=None, suspension_refusal=refusal))


def _forget_run(record: Record, now: Instant) -> Change:
    """Return the change for a waiting job whose suspended run has ended."""
    detail = DetailChange(suspension=None, sentence=RUN_IS_GONE)
    return Change(workload=record.workload.id, fields=WorkloadChange(requeued_at=now), detail=detail)


def _has_memory(context: Context, workload: Workload, by: str | None) -> bool:
    """Return whether the machine has the memory for the work that needs the devices, beside the job's own memory."""
    if not workload.request.memory:
        return True
    record = None if by is None else context.records.find_unfinished(by)
    need = 0 if record is None else record.workload.request.memory * record.workload.tasks
    places = {task.node for task in workload.placement}
    used = sum(
        each.workload.request_of(task.group).memory
        for each in context.records.holding()
        for task in each.workload.held_places
        if task.node in places
    )
    whole = used + need + sum(context.kept_memory().values())
    return all(node.memory is None or whole <= node.memory for node in context.nodes() if node.name in places)


def _has_memory_quota(context: Context, workload: Workload) -> bool:
    """Return whether a queue on the path of a job that asks for memory has a quota or a limit of memory.

    The memory of a suspended run counts at its node and not in its queue, so such a job is not suspended.
    """
    if not workload.request.memory:
        return False
    queues = {queue.name: queue for queue in context.settings.training_tree()}
    path = path_of(workload.queue, queues)
    return any(queue.memory_quota is not None or queue.memory_limit is not None for queue in path)
