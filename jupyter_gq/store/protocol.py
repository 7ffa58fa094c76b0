"""The protocol of the store, which keeps what the service must remember. One contract suite runs against every store.

Guarantees
----------
Atomic saves: `save` stores all of its arguments or, after a crash or an error, none of them.

Event ids: events have increasing ids that are never reused, so a reader can resume after the last event that it saw.

Unique output: outputs of a job are unique by sequence number, and appending a piece twice changes nothing.

Full disk: a full disk raises `domain.errors.StorageFull` and changes nothing.

Outage: a database that does not answer raises `StoreUnavailable`, and it is unknown whether that write was kept. From
then on every call raises at once, until `confirm` reaches the database again.

Audit log: entries are only added, together with what they tell of. No call changes an entry, and only
`delete_audit_before` deletes old ones.

Damaged rows: a row that cannot be read is left out of every answer and listed in `unreadable`.

One writer: after `take_over`, every write of stores that were opened on this database before raises `Superseded` and
changes nothing, even a write that began at the same moment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Protocol, TypeVar

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import AuditEntry, AuditFilter
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .outside import Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A workload, with all other facts that the service stores of it."""

    workload: Workload
    #: The facts that the scheduling core does not need, such as the notebook path of a job.
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    #: Key of the submission, set once and unique for one owner: a repeated submission returns the same job.
    idempotency_key: str | None = None
    #: SHA-256 of the token of the job's runner; None = there is no token.
    token_hash: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEvent:
    """A stored change of which listeners are told."""

    id: int
    at: Instant
    #: The user who may see the event, beside admins; None = all users.
    owner: str | None
    #: Kind of the object: "job", "notebook" or "queues".
    kind: str
    #: Id of the object.
    object: str
    payload: JsonObject


Entry = TypeVar("Entry")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event to store; the store assigns its id."""

    at: Instant
    owner: str | None
    kind: str
    object: str
    payload: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputPiece:
    """A numbered piece of a job's output (the wire form is described in `client.outputs.fold`)."""

    #: From 1, without gaps, over all runs of the job.
    seq: int
    payload: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSize:
    """The largest page of a list. A page with one entry may be larger than `size`."""

    entries: int
    #: Bytes, as the entries are stored, or as they are sent if they are not stored.
    size: int = 2**63 - 1

    def take(self, entries: Iterable[Entry], size_of: Callable[[Entry], int]) -> list[Entry]:
        """Return the first entries that fit the page, at least one; `size_of` returns the bytes of an entry.

        At most one further entry is taken from the iterable.
        """
        found: list[Entry] = []
        size = 0
        for entry in islice(entries, self.entries):
            size += size_of(entry)
            if found and size > self.size:
                break
            found.append(entry)
        return found


