"""Changes of records: which fields of a workload and of its detail a change may set.

A change names only the fields that it sets. `Records.commit` applies it to the record as it is at that moment. So a
change never undoes other changes that were committed after it was made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from jupyter_gq.domain import states
from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.states import Event
from jupyter_gq.domain.workload import (
    Activity,
    Backoff,
    Hold,
    Leaving,
    Request,
    RunTimeLimit,
    Stop,
    SuspensionRefusal,
    TaskPlacement,
)
from jupyter_gq.domain.workload_detail import CodeError, Eviction, Place, Progress, Suspension
from jupyter_gq.store.protocol import Record


class WorkloadChange(TypedDict, total=False):
    """New values of fields of a `Workload`, without the state, which only an event of the state table changes."""

    queue: str
    priority: int
    request: Request
    tasks: int
    min_members: int
    placement: tuple[TaskPlacement, ...]
    leaving: tuple[Leaving, ...]
    reserved: tuple[TaskPlacement, ...]
    nominated: bool
    run: int
    started_at: Instant
    finished_at: Instant
    requeued_at: Instant
    checkpointed_at: Instant
    stop: Stop | None
    hold: Hold | None
    run_time_limit: RunTimeLimit | None
    run_time_bound: RunTimeLimit | None
    ran: float
    running_since: Instant | None
    activity: Activity | None


class DetailChange(TypedDict, total=False):
    """New values of fields of a `WorkloadDetail`, without those that come from a manifest and never change."""

    sentence: str
    eviction: Eviction
    over_quota: MilliGpu
    place: Place
    backoff: Backoff | None
    progress: Progress
    error: CodeError
    task_tokens: Mapping[int, str]
    tasks_with_bundle: tuple[int, ...]
    task_pods: Mapping[int, str]
    consecutive_losses: int
    pid: int
    pid_started: float
    given_back: bool
    named_devices: Mapping[str, str]
    warning: str
    suspension: Suspension | None
    suspension_refusal: SuspensionRefusal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of one record."""

    #: Id of the workload.
    workload: str
    #: The event that moves the state by the table of `domain.states`; None = the state stays.
    event: Event | None = None
    #: New values of fields of the workload.
    fields: WorkloadChange = field(default_factory=WorkloadChange)
    #: New values of fields of its detail.
    detail: DetailChange = field(default_factory=DetailChange)
    #: Replaces the hash of the job's token; None = the hash stays.
    token_hash: str | None = None
    #: Entry for the audit log, saved with the change; None = the change is no act of somebody.
    audit: AuditEntry | None = None

    @property
    def eviction(self) -> Eviction | None:
        """The eviction that the change records; None if it records none."""
        return self.detail.get("eviction")


def apply_change(record: Record, change: Change) -> Record:
    """Return the record after the change; nothing is stored.

    Raises `IllegalTransition` if the state table does not allow the event of the change.
    """
    workload = record.workload
    state = workload.state if change.event is None else states.apply(workload.id, workload.state, change.event)
    return replace(
        record,
        workload=replace(workload, state=state, **change.fields),
        detail=replace(record.detail, **change.detail),
        token_hash=record.token_hash if change.token_hash is None else change.token_hash,
    )


#: The values that each admission sets, since the tokens and devices of the previous run's pods are not valid any more.
NEW_RUN = DetailChange(task_tokens={}, tasks_with_bundle=(), task_pods={}, named_devices={})
