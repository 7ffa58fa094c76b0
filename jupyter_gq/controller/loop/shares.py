"""The suspension of shares: what an observed share means for its record, and what its backend is told to do.

Rules
-----
Intent first: a decision to suspend is saved with the record, which stays RUNNING and holds its devices. Only once the
backend shows that the devices are free, the workload is SUSPENDED and its devices are lent.

News first: a suspension begins only while the notebook is heard of and idle. A service that was restarted, or whose
agent was, waits for a report, because the notebook may have been used meanwhile. A notebook that is idle still is then
suspended as decided.

Used again: if the notebook is used before that, the intent is withdrawn, and the backend undoes what it has done. A
cell that has begun and ended since the decision, between two reports, is a use too.

Refused: after a failed attempt the notebook runs on. The reason is kept. During a backoff that doubles each time in a
row, the share is kept as if the owner had asked for that: no attempt is made, and the server is not stopped instead.

Reserved first: a share is resumed only once its devices hold no other work. A share whose memory is on its devices
although it is SUSPENDED counts as used, so that the borrowers leave.

Ended: if the programs of a suspended share end, by a restart of the kernel for example, nothing is left to restore. The
owner is told so, and the host memory is no longer counted.

Never a loop: a resume that lost the GPU state is not repeated. The share is in use again, without that state.

See docs/decisions/0121-suspend-shares-level-triggered.md,
docs/decisions/0122-end-the-suspension-not-the-server-when-a-restore-fails.md and
docs/decisions/0486-begin-a-decided-suspension-only-on-news.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from jupyter_gq.backends.share_suspension import ShareSuspension
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.devices.suspension.share_state import SharePhase, ShareState
from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Activity, SuspensionRefusal, Workload
from jupyter_gq.domain.workload_detail import Suspension
from jupyter_gq.scheduling.decision import Resume, Suspend
from jupyter_gq.scheduling.idle.lending import is_wanted_back
from jupyter_gq.store.protocol import Record

#: The first and the longest backoff after a failed attempt to suspend a share.
FIRST_PAUSE, LONGEST_PAUSE = Seconds(60), Seconds(3600)
PROGRAMS_ENDED: Final = (
    "The kernel whose GPU state was kept has ended, and its variables with it. The share is lent; the next cell that "
    "you run brings it back."
)
UNUSABLE_GPU: Final = (
    "The GPU of this share cannot be used at present, so the share cannot come back now. What was on the GPU is kept, "
    "and the share comes back once the GPU can be used again. If that takes long, ask your administrator."
)
#: Phases in which the state of a share is not, or soon will not be, on its devices.
_AWAY: Final = frozenset({SharePhase.SUSPENDING, SharePhase.SUSPENDED})


def plan_suspension(record: Record, instruction: Suspend, now: Instant) -> list[Change]:
    """Return the change that saves the intent to suspend a share; none if it is saved already or nothing runs."""
    workload = record.workload
    if workload.state is not State.RUNNING or workload.stop is not None or record.detail.suspension is not None:
        return []
    intent = Suspension(sentence=instruction.sentence, by=instruction.by, decided_at=now)
    return [Change(workload=workload.id, detail=DetailChange(suspension=intent))]


def admit_resume(record: Record, instruction: Resume) -> list[Change]:
    """Return the change that gives a suspended notebook its devices back; none if it is not suspended or must stop."""
    workload = record.workload
    if workload.state is not State.SUSPENDED or workload.stop is not None:
        return []
    fields = WorkloadChange(placement=instruction.placement)
    return [Change(workload=workload.id, event=Event.RESUME_ADMITTED, fields=fields)]


def interpret_share(record: Record, share: ShareState | None, now: Instant) -> list[Change]:
    """Return the changes of one record that follow from the observation of its share; None is an unknown share."""
    workload = record.workload
    if share is None or workload.stop is not None:
        return []
    match workload.state:
        case State.RUNNING if record.detail.suspension is not None:
            return _interpret_intent(record, record.detail.suspension, share, now)
        case State.SUSPENDED if share.phase not in _AWAY:
            return _demand_back(workload, now)
        case State.SUSPENDED if share.ended:
            return _note_ended(record)
        case State.RESUMING if share.phase is SharePhase.IN_USE:
            return [_resumed(record, share, now)]
        case _:
            return []


def describe_unusable_gpu(record: Record, devices: Mapping[str, Device]) -> str:
    """Return a sentence if a cell waits for the share and one of its GPUs cannot be used; otherwise "".

    A GPU cannot be used if the driver has lost it, its node is not ready, or a run that should not be there holds it.
    `devices` are those of the cluster, by id.
    """
    if not is_wanted_back(record.workload):
        return ""
    held = [devices.get(device) for task in record.workload.placement for device in task.devices]
    return UNUSABLE_GPU if any(each is not None and not (each.healthy or each.withheld) for each in held) else ""


def act_on_share(record: Record, share: ShareState | None, port: ShareSuspension, *, is_idle: bool) -> None:
    """Tell the backend to suspend or resume a share, as its record says; do nothing if the share is unknown.

    A suspension begins only if it is known that the notebook `is_idle` now.
    """
    workload, intent = record.workload, record.detail.suspension
    if share is None:
        return
    if workload.state is State.RUNNING and intent is not None:
        if is_idle and share.phase is SharePhase.IN_USE and not has_failed(share, intent):
            port.suspend(workload.id, workload.run)
    elif workload.state in {State.RUNNING, State.RESUMING, State.STOPPING} and share.phase in _AWAY:
        # Without an intent, a suspension is undone. The devices of a workload in these states are its own.
        port.resume(workload.id, workload.run)


def _interpret_intent(record: Record, intent: Suspension, share: ShareState, now: Instant) -> list[Change]:
    """Return the change for a notebook that is to be suspended: suspended, used again, or refused."""
    workload = record.workload
    if _is_used_again(workload.activity, intent, now):
        return [Change(workload=workload.id, detail=DetailChange(suspension=None))]
    if share.phase is SharePhase.SUSPENDED:
        return [_suspended(record, intent, share, now)]
    if share.phase is SharePhase.IN_USE and has_failed(share, intent):
        return [_refused(record, share, now)]
    return []


def _is_used_again(activity: Activity | None, intent: Suspension, now: Instant) -> bool:
    """Return whether the share is used or was since the decision, or its owner keeps it; False if that is not known."""
    if activity is None:
        return False
    was_used = activity.last_active is not None and activity.last_active > intent.decided_at
    return activity.busy is True or was_used or (activity.kept_until is not None and now < activity.kept_until)


def has_failed(share: ShareState, intent: Suspension) -> bool:
    """Return whether the attempt of this intent has failed; a failure before the decision does not count."""
    return bool(share.failure) and share.failed_at is not None and share.failed_at >= intent.decided_at


def act_of_suspension(action: Action, workload: Workload, suspension: Suspension, now: Instant) -> AuditEntry:
    """Return the entry of the audit log on a suspension of a share that has succeeded."""
    return act_of_scheduler(
        action,
        workload,
        now,
        for_workload=suspension.by,
        sentence=reveal(suspension.sentence),
        memory_mib=suspension.memory,
        seconds=suspension.seconds,
    )


def _suspended(record: Record, intent: Suspension, share: ShareState, now: Instant) -> Change:
    """Return the change by which a share is suspended from now on, with its entry in the audit log."""
    workload, activity = record.workload, record.workload.activity
    suspension = replace(intent, since=now, memory=share.memory, seconds=share.seconds)
    return Change(
        workload=workload.id,
        event=Event.SUSPENDED,
        fields=WorkloadChange(activity=None if activity is None else replace(activity, expire_at=None)),
        detail=DetailChange(suspension=suspension, suspension_refusal=None, warning=""),
        audit=act_of_suspension(Action.NOTEBOOK_SUSPEND, workload, suspension, now),
    )


def _refused(record: Record, share: ShareState, now: Instant) -> Change:
    """Return the change that withdraws an intent after a failed attempt, and keeps the reason with a backoff."""
    before, activity = record.detail.suspension_refusal, record.workload.activity
    times = 1 if before is None else before.times + 1
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(times - 1, 10))
    refusal = SuspensionRefusal(sentence=share.failure, times=times, until=Instant(now + pause))
    kept = None if activity is None else replace(activity, expire_at=None, kept_until=refusal.until)
    return Change(
        workload=record.workload.id,
        fields=WorkloadChange(activity=kept),
        detail=DetailChange(suspension=None, suspension_refusal=refusal, warning=""),
    )


def _note_ended(record: Record) -> list[Change]:
    """Return the change by which a suspended notebook has no state left to bring back; none if that is known."""
    suspension = record.detail.suspension
    if suspension is None or suspension.sentence == PROGRAMS_ENDED:
        return []
    ended = replace(suspension, sentence=PROGRAMS_ENDED, memory=MiB(0))
    return [Change(workload=record.workload.id, detail=DetailChange(suspension=ended))]


def _demand_back(workload: Workload, now: Instant) -> list[Change]:
    """Return the change that marks a suspended notebook as used; none if it is marked already."""
    activity = workload.activity or Activity(busy=None, last_active=None, sampled_at=now)
    if activity.busy is True:
        return []
    return [Change(workload=workload.id, fields=WorkloadChange(activity=replace(activity, busy=True)))]


def _resumed(record: Record, share: ShareState, now: Instant) -> Change:
    """Return the change by which a share is in use again from now on, with its entry in the audit log."""
    workload, suspension = record.workload, record.detail.suspension
    activity = workload.activity
    since = None if suspension is None else suspension.since
    audit = act_of_scheduler(
        Action.NOTEBOOK_RESUME,
        workload,
        now,
        memory_mib=None if suspension is None else suspension.memory,
        seconds=share.seconds,
        suspended_seconds=None if since is None else round(now - since, 1),
        failure=share.failure or None,
    )
    return Change(
        workload=workload.id,
        event=Event.RESUMED,
        fields=WorkloadChange(activity=None if activity is None else replace(activity, last_active=now)),
        detail=DetailChange(suspension=None),
        audit=audit,
    )
