"""The store on SQL. SQLite in WAL mode with one writer; PostgreSQL by its URL passes the same contract."""

from collections.abc import Sequence

import sqlalchemy as sa

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind

from . import statements
from .codec import decode_json, encode_json
from .protocol import NewEvent, OutputEvent, Record, StoredEvent
from .rows import record_of, record_or_none, row_of, stored_event
from .transactions import Transactions

#: Operations that change the outputs of a cell; a later `set` makes them superfluous.
_CHANGES_OUTPUTS = frozenset({"append", "replace", "clear", "set"})


class SqlStore:
    """The store in the database at `url`; see `store.protocol.Store` for the guarantees.

    Opening runs the migrations that the database lacks. Several threads may use one object.
    """

    def __init__(self, url: str) -> None:
        self._database = Transactions(url)

    def check_pages(self) -> None:
        """Raise `DamagedDatabase` if a part of a SQLite file cannot be read."""
        self._database.check_pages()

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        """Insert or replace these records and append these events, all or nothing; return the events with ids."""
        with self._database.write() as connection:
            if records:
                _put_records(connection, records)
            return _add_events(connection, events) if events else ()

    def get(self, workload: str) -> Record | None:
        """Return a record; None if there is none of that id."""
        with self._database.read() as connection:
            return record_or_none(statements.workload_by_id(connection, workload))

    def live(self) -> tuple[Record, ...]:
        """Return every record that is not final, oldest `submitted_at` first (ties by id)."""
        with self._database.read() as connection:
            return tuple(record_of(row) for row in statements.live_workloads(connection))

    def list(
        self, *, kind: Kind | None = None, owner: str | None = None, limit: int = 100, before: str | None = None
    ) -> tuple[Record, ...]:
        """Return records, newest first.

        `before` is the id of the last record of the page before (unknown id: from the start).
        """
        with self._database.read() as connection:
            age = None if before is None else statements.workload_age(connection, before)
            rows = statements.newest_workloads(connection, kind=kind, owner=owner, limit=limit, before=age)
            return tuple(record_of(row) for row in rows)

    def finished(self, submitted_before: Instant, after: str = "", limit: int = 100) -> tuple[Record, ...]:
        """Return final records that were submitted before that time and have an id above `after`, by id."""
        with self._database.read() as connection:
            rows = statements.finished_workloads(connection, submitted_before, after, limit)
            return tuple(record_of(row) for row in rows)

    def forget(self, workload: str, pieces: int = 20) -> bool:
        """Remove `pieces` pieces of output; if none is left, the files; if there is none, the record.

        Returns True once the record is gone. Raises `Conflict` for a record that is not final.
        """
        with self._database.write() as connection:
            row = statements.workload_by_id(connection, workload)
            if row is None:
                return True
            if not row.final:
                raise Conflict(f"The workload {workload} has not ended, so it cannot be forgotten.")
            if statements.delete_first_outputs(connection, workload, pieces):
                return False
            if statements.delete_files(connection, workload):
                return False
            statements.delete_workload(connection, workload)
            return True

    def by_idempotency_key(self, owner: str, key: str) -> Record | None:
        """Return the record that this owner submitted with that key; None if there is none."""
        with self._database.read() as connection:
            return record_or_none(statements.workload_by_key(connection, owner, key))

    def append_outputs(self, workload: str, outputs: Sequence[OutputEvent]) -> int:
        """Append pieces that are new and continue the sequence; return the highest stored number (0: none).

        A piece that would leave a gap is not stored, nor what follows it. If a `set` arrives, the earlier pieces that
        it makes superfluous are forgotten: a reader sees increasing numbers, and folds to the same outputs. Raises
        `NotFound` for a workload that was never saved.
        """
        with self._database.write() as connection:
            last = statements.last_output(connection, workload)
            new = _continuation(last, outputs)
            if not new:
                return last
            _add_outputs(connection, workload, new)
            return new[-1].seq

    def outputs(self, workload: str, after: int = 0, limit: int = 1000) -> tuple[OutputEvent, ...]:
        """Return pieces with a sequence number above `after`, in order.

        The pieces fold to the same outputs as all stored ones. Superfluous pieces may be missing, so the numbers
        increase but need not be consecutive.
        """
        with self._database.read() as connection:
            rows = statements.outputs_after(connection, workload, after, limit)
        return tuple(OutputEvent(seq=row.seq, payload=decode_json(row.payload)) for row in rows)

    def last_seq(self, workload: str) -> int:
        """Return the highest stored sequence number; 0 if there is none."""
        with self._database.read() as connection:
            return statements.last_output(connection, workload)

    def events_after(self, event: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Return events with an id above `event`, in order."""
        with self._database.read() as connection:
            rows = statements.events_after(connection, event, limit)
        return tuple(stored_event(row) for row in rows)

    def event_range(self) -> tuple[int, int]:
        """Return the smallest and the largest stored id; (0, 0) if there is none."""
        with self._database.read() as connection:
            return statements.event_bounds(connection)

    def prune_events(self, keep: int) -> None:
        """Forget all but the newest `keep` events."""
        with self._database.write() as connection:
            statements.delete_events_but_newest(connection, keep)

    def setting(self, name: str) -> JsonObject | None:
        """Return a small named document (an owner's last eviction, the last good policy); None if there is none."""
        with self._database.read() as connection:
            value = statements.setting_by_name(connection, name)
        return None if value is None else decode_json(value)

    def put_setting(self, name: str, value: JsonObject) -> None:
        """Insert or replace that document."""
        with self._database.write() as connection:
            statements.put_setting(connection, {"name": name, "value": encode_json(value)})

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file of a workload, which need not be saved yet."""
        with self._database.write() as connection:
            statements.put_file(connection, {"workload": workload, "name": name, "content": content})

    def file(self, workload: str, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        with self._database.read() as connection:
            return statements.file_by_name(connection, workload, name)

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload; no error if there are none."""
        with self._database.write() as connection:
            statements.delete_files(connection, workload)

    def take_over(self) -> int:
        """Become the writer in place of all earlier ones; return the new epoch.

        Also removes the files of workloads that were never saved.
        """
        return self._database.take_over()

    def confirm(self) -> None:
        """Return if the database answers and nobody has taken over; else raise `StoreUnavailable` or `Superseded`."""
        self._database.confirm()

    def close(self) -> None:
        """Release the database."""
        self._database.close()


def _put_records(connection: sa.Connection, records: Sequence[Record]) -> None:
    try:
        statements.put_workloads(connection, [row_of(record) for record in records])
    except sa.exc.IntegrityError as error:
        raise Conflict("Another workload of this owner was submitted with the same idempotency key.") from error


def _continuation(last: int, outputs: Sequence[OutputEvent]) -> list[OutputEvent]:
    new: list[OutputEvent] = []
    for output in sorted(outputs, key=lambda piece: piece.seq):
        if output.seq == last + 1:
            new.append(output)
            last = output.seq
        elif output.seq > last:
            break
    return new


def _add_outputs(connection: sa.Connection, workload: str, new: Sequence[OutputEvent]) -> None:
    rows = [
        {"workload": workload, "seq": o.seq, "cell": _changed_cell(o.payload), "payload": encode_json(o.payload)}
        for o in new
    ]
    try:
        statements.add_outputs(connection, rows)
    except sa.exc.IntegrityError as error:
        raise NotFound(f"There is no workload {workload}.") from error
    replaced = {o.payload["cell"]: o.seq for o in new if o.payload.get("op") == "set" and "cell" in o.payload}
    for cell, seq in replaced.items():
        statements.delete_outputs_of_cell(connection, workload, cell, seq)


def _changed_cell(payload: JsonObject) -> str | None:
    return payload.get("cell") if payload.get("op") in _CHANGES_OUTPUTS else None


def _add_events(connection: sa.Connection, events: Sequence[NewEvent]) -> tuple[StoredEvent, ...]:
    rows = [
        {
            "at": event.at,
            "owner": event.owner,
            "kind": event.kind,
            "object": event.object,
            "payload": encode_json(event.payload),
        }
        for event in events
    ]
    return tuple(
        StoredEvent(
            id=number, at=event.at, owner=event.owner, kind=event.kind, object=event.object, payload=event.payload
        )
        for number, event in zip(statements.add_events(connection, rows), events, strict=True)
    )
