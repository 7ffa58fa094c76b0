"""Changes of records, typed: which fields a change may set, of the workload and of its detail.

A change names only the fields that it sets. `Records.commit` applies it to the record as it is at that moment, so a
change never undoes what another one wrote since it was made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from jupyter_gq.domain import states
from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.states import Event
from jupyter_gq.domain.workload import Activity, Backoff, Stop, TaskPlacement
from jupyter_gq.domain.workload_detail import CodeError, Eviction, Place, Progress
from jupyter_gq.store.protocol import Record


class WorkloadChange(TypedDict, total=False):
    """New values of fields of a `Workload`. The state is not among them: only an event of the table changes it."""

    placement: tuple[TaskPlacement, ...]
    reserved: tuple[TaskPlacement, ...]
    nominated: bool
    run: int
    started_at: Instant
    finished_at: Instant
    requeued_at: Instant
    checkpointed_at: Instant
    stop: Stop | None
    activity: Activity | None


class DetailChange(TypedDict, total=False):
    """New values of fields of a `WorkloadDetail`. What comes from a manifest is not among them: it never changes."""

    sentence: str
    eviction: Eviction
    over_quota: MilliGpu
    place: Place
    backoff: Backoff | None
    progress: Progress
    error: CodeError
    task_tokens: Mapping[int, str]
    tasks_with_bundle: tuple[int, ...]
    consecutive_losses: int
    pid: int
    pid_started: float
    given_back: bool
    named_devices: Mapping[str, str]
    warning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of one record."""

    #: Id of the workload.
    workload: str
    #: Moves the state by the table of `domain.states`; None = the state stays.
    event: Event | None = None
    #: New values of fields of the workload.
    fields: WorkloadChange = field(default_factory=WorkloadChange)
    #: New values of fields of its detail.
    detail: DetailChange = field(default_factory=DetailChange)
    #: Replaces the hash of the job's token; None = the hash stays.
    token_hash: str | None = None

    @property
    def eviction(self) -> Eviction | None:
        """The eviction that the change records; None if it records none."""
        return self.detail.get("eviction")


def apply_change(record: Record, change: Change) -> Record:
    """Return the record after the change. Raises `IllegalTransition` if the state table has no such arrow."""
    workload = record.workload
    state = workload.state if change.event is None else states.apply(workload.id, workload.state, change.event)
    return replace(
        record,
        workload=replace(workload, state=state, **change.fields),
        detail=replace(record.detail, **change.detail),
        token_hash=record.token_hash if change.token_hash is None else change.token_hash,
    )


#: Set by the admission of each run: what was given to the pods of the run before is worthless.
NEW_RUN = DetailChange(task_tokens={}, tasks_with_bundle=(), named_devices={})