#: No settings.
NO_SETTINGS: Mapping[str, JsonObject] = MappingProxyType({})
#: The unused parts of files that are deleted in one transaction: other writers wait for the deletion of so many bytes.
PARTS_DELETED = PageSize(entries=200, size=16 * 1024 * 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSize:
    """The number of pieces of a job's stored output, and their size in bytes."""

    pieces: int
    size: int


class Store(Protocol):
    """The database of the service; see the module for its guarantees."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The rows that could not be decoded since the store was opened: names such as "The event 7" with reasons."""
        ...

    @property
    def shortage(self) -> str:
        """Why the database takes neither new outputs nor new jobs, as `confirm` found it; "" = it has room."""
        ...

    def require_room(self) -> None:
        """Raise `StorageFull` if the room that is left on the disk is for changes of state only."""
        ...

    def save(
        self,
        records: Sequence[Record],
        events: Sequence[NewEvent] = (),
        audit: Sequence[AuditEntry] = (),
        settings: Mapping[str, JsonObject] = NO_SETTINGS,
    ) -> tuple[StoredEvent, ...]:
        """Insert or replace these records and append these events, all or nothing; return the events with their ids.

        `audit` are entries for the audit log, and `settings` small documents by name, which are stored with them.

        Raises `Conflict` if another workload of the owner has the same idempotency key.
        """
        ...

    def get(self, workload: str) -> Record | None:
        """Return the record of the workload of that id; None if there is none that can be read."""
        ...

    def known_ids(self, workloads: Sequence[str]) -> frozenset[str]:
        """Return the ids of `workloads` that have a record, even if the record cannot be read."""
        ...

    def unfinished(self) -> tuple[Record, ...]:
        """Return every record that is not final, oldest `submitted_at` first (ties by id)."""
        ...

    def list(
        self,
        page: PageSize = ...,
        *,
        kind: Kind | None = None,
        owner: str | None = None,
        group: str | None = None,
        before: str | None = None,
    ) -> tuple[Record, ...]:
        """Return one page of records of that kind, owner and group, newest first; None = all of them.

        `before` is the id of the last record of the previous page. An unknown id begins with the newest record.
        """
        ...

    def finished(self, submitted_before: Instant, after: str = "", limit: int = 100) -> tuple[Record, ...]:
        """Return at most `limit` final records that were submitted before that time, with ids above `after`, by id."""
        ...

    def finished_owners(self, kind: Kind) -> Mapping[str, str]:
        """Return the owner of each final record of that kind, by its id, also of records that cannot be read."""
        ...

    def owners_of_finished(self, kind: Kind) -> frozenset[str]:
        """Return the owners of all final records of that kind."""
        ...

    def delete_portion(self, workload: str, pieces: int = 20) -> bool:
        """Delete a portion of a workload: its `pieces` oldest pieces of output, or else its files, or else its record.

        Returns True if the workload has no record any more, and False if something was deleted and the record is still
        there. Raises `Conflict` for a workload that is not final.
        """
        ...

    def by_idempotency_key(self, owner: str, key: str) -> Record | None:
        """Return the record that the owner submitted with that key; None if there is none that can be read."""
        ...

    def append_outputs(self, workload: str, outputs: Sequence[OutputPiece]) -> int:
        """Append the new pieces of output that continue the sequence; return the highest stored number (0 = none).

        A piece that would leave a gap is not stored, nor are the pieces after it; the sender continues after the
        returned number. A store may delete pieces that a later `set` of the same cell, or a later mark for pieces that
        were left out, makes superfluous. Raises `NotFound` for new pieces of a workload that was never saved.
        """
        ...

    def outputs(self, workload: str, after: int = 0, page: PageSize = ...) -> tuple[OutputPiece, ...]:
        """Return one page of pieces of output with a sequence number above `after`, in order.

        The pieces fold to the same outputs as all stored ones. Superfluous pieces may be missing, so the numbers
        increase but need not be consecutive.
        """
        ...

    def output_size(self, workload: str) -> OutputSize:
        """Return the size of a workload's stored output."""
        ...

    def kept_size(self, workload: str) -> int:
        """Return the bytes of a workload's output and files together; parts of files do not count."""
        ...

    def last_seqs(self, workloads: Sequence[str]) -> Mapping[str, int]:
        """Return the highest stored sequence number of each workload's output; 0 if there is none."""
        ...

    def events_after(self, event: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events with an id above `event`, in order."""
        ...

    def event_range(self) -> tuple[int, int]:
        """Return the smallest and the largest id of the stored events; (0, 0) if there is none."""
        ...

    def prune_events(self, keep: int) -> None:
        """Delete all events but the newest `keep`."""
        ...

    def setting(self, name: str) -> JsonObject | None:
        """Return the small document of that name, such as an owner's last eviction; None if there is none."""
        ...

    def put_setting(self, name: str, value: JsonObject, audit: Sequence[AuditEntry] = ()) -> None:
        """Insert or replace the small document of that name, and add these entries to the audit log."""
        ...

    def audit(self, wanted: AuditFilter, page: PageSize = ..., *, before: int | None = None) -> tuple[AuditEntry, ...]:
        """Return one page of the entries of the audit log that the filter lets through, newest first.

        `before` is the id of the last entry of the previous page.
        """
        ...

    def delete_audit_before(self, at: Instant, most: int = 1000) -> int:
        """Delete the oldest `most` entries of the audit log from before that time; return how many there were."""
        ...

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file of a workload. The workload itself may be saved later."""
        ...

    def file(self, workload: str, name: str) -> bytes | None:
        """Return the content of a file of a workload; None if there is no such file."""
        ...

    def delete_file(self, workload: str, name: str) -> None:
        """Remove a file of a workload; no error if there is none."""
        ...

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload; no error if there are none."""
        ...

    def put_parts(self, owner: str, contents: Mapping[str, Content], now: Instant) -> None:
        """Insert or replace parts of an owner's files, by the SHA-256 of their content, as hex."""
        ...

    def want_parts(self, owner: str, digests: Sequence[str], now: Instant) -> frozenset[str]:
        """Return the digests of the parts that the owner has, and record that the owner wants all of them `now`."""
        ...

    def find_parts(self, owner: str, digests: Sequence[str], names: frozenset[str]) -> frozenset[str]:
        """Return those of the `digests` of the owner's parts whose content is in one of the objects `names`."""
        ...

    def parts_size(self, owner: str) -> int:
        """Return the bytes of all parts of an owner."""
        ...

    def use_parts(self, workload: str, owner: str, parts: Sequence[tuple[str, int]]) -> frozenset[str]:
        """Record that a workload has these parts, in this order, so that they are kept; return the missing digests.

        Each part is a digest with its number of bytes; a part of another size is missing. If any part is missing,
        nothing is recorded. The workload itself may be saved later.
        """
        ...

    def use_result_parts(self, workload: str, owner: str, parts: Sequence[tuple[str, int]]) -> frozenset[str]:
        """Record that these parts are what a workload brings back, in place of earlier ones; return the missing ones.

        Parts are given as for `use_parts`. If any is missing, nothing is recorded.
        """
        ...

    def part(self, owner: str, digest: str) -> Content | None:
        """Return the content of a part of an owner; None if there is no such part."""
        ...

    def parts(self, workload: str, start: int, page: PageSize) -> tuple[Content, ...]:
        """Return one page of the parts of a workload from place `start` on, in order; empty after the last one.

        `page.size` counts the bytes of contents that are outside the database too.
        """
        ...

    def outside_names(self) -> frozenset[str]:
        """Return the names of all objects outside the database that have the content of a part or a bundle."""
        ...

    def delete_unused_parts(self, wanted_before: Instant, most: PageSize = PARTS_DELETED) -> int:
        """Delete parts that no workload has and that nobody has wanted since that time; return their number.

        One call deletes at most `most`, in one short transaction, and returns 0 if no such part is left.
        """
        ...

    def take_over(self) -> int:
        """Become the only writer of the database, so that older stores get `Superseded`; return the new epoch.

        Also deletes files of workloads that were never saved: no earlier writer can save them any more.
        """
        ...

    def confirm(self) -> None:
        """Check that the database answers and that this store is still its writer; a success ends an outage.

        Raises `StoreUnavailable` if the database does not answer, and `Superseded` if another store has taken over.
        """
        ...

    def close(self) -> None:
        """Close all connections to the database."""
        ...
