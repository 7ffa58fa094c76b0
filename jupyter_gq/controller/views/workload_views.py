"""The views of jobs, notebooks and tickets: pure functions from a record to what its owner sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.client.models import (
    CellRef,
    Eviction,
    ExpectedStart,
    IdleWarning,
    JobError,
    JobPhase,
    JobSummary,
    JobView,
    MemoryExcessView,
    NotebookView,
    Progress,
    TicketView,
    UnusedGpuView,
)
from jupyter_gq.controller.suspended_runs import ENDS_OF_SUSPENDED_RUNS
from jupyter_gq.devices import limits
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain import workload_detail
from jupyter_gq.domain.amount import MiB, Seconds, format_cpus, format_gpus, format_memory
from jupyter_gq.domain.cluster import UNKNOWN_MODEL, Device
from jupyter_gq.domain.job_names import find_origin
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Activity, Stop, Workload
from jupyter_gq.domain.workload_detail import Place
from jupyter_gq.scheduling.decision import Pending, Returning
from jupyter_gq.scheduling.evict.notices import promise_under_limit, tell_while_stopping, without_growth
from jupyter_gq.scheduling.explain.reasons import explain_hold
from jupyter_gq.scheduling.policy import IdleRule
from jupyter_gq.scheduling.wording import describe_duration
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.store.protocol import Record

from .gpu_use_views import memory_limit
from .pause_views import describe_first_copy, pause_view
from .suspension_views import Comeback, describe_lent, notebook_phase, suspension_sentence, suspension_view

#: Reasons to wait that the sentence of an eviction implies: the job continues as soon as there is room for it.
_WAITS_FOR_ROOM = {
    PendingReason.NO_FREE_DEVICE,
    PendingReason.FRAGMENTED,
    PendingReason.NO_CPU_OR_MEMORY,
    PendingReason.NO_DOMAIN,
    PendingReason.WAITS_FOR_EVICTION,
    PendingReason.WAITS_FOR_IDLE,
    PendingReason.MIN_RUNTIME,
    PendingReason.RESERVED,
    PendingReason.STARTS_SOON,
}
#: The sentence of a workload that the last decision did not know.
NOT_YET_CONSIDERED = "Waiting: it is considered next."
#: The sentence of a held job until it has stopped.
PAUSING_AND_HELD = "Pausing: it has a moment to save its state, and is held until it is released."

_JOB_PHASES: Mapping[State, JobPhase] = {
    State.PENDING: "waiting",
    State.ADMITTED: "starting",
    State.STARTING: "starting",
    State.RUNNING: "running",
    State.SUSPENDED: "running",
    State.RESUMING: "running",
    State.STOPPING: "cancelling",
    State.SUCCEEDED: "done",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewContext:
    """The data that a view needs beside the record."""

    #: Why the workload waits; None = it does not wait, or the last decision did not know it.
    pending: Pending | None = None
    #: When a pending job will probably start; None = unknown.
    expected_start: ExpectedStart | None = None
    #: Seconds that a job may run, by its own limit and that of its queue; None = no limit.
    max_seconds: float | None = None
    #: Highest stored sequence number of a job's output; 0 = no output.
    last_seq: int = 0
    #: Milli-GPU of a job above its queue's quota.
    over_quota: int = 0
    #: All devices, by id.
    devices: Mapping[str, Device]
    #: The rule by which a notebook counts as idle.
    idle: IdleRule
    #: Time within which a suspended share is back once a cell waits for it.
    return_within: Seconds
    #: What is left of this time since the borrowers were told to leave.
    return_left: Seconds
    #: What a suspended notebook in which a cell waits still waits for; None = the last decision did not know it.
    returning: Returning | None = None
    #: The last sample of the share of a notebook or a job.
    usage: ShareUse | None = None
    #: The finding that a job has used no GPU for a while; None = the job has used one, or nothing is known.
    unused: UnusedGpuView | None = None
    #: Disk space of a job's files; None = not measured.
    disk: MiB | None = None
    #: What is wrong with the running workload, or keeps a job from starting; "" = nothing.
    trouble: str = ""
    #: Number of suspended notebooks that have lent devices to a job.
    lenders: int = 0
    #: Whether a job that runs would be suspended if it were paused; None = not known yet.
    suspendable: bool | None = False
    #: The level at which the memory limit of the share is enforced.
    level: ShareLevel = ShareLevel.ADVISORY
    #: Why the driver or MPS does not limit the memory of the share although it shall; "" = it does, or it shall not.
    missing_limit: str = ""
    #: Whether an elastic job is of a queue that the settings have no more.
    has_lost_queue: bool = False
    #: What is done about a share that holds too much memory; None = nothing.
    over_limit: MemoryExcessView | None = None

    @property
    def comeback(self) -> Comeback:
        """The way back of a suspended share once a cell waits for it; without a time while something is wrong."""
        is_kept_out = bool(self.trouble) or (self.returning is not None and not self.returning.is_coming)
        within, left = (None, None) if is_kept_out else (self.return_within, self.return_left)
        return Comeback(within=within, left=left, plan=self.returning)


def job_view(record: Record, context: ViewContext) -> JobView:
    """Return the view of a job for its owner, from its record and the data in `context`."""
    return JobView(
        **vars(job_summary(record, context)),
        targets=_cell_refs(record.detail.targets),
        prefix=_cell_refs(record.detail.prefix),
        left_out_cells=None if record.detail.left_out_cells is None else list(record.detail.left_out_cells),
        carries_variables=record.detail.carries_variables,
    )


def job_summary(record: Record, context: ViewContext) -> JobSummary:
    """Return the view of a job for a list, from its record and the data in `context`."""
    workload, detail = record.workload, record.detail
    phase = job_phase(workload)
    # The last place of a job that ended is worth seeing; a job that waits has none.
    place = None if workload.state is State.PENDING else detail.place
    return JobSummary(
        id=workload.id,
        name=workload.name,
        owner=workload.owner,
        queue=workload.queue,
        gpus=format_gpus(workload.request.milli),
        gpu_memory=format_optional_memory(workload.request.device_memory),
        cpus=format_optional_cpus(workload.request.cpu_milli),
        memory=format_optional_memory(workload.request.memory),
        gpu_model=next(iter(workload.request.models), None),
        preferred_gpu_models=list(workload.request.preferred_models),
        tasks=workload.tasks,
        min_tasks=workload.min_members if workload.can_shrink else None,
        tasks_now=len(workload.placement) if workload.can_shrink and workload.holds else None,
        within=workload.topology.required if workload.topology is not None else None,
        priority=workload.priority,
        expected_seconds=workload.estimate,
        max_seconds=context.max_seconds,
        phase=phase,
        sentence=job_sentence(record, phase, context),
        position=_position(workload, context),
        expected_start=context.expected_start if _waits(workload) else None,
        held_since=workload.hold.at if workload.hold and workload.state not in FINAL else None,
        over_quota=format_gpus(context.over_quota) if context.over_quota and workload.holds else None,
        submitted_at=workload.submitted_at,
        started_at=workload.started_at,
        finished_at=workload.finished_at,
        ran_seconds=_ended_running_time(workload),
        running_since=workload.running_since,
        run=workload.run,
        devices=_device_names(place),
        node=place.node if place else None,
        server=detail.server,
        idempotency_key=record.idempotency_key or "",
        notebook_path=detail.notebook_path,
        origin=find_origin([c.cell_id for c in detail.targets], [c.cell_id for c in detail.prefix]),
        progress=_progress_view(detail.progress),
        saved_at=workload.checkpointed_at,
        pause=pause_view(record, phase, suspendable=context.suspendable),
        utilisation=context.usage.utilisation if context.usage else None,
        gpu_memory_used_mib=context.usage.memory if context.usage else None,
        gpu_memory_limit_mib=memory_limit(workload, context.devices),
        unused_gpu=context.unused,
        last_seq=context.last_seq,
        disk=format_memory(context.disk) if context.disk else None,
        eviction=eviction_view(detail.eviction),
        error=_error_view(detail.error) if phase == "failed" else None,
        returns=list(detail.returns),
        secrets=list(detail.secrets),
        software=detail.software,
        continue_from=detail.continue_from,
        group=detail.group,
        group_parallel=detail.group_parallel or None,
        group_metric=detail.group_metric,
        group_mode="min" if detail.group_mode == "min" else "max",
    )


def job_phase(workload: Workload) -> JobPhase:
    """Return the phase of a job as its owner sees it: a pending job that has run before is "paused".

    A job that is told to stop is "pausing" if it goes back to its queue, and "cancelling" otherwise.
    """
    if workload.state is State.PENDING and workload.run:
        return "paused"
    if workload.stop is not None and workload.holds:
        return "pausing" if workload.stop.requeue else "cancelling"
    return _JOB_PHASES[workload.state]


def job_sentence(record: Record, phase: JobPhase, context: ViewContext) -> str:
    """Return the sentence about a job in that phase.

    The sentence says why a job waits, was paused or has ended, why it stops, or on what it runs. Trouble of a running
    job, and that it uses no GPU, is appended.
    """
    workload = record.workload
    told = record.detail.sentence
    if workload.state is State.PENDING and workload.hold is not None:
        # Not from the last cycle, which may not know of the hold yet.
        held = explain_hold(workload.owner, workload.hold).sentence
        return f"{held} {told}" if told in ENDS_OF_SUSPENDED_RUNS else held
    if phase == "paused":
        return " ".join(filter(None, [*_reasons_of_pause(record.detail, context.pending), _queue_sentence(context)]))
    if phase == "waiting":
        return context.pending.why.sentence if context.pending else context.trouble or NOT_YET_CONSIDERED
    if workload.state in FINAL:
        return told or _final_sentence(workload)
    if workload.stop is not None:
        return _append_trouble(_tell_stop(workload, workload.stop, phase, context), context.trouble)
    place = _share_phrase(workload, record.detail.place, context)
    if phase == "starting":
        return _append_trouble(f"Starting on {place}{_tasks_phrase(workload)}.", context.trouble)
    # Of a job that can shrink, the sentence says how its number of tasks changed last.
    changed = told if workload.can_shrink else ""
    if context.has_lost_queue:  # which may have happened after that
        changed = without_growth(changed, workload.queue)
    runs = f"Running on {place}." if changed else f"Running on {place}{_tasks_phrase(workload)}."
    unused = "" if context.unused is None else context.unused.sentence
    running = [runs, describe_first_copy(record), changed, describe_lent(context.lenders), context.trouble, unused]
    return " ".join(filter(None, running))


def _tell_stop(workload: Workload, stop: Stop, phase: JobPhase, context: ViewContext) -> str:
    """Return why a job stops, and whether it continues by itself."""
    # A sentence that was told before the hold would promise that the job continues by itself.
    if phase == "pausing" and workload.hold is not None:
        return PAUSING_AND_HELD
    told = tell_while_stopping(stop.sentence)
    if phase == "pausing" and stop.reason is EvictReason.QUOTA_LOWERED and not context.has_lost_queue:
        return promise_under_limit(told)  # the limit may have been raised since the decision
    return told


def _reasons_of_pause(detail: workload_detail.WorkloadDetail, pending: Pending | None) -> list[str]:
    """Return why a job was paused, and why it waits now unless the first sentence says that.

    The sentence of an eviction promises that the job continues when a GPU is free. Since then, the cluster may have
    lost the only GPUs that will do, or a limit may have been set. What a lowered limit does to the job is always told
    anew: it may have been changed again. A job whose queue is gone does not continue by itself.
    """
    told, why = detail.sentence, pending.why.sentence if pending else NOT_YET_CONSIDERED
    if not told or (pending is not None and pending.why.reason is PendingReason.UNKNOWN_QUEUE):
        return [why]
    if told in ENDS_OF_SUSPENDED_RUNS:
        return [told, why]
    # The last eviction may be of an earlier run.
    last = detail.eviction
    lowered = last is not None and last.reason == EvictReason.QUOTA_LOWERED and last.sentence == told
    return [told] if pending is None or (pending.why.reason in _WAITS_FOR_ROOM and not lowered) else [told, why]


def notebook_view(record: Record, context: ViewContext) -> NotebookView:
    """Return the view of a notebook server and its share for its owner."""
    workload = record.workload
    place = record.detail.place
    device = _first_device(place, context) if workload.holds else None
    warning = idle_warning(record, context.idle)
    return NotebookView(
        id=workload.id,
        server=workload.name,
        owner=workload.owner,
        gpus=format_gpus(workload.milli),
        phase=notebook_phase(workload),
        sentence=notebook_sentence(record, context),
        position=_position(workload, context),
        submitted_at=workload.submitted_at,
        started_at=workload.started_at,
        finished_at=workload.finished_at,
        devices=_device_names(place),
        model=device.model if device else None,
        memory_quota_mib=_memory_quota(workload, device),
        memory_used_mib=context.usage.memory if context.usage else None,
        utilisation=context.usage.utilisation if context.usage else None,
        enforcement=context.level.value,
        enforcement_sentence=" ".join(filter(None, [context.level.meaning, context.missing_limit])),
        idle_since=_idle_since(workload),
        warning=warning,
        kept_until=_kept_until(workload),
        over_limit=context.over_limit,
        suspension=suspension_view(record, context.comeback),
        suspension_refusal=record.detail.suspension_refusal.sentence if record.detail.suspension_refusal else "",
        trouble=context.trouble,
        eviction=eviction_view(record.detail.eviction),
    )


def _memory_quota(workload: Workload, device: Device | None) -> int | None:
    """Return the MiB of device memory of a share; None without a device, or if the device's memory is unknown."""
    if device is None or not device.memory:
        return None
    return limits.memory_quota(device, workload.request.milli_per_device)


