"""The store as a protocol: what the controller needs to remember. One contract suite runs against every store.

Guarantees
----------
1. `save` is atomic over all its arguments: workloads, details, events. After a crash either all of it is there, or
   none.
2. Events have increasing ids that are never reused, so a reader can resume after the last event that it saw.
3. Outputs of a job are unique by sequence number; appending a piece twice changes nothing.
4. A full disk raises `domain.errors.StorageFull` and changes nothing.
5. A database that does not answer raises `StoreUnavailable`; whether that write was kept is not known. From then on
   every call raises at once, until `confirm` finds the database back.
6. A row that cannot be read is left out of every answer and listed in `unreadable`; the other rows are answered.
7. After `take_over` every write of stores that were opened on this database before raises `Superseded` and changes
   nothing, writes that began at the same moment included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A workload with the facts that the core does not need."""

    workload: Workload
    #: What the service remembers of the workload beside that, such as the notebook path of a job.
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    #: Set once, at submission; unique for one owner.
    idempotency_key: str | None = None
    #: SHA-256 of the token that the job's own runner uses; None when it has none.
    token_hash: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEvent:
    """A stored change that a listener may want to know."""

    id: int
    at: Instant
    #: User who may see it (admins see all); None = everybody who may read.
    owner: str | None
    #: "job", "notebook", "queues".
    kind: str
    #: Id of the object.
    object: str
    payload: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event to record; the store gives it its id."""

    at: Instant
    owner: str | None
    kind: str
    object: str
    payload: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputEvent:
    """A numbered piece of a job's output (the wire form is described in `client.outputs`)."""

    #: From 1, without gaps, over all runs of the job.
    seq: int
    payload: JsonObject


class Store(Protocol):
    """The memory of the service."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The rows that could not be read since the store was opened, each with the reason."""
        ...

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        """Insert or replace these records and append these events, all or nothing; return the events with ids."""
        ...

    def get(self, workload: str) -> Record | None:
        """Return a record; None if there is none of that id."""
        ...

    def live(self) -> tuple[Record, ...]:
        """Return every record that is not final, oldest `submitted_at` first (ties by id)."""
        ...

    def list(
        self, *, kind: Kind | None = None, owner: str | None = None, limit: int = 100, before: str | None = None
    ) -> tuple[Record, ...]:
        """Return records, newest first.

        `before` is the id of the last record of the page before (unknown id: from the start).
        """
        ...

    def finished(self, submitted_before: Instant, after: str = "", limit: int = 100) -> tuple[Record, ...]:
        """Return final records that were submitted before that time and have an id above `after`, by id."""
        ...

    def forget(self, workload: str, pieces: int = 20) -> bool:
        """Remove `pieces` pieces of output; if none is left, the files; if there is none, the record.

        Returns True once the record is gone. Raises `Conflict` for a record that is not final.
        """
        ...

    def by_idempotency_key(self, owner: str, key: str) -> Record | None:
        """Return the record that this owner submitted with that key; None if there is none."""
        ...

    def append_outputs(self, workload: str, outputs: Sequence[OutputEvent]) -> int:
        """Append pieces that are new and continue the sequence; return the highest stored number (0: none).

        A piece that would leave a gap is not stored, nor what follows it: the sender asks where to go on. A store may
        forget the pieces that a later `set` of the same cell makes superfluous.
        """
        ...

    def outputs(self, workload: str, after: int = 0, limit: int = 1000) -> tuple[OutputEvent, ...]:
        """Return pieces with a sequence number above `after`, in order.

        The pieces fold to the same outputs as all stored ones. Superfluous pieces may be missing, so the numbers
        increase but need not be consecutive.
        """
        ...

    def last_seq(self, workload: str) -> int:
        """Return the highest stored sequence number; 0 if there is none."""
        ...

    def events_after(self, event: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Return events with an id above `event`, in order."""
        ...

    def event_range(self) -> tuple[int, int]:
        """Return the smallest and the largest stored id; (0, 0) if there is none."""
        ...

    def prune_events(self, keep: int) -> None:
        """Forget all but the newest `keep` events."""
        ...

    def setting(self, name: str) -> JsonObject | None:
        """Return a small named document (an owner's last eviction, the last good policy); None if there is none."""
        ...

    def put_setting(self, name: str, value: JsonObject) -> None:
        """Insert or replace that document."""
        ...

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file of a workload, which need not be saved yet."""
        ...

    def file(self, workload: str, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        ...

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload; no error if there are none."""
        ...

    def take_over(self) -> int:
        """Become the writer in place of all earlier ones; return the new epoch.

        Files of workloads that were never saved are removed: nobody is about to save these any more.
        """
        ...

    def confirm(self) -> None:
        """Return if the database answers and nobody has taken over; else raise `StoreUnavailable` or `Superseded`."""
        ...

    def close(self) -> None:
        """Release the database."""
        ...
