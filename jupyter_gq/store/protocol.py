"""What the controller needs to remember, as a protocol. One contract suite runs against every implementation.

Guarantees
----------
1. `save` is atomic over everything it is given: workloads, details, events. Either all of it is there after a
   crash, or none.
2. Events have increasing ids that are never reused, so a reader can resume after the last one it saw.
3. Outputs of a job are unique by their sequence number; appending one twice changes nothing.
4. A full disk raises `domain.errors.StorageFull` and changes nothing.
5. A database that does not answer raises `StoreUnavailable`; whether that write was kept is not known. From then on
   every call raises it at once, until `confirm` finds the database back.
6. After `take_over` every write of the stores that were opened on this database before raises `Superseded` and
   changes nothing, also those that began at the same moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A workload with what the core does not need to know of it."""

    workload: Workload
    #: What the service remembers of the workload beside that, such as the notebook path of a job.
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    #: Set once, at submission; unique for one owner.
    idempotency_key: str | None = None
    #: SHA-256 of the token that the job's own runner uses; None when it has none.
    token_hash: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEvent:
    """Something that a listener may want to know."""

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
    """One numbered piece of a job's output (the wire form is described in `client.outputs`)."""

    #: From 1, without gaps, over all runs of the job.
    seq: int
    payload: JsonObject


class Store(Protocol):
    """Where the service remembers."""

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        """Insert or replace these records and append these events, all or nothing; return the events with ids."""
        ...

    def get(self, workload: str) -> Record | None:
        """One record."""
        ...

    def live(self) -> tuple[Record, ...]:
        """Every record that is not final, oldest `submitted_at` first (ties by id)."""
        ...

    def list(
        self, *, kind: Kind | None = None, owner: str | None = None, limit: int = 100, before: str | None = None
    ) -> tuple[Record, ...]:
        """Newest first; `before` = id of the last one of the page before (unknown id: from the start)."""
        ...

    def finished(self, submitted_before: Instant, after: str = "", limit: int = 100) -> tuple[Record, ...]:
        """Final records that were submitted before that time, in the order of their ids, those above `after`."""
        ...

    def forget(self, workload: str, pieces: int = 20) -> bool:
        """Remove so many pieces of its output or, when none is left, its files or, when there is none, its record;
        True when it is gone.

        A record that is not final is left alone: `Conflict`.
        """
        ...

    def by_idempotency_key(self, owner: str, key: str) -> Record | None:
        """The record that this owner submitted with that key."""
        ...

    def append_outputs(self, workload: str, outputs: Sequence[OutputEvent]) -> int:
        """Append those that are new and continue the sequence; return the highest stored sequence number (0: none).

        A piece that would leave a gap is not stored, nor what follows it: the sender asks where to go on. A store
        may forget the pieces that a later `set` of the same cell makes superfluous.
        """
        ...

    def outputs(self, workload: str, after: int = 0, limit: int = 1000) -> tuple[OutputEvent, ...]:
        """In order, those with a sequence number above `after`. They fold to what all of them folded to; those
        that became superfluous may be missing, so the numbers increase but need not be consecutive."""
        ...

    def last_seq(self, workload: str) -> int:
        """The highest stored sequence number; 0 when there is none."""
        ...

    def events_after(self, event: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """In order, those with an id above `event`."""
        ...

    def event_range(self) -> tuple[int, int]:
        """Smallest and largest id that is stored; (0, 0) when there is none."""
        ...

    def prune_events(self, keep: int) -> None:
        """Forget all but the newest `keep` events."""
        ...

    def setting(self, name: str) -> JsonObject | None:
        """A small named document (an owner's last eviction, the last good policy)."""
        ...

    def put_setting(self, name: str, value: JsonObject) -> None:
        """Insert or replace that document."""
        ...

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file of a workload, which need not be saved yet."""
        ...

    def file(self, workload: str, name: str) -> bytes | None:
        """What is in that file; None when there is none."""
        ...

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload. No error if there are none."""
        ...

    def take_over(self) -> int:
        """Become the one that may write, in place of all that did before; return the new epoch.

        Files of workloads that were never saved are removed: nobody is about to save those any more.
        """
        ...

    def confirm(self) -> None:
        """Return when the database answers and nobody has taken over; else `StoreUnavailable` or `Superseded`."""
        ...

    def close(self) -> None:
        """Release the database."""
        ...