def notebook_sentence(record: Record, context: ViewContext) -> str:
    """Return the sentence about a notebook: why it waits, is suspended, stops or has ended, or which share it has."""
    workload = record.workload
    match notebook_phase(workload):
        case "waiting" if workload.state is State.ADMITTED:
            return "Your share is reserved; the server starts next."
        case "waiting":
            return context.pending.why.sentence if context.pending else context.trouble or NOT_YET_CONSIDERED
        case "starting":
            return f"The server starts with {_share_phrase(workload, record.detail.place, context)}."
        case "running":
            return _append_trouble(
                f"The server has {_share_phrase(workload, record.detail.place, context)}.", context.trouble
            )
        case "suspended" | "resuming":
            return _append_trouble(suspension_sentence(record, context.comeback), context.trouble)
        case "stopping":
            told = workload.stop.sentence if workload.stop else "The server is being stopped."
            return _append_trouble(told, context.trouble)
        case _:
            return record.detail.sentence or "The server has stopped."


def _append_trouble(told: str, trouble: str) -> str:
    """Return the sentence `told` followed by `trouble`, or only `told` if there is no trouble."""
    return f"{told} {trouble}" if trouble else told


def ticket_view(record: Record, context: ViewContext, environment: Mapping[str, str]) -> TicketView:
    """Return the spawner's view of a notebook, with the environment of the server's process."""
    workload = record.workload
    position = _position(workload, context)
    return TicketView(
        id=workload.id,
        server=workload.name,
        gpus=format_gpus(workload.milli),
        phase=notebook_phase(workload),
        sentence=notebook_sentence(record, context),
        position=position,
        ahead=None if position is None else position - 1,
        environment=dict(environment),
    )


def idle_warning(record: Record, rule: IdleRule) -> IdleWarning | None:
    """Return the warning of a running notebook whose share will be taken, with its countdown; None if there is none."""
    activity = record.workload.activity
    if activity is None or activity.expire_at is None or record.workload.state is not State.RUNNING:
        return None
    return IdleWarning(
        expire_at=activity.expire_at,
        sentence=record.detail.warning,
        keep_seconds=keep_seconds(activity, rule),
    )


def keep_seconds(activity: Activity, rule: IdleRule) -> float:
    """Return the seconds that one more "Keep it" would add; 0 if the bound is reached."""
    return max(0.0, min(rule.keep_step, rule.keep_total - activity.kept_total))


def eviction_view(eviction: workload_detail.Eviction | None) -> Eviction | None:
    """Return the wire form of an eviction; None for None."""
    if eviction is None:
        return None
    return Eviction(reason=eviction.reason, sentence=eviction.sentence, by=eviction.by, at=eviction.at)


def _progress_view(progress: workload_detail.Progress | None) -> Progress | None:
    return None if progress is None else Progress(fraction=progress.fraction, text=progress.text)


def _error_view(error: workload_detail.CodeError | None) -> JobError | None:
    return None if error is None else JobError(ename=error.ename, evalue=error.evalue)


def _cell_refs(cells: Sequence[workload_detail.SourceCell]) -> list[CellRef]:
    return [CellRef(cell_id=c.cell_id, source_hash=c.source_hash, seconds=c.seconds) for c in cells]


def format_optional_cpus(milli: int | None) -> str | None:
    """Return thousandths of a core as text in cores; None for 0 and for an unknown amount."""
    return format_cpus(milli) if milli else None


def format_optional_memory(mib: int | None) -> str | None:
    """Return MiB as text; None for 0 and for an unknown amount."""
    return format_memory(mib) if mib else None


def _position(workload: Workload, context: ViewContext) -> int | None:
    """Return the position of a pending workload in its queue, from 1.

    None if the position is unknown, and for a workload that is held or in another state.
    """
    return context.pending.position if context.pending and _waits(workload) else None


def _waits(workload: Workload) -> bool:
    """Return whether a workload is pending and can be admitted: a held one has no place in line and no forecast."""
    return workload.state is State.PENDING and workload.hold is None


def _queue_sentence(context: ViewContext) -> str:
    """Return a sentence with the number of jobs before this one in its queue; "" if there are none or it is unknown."""
    if context.pending is None or context.pending.position <= 1:
        return ""
    ahead = context.pending.position - 1
    return f"{ahead} {'job is' if ahead == 1 else 'jobs are'} before it in the queue."


def _final_sentence(workload: Workload) -> str:
    """Return the default sentence of a job that has ended, such as "Finished after 12 min."."""
    match workload.state:
        case State.SUCCEEDED:
            return f"Finished{_duration_phrase(workload)}."
        case State.FAILED:
            return f"Failed{_duration_phrase(workload)}."
        case _:
            return "Cancelled."


def _duration_phrase(workload: Workload) -> str:
    """Return the duration of all runs of an ended job, such as " after 12 min"; "" if it is unknown."""
    seconds = _ended_running_time(workload)
    return f" after {describe_duration(seconds)}" if seconds else ""


def _ended_running_time(workload: Workload) -> Seconds:
    """Return the seconds for which the runs that have ended ran.

    A job may end before any observation shows it running: the time since its start counts then.
    """
    unseen = not workload.ran and workload.state in {State.SUCCEEDED, State.FAILED}
    if unseen and workload.started_at is not None and workload.finished_at is not None:
        return Seconds(max(0.0, workload.finished_at - workload.started_at))
    return Seconds(workload.ran)


def _share_phrase(workload: Workload, place: Place | None, context: ViewContext) -> str:
    """Return a workload's share as text, with the model if it is known.

    Examples: "0.5 GPU of A100-40GB", "12 GiB (0.3 GPU) of A100-40GB", "no GPU".
    """
    if not workload.request.devices:
        return "no GPU"
    device, memory = _first_device(place, context), workload.request.device_memory
    milli = gang.held(workload)
    amount = f"{format_gpus(milli)} {'GPUs' if milli > 1000 else 'GPU'}"
    if memory is not None:
        amount = f"{format_memory(memory)}{' in each task' if workload.tasks > 1 else ''} ({amount})"
    return amount if device is None or device.model == UNKNOWN_MODEL else f"{amount} of {device.model}"


def _tasks_phrase(workload: Workload) -> str:
    """Return the phrase for a job that runs with fewer tasks than it asks for; "" for any other workload."""
    fewer = workload.can_shrink and len(workload.placement) < workload.tasks
    return f" with {len(workload.placement)} of its {workload.tasks} tasks" if fewer else ""


def _first_device(place: Place | None, context: ViewContext) -> Device | None:
    """Return the first device of a place; None if there is no place or the device is no longer known."""
    return context.devices.get(place.devices[0]) if place and place.devices else None


def _device_names(place: Place | None) -> list[str]:
    return list(place.devices) if place else []


def _kept_until(workload: Workload) -> float | None:
    """Return the end of the time of "Keep it", which may be over; None if the owner has not used it."""
    activity = workload.activity
    return None if activity is None or workload.state is not State.RUNNING else activity.kept_until


def _idle_since(workload: Workload) -> float | None:
    """Return the time since which a notebook is idle; None if it is busy, does not run, or its use is unknown."""
    activity = workload.activity
    if workload.state is not State.RUNNING or activity is None or activity.busy is not False:
        return None
    return activity.last_active
