"""The store in a SQL database: SQLite in WAL mode, or PostgreSQL by its URL."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import sqlalchemy as sa

from jupyter_gq.client.outputs.fold import LEFT_OUT
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import AuditEntry, AuditFilter
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind

from . import statements
from .codec import decode_json, encode_json
from .engine import COMMAND
from .outside import Content, decode_content, encode_content, size_of
from .protocol import NO_SETTINGS, PARTS_DELETED, NewEvent, OutputPiece, OutputSize, PageSize, Record, StoredEvent
from .rows import RowDecoder, add_audit_entries, row_of
from .transactions import Transactions

#: Operations that change the outputs of a cell; a later `set` makes them superfluous.
_CHANGES_OUTPUTS = frozenset({"append", "replace", "clear", "set"})


#: Stored as the cell of marks in place of pieces that were left out, of which only the newest is kept.
_LEFT_OUT_CELL = "(left out)"
#: Ids in one statement.
_IDS = 500
_HUNDRED, _THOUSAND = PageSize(entries=100), PageSize(entries=1000)


class SqlStore:
    """The store in the database at `url`; see `store.protocol.Store` for the guarantees.

    Opening runs the migrations that the database lacks. Several threads may use one object.
    """

    def __init__(self, url: str, *, reserve: int = 0, program: str = COMMAND) -> None:
        """Open the database under the name `program`.

        `reserve` is the size in bytes of the reserve that the database keeps for changes of state.
        """
        self._database = Transactions(url, reserve=reserve, program=program)
        try:
            self._database.migrate()
        except BaseException:
            self._database.close()
            raise
        self._decoder = RowDecoder()

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The rows that could not be decoded since the store was opened: names such as "The event 7" with reasons."""
        return self._decoder.unreadable

    def check_pages(self) -> None:
        """Read every page of a SQLite file; raise `DamagedDatabase` if one is damaged. Does nothing for PostgreSQL."""
        self._database.check_pages()

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
        with self._database.write() as connection:
            if records:
                _put_records(connection, records)
            add_audit_entries(connection, audit)
            for name, value in settings.items():
                statements.put_setting(connection, {"name": name, "value": encode_json(value)})
            return _add_events(connection, events) if events else ()

    def get(self, workload: str) -> Record | None:
        """Return the record of the workload of that id; None if there is none that can be read."""
        with self._database.read() as connection:
            return self._record_or_none(statements.workload_by_id(connection, workload))

    def known_ids(self, workloads: Sequence[str]) -> frozenset[str]:
        """Return the ids of `workloads` that have a record, even if the record cannot be read."""
        with self._database.read() as connection:
            return frozenset(chain.from_iterable(statements.known_ids(connection, ids) for ids in _portions(workloads)))

    def unfinished(self) -> tuple[Record, ...]:
        """Return every record that is not final, oldest `submitted_at` first (ties by id)."""
        with self._database.read() as connection:
            return self._decoder.records(statements.unfinished_workloads(connection))

    def list(
        self,
        page: PageSize = _HUNDRED,
        *,
        kind: Kind | None = None,
        owner: str | None = None,
        group: str | None = None,
        before: str | None = None,
    ) -> tuple[Record, ...]:
        """Return one page of records of that kind, owner and group, newest first; None = all of them.

        `before` is the id of the last record of the previous page. An unknown id begins with the newest record.
        """
        with self._database.read() as connection:
            age = None if before is None else statements.workload_age(connection, before)
            words = None if group is None else f'"group":{encode_json(group)}'
            while rows := statements.newest_workloads(
                connection, page, kind=kind, owner=owner, detail=words, before=age
            ):
                found = self._decoder.records(rows)
                if group is not None:  # the statement does not tell upper case from lower case
                    found = tuple(record for record in found if record.detail.group == group)
                if found:  # an empty page would look like the end
                    return found
                age = (rows[-1].submitted_at, rows[-1].id)
            return ()

    def finished(self, submitted_before: Instant, after: str = "", limit: int = 100) -> tuple[Record, ...]:
        """Return at most `limit` final records that were submitted before that time, with ids above `after`, by id."""
        with self._database.read() as connection:
            found: list[Record] = []
            while rows := statements.finished_workloads(connection, submitted_before, after, limit - len(found)):
                found += self._decoder.records(rows)
                if len(found) == limit:
                    break
                after = rows[-1].id
            return tuple(found)

    def finished_owners(self, kind: Kind) -> dict[str, str]:
        """Return the owner of each final record of that kind, by its id, also of records that cannot be read."""
        with self._database.read() as connection:
            return dict(statements.finished_owners(connection, kind))

    def owners_of_finished(self, kind: Kind) -> frozenset[str]:
        """Return the owners of all final records of that kind."""
        with self._database.read() as connection:
            return frozenset(statements.owners_of_finished(connection, kind))

    def delete_portion(self, workload: str, pieces: int = 20) -> bool:
        """Delete a portion of a workload: its `pieces` oldest pieces of output, or else its files, or else its record.

        Returns True if the workload has no record any more, and False if something was deleted and the record is still
        there. Raises `Conflict` for a workload that is not final.
        """
        with self._database.write() as connection:
            row = statements.workload_by_id(connection, workload)
            if row is None:
                return True
            if not row.final:
                raise Conflict(f"The workload {workload} has not ended, so it cannot be deleted.")
            if statements.delete_first_outputs(connection, workload, pieces):
                return False
            if statements.delete_files(connection, workload):
                return False
            statements.delete_workload(connection, workload)
            return True

    def by_idempotency_key(self, owner: str, key: str) -> Record | None:
        """Return the record that the owner submitted with that key; None if there is none that can be read."""
        with self._database.read() as connection:
            return self._record_or_none(statements.workload_by_key(connection, owner, key))

    def append_outputs(self, workload: str, outputs: Sequence[OutputPiece]) -> int:
        """Append the new pieces of output that continue the sequence; return the highest stored number (0 = none).

        A piece that would leave a gap is not stored, nor are the pieces after it. A `set` deletes the earlier pieces of
        its cell, which it makes superfluous. Raises `NotFound` for new pieces of a workload that was never saved.
        """
        self._database.require_room()
        with self._database.write() as connection:
            last = statements.last_outputs(connection, [workload]).get(workload, 0)
            new = _continuation(last, outputs)
            if not new:
                return last
            _add_outputs(connection, workload, new)
            return new[-1].seq

    def outputs(self, workload: str, after: int = 0, page: PageSize = _THOUSAND) -> tuple[OutputPiece, ...]:
        """Return one page of pieces of output with a sequence number above `after`, in order.

        The pieces fold to the same outputs as all stored ones. Superfluous pieces may be missing, so the numbers
        increase but need not be consecutive.
        """
        with self._database.read() as connection:
            rows = statements.outputs_after(connection, workload, after, page)
        return self._decoder.outputs(rows)

    def output_size(self, workload: str) -> OutputSize:
        """Return the size of a workload's stored output."""
        with self._database.read() as connection:
            pieces, size = statements.output_size(connection, workload)
        return OutputSize(pieces=pieces, size=size)

    def kept_size(self, workload: str) -> int:
        """Return the bytes of a workload's output and files together; parts of files do not count."""
        with self._database.read() as connection:
            return statements.kept_size(connection, workload)

    def last_seqs(self, workloads: Sequence[str]) -> dict[str, int]:
        """Return the highest stored sequence number of each workload's output; 0 if there is none."""
        found = dict.fromkeys(workloads, 0)
        with self._database.read() as connection:
            for portion in _portions(workloads):
                found |= statements.last_outputs(connection, portion)
        return found

    def events_after(self, event: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events with an id above `event`, in order."""
        with self._database.read() as connection:
            rows = statements.events_after(connection, event, limit)
        return self._decoder.events(rows)

    def event_range(self) -> tuple[int, int]:
        """Return the smallest and the largest id of the stored events; (0, 0) if there is none."""
        with self._database.read() as connection:
            return statements.event_bounds(connection)

    def prune_events(self, keep: int) -> None:
        """Delete all events but the newest `keep`."""
        with self._database.write() as connection:
            statements.delete_events_but_newest(connection, keep)

    def setting(self, name: str) -> JsonObject | None:
        """Return the small document of that name, such as an owner's last eviction; None if there is none."""
        with self._database.read() as connection:
            value = statements.setting_by_name(connection, name)
        return None if value is None else decode_json(value)

    def put_setting(self, name: str, value: JsonObject, audit: Sequence[AuditEntry] = ()) -> None:
        """Insert or replace the small document of that name, and add these entries to the audit log."""
        with self._database.write() as connection:
            statements.put_setting(connection, {"name": name, "value": encode_json(value)})
            add_audit_entries(connection, audit)

    def audit(
        self, wanted: AuditFilter, page: PageSize = _HUNDRED, *, before: int | None = None
    ) -> tuple[AuditEntry, ...]:
        """Return one page of the entries of the audit log that the filter lets through, newest first.

        `before` is the id of the last entry of the previous page.
        """
        with self._database.read() as connection:
            while rows := statements.newest_audit_entries(connection, wanted, before, page):
                found = self._decoder.audit_entries(rows)
                if found:  # a page of damaged rows only would look like the end
                    return found
                before = rows[-1].id
            return ()

    def delete_audit_before(self, at: Instant, most: int = 1000) -> int:
        """Delete the oldest `most` entries of the audit log from before that time; return how many there were."""
        with self._database.write() as connection:
            return statements.delete_oldest_audit_entries(connection, at, most)

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file of a workload. The workload itself may be saved later."""
        self._database.require_room()
        with self._database.write() as connection:
            statements.put_file(connection, {"workload": workload, "name": name, "content": content})

    def file(self, workload: str, name: str) -> bytes | None:
        """Return the content of a file of a workload; None if there is no such file."""
        with self._database.read() as connection:
            return statements.file_by_name(connection, workload, name)

    def delete_file(self, workload: str, name: str) -> None:
        """Remove a file of a workload; no error if there is none."""
        with self._database.write() as connection:
            statements.delete_file(connection, workload, name)

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload; no error if there are none."""
        with self._database.write() as connection:
            statements.delete_files(connection, workload)

    def put_parts(self, owner: str, contents: Mapping[str, Content], now: Instant) -> None:
        """Insert or replace parts of an owner's files, by the SHA-256 of their content, as hex."""
        self._database.require_room()
        rows = [
            {
                **{"owner": owner, "digest": digest, "wanted_at": now},
                **{"size": size_of(content), "content": encode_content(content)},
            }
            for digest, content in contents.items()
        ]
        with self._database.write() as connection:
            statements.put_parts(connection, rows)

    def want_parts(self, owner: str, digests: Sequence[str], now: Instant) -> frozenset[str]:
        """Return the digests of the parts that the owner has, and record that the owner wants all of them `now`."""
        with self._database.write() as connection:
            known: set[str] = set()
            for portion in _portions(digests):
                known.update(statements.known_parts(connection, owner, portion))
                statements.touch_parts(connection, owner, portion, now)
            return frozenset(known)

    def find_parts(self, owner: str, digests: Sequence[str], names: frozenset[str]) -> frozenset[str]:
        """Return those of the `digests` of the owner's parts whose content is in one of the objects `names`."""
        wanted, found = {name.encode("ascii") for name in names}, dict[str, bytes]()
        with self._database.read() as connection:
            for portion in _portions(digests):
                found |= statements.part_contents(connection, owner, portion)
        return frozenset(digest for digest, content in found.items() if content in wanted)

    def parts_size(self, owner: str) -> int:
        """Return the size in bytes of all parts of an owner together."""
        with self._database.read() as connection:
            return statements.parts_size(connection, owner)

    def use_parts(self, workload: str, owner: str, parts: Sequence[tuple[str, int]]) -> frozenset[str]:
        """Record that a workload has these parts, in this order, so that they are kept; return the missing digests.

        Each part is a digest with its number of bytes; a part of another size is missing. If any part is missing,
        nothing is recorded. The workload itself may be saved later.
        """
        digests = [digest for digest, _ in parts]
        with self._database.write() as connection:
            missing = _find_missing_parts(connection, owner, parts)
            if not missing:
                _add_part_uses(connection, workload, owner, dict(enumerate(digests)))
            return missing

    def use_result_parts(self, workload: str, owner: str, parts: Sequence[tuple[str, int]]) -> frozenset[str]:
        """Record that these parts are what a workload brings back, in place of earlier ones; return the missing ones.

        Parts are given as for `use_parts`. If any is missing, nothing is recorded.
        """
        with self._database.write() as connection:
            missing = _find_missing_parts(connection, owner, parts)
            if not missing:
                statements.delete_result_uses(connection, workload)
                places = {-1 - number: digest for number, (digest, _) in enumerate(parts)}
                _add_part_uses(connection, workload, owner, places)
            return missing

    def part(self, owner: str, digest: str) -> Content | None:
        """Return the content of a part of an owner; None if there is no such part."""
        with self._database.read() as connection:
            found = statements.part_by_digest(connection, owner, digest)
            return None if found is None else decode_content(*found)

    def parts(self, workload: str, start: int, page: PageSize) -> tuple[Content, ...]:
        """Return one page of the parts of a workload from place `start` on, in order; empty after the last one."""
        with self._database.read() as connection:
            rows = statements.read_parts(connection, workload, start, page)
            return tuple(decode_content(row.content, row.size) for row in rows)

    def outside_names(self) -> frozenset[str]:
        """Return the names of all objects outside the database that have the content of a part or a bundle."""
        with self._database.read() as connection:
            return frozenset(name.decode("ascii") for name in statements.outside_names(connection))

    def delete_unused_parts(self, wanted_before: Instant, most: PageSize = PARTS_DELETED) -> int:
        """Delete parts that no workload has and that nobody has wanted since that time; return their number.

        One call deletes at most `most`, in one short transaction, and returns 0 if no such part is left.
        """
        with self._database.write() as connection:
            return statements.delete_unused_parts(connection, wanted_before, most)

    def take_over(self) -> int:
        """Become the only writer of the database, so that older stores get `Superseded`; return the new epoch.

        Also deletes the files of workloads that were never saved.
        """
        return self._database.take_over()

    def confirm(self) -> None:
        """Check that the database answers and that this store is still its writer; a success ends an outage.

        Raises `StoreUnavailable` if the database does not answer, and `Superseded` if another store has taken over.
        """
        self._database.confirm()
        self._database.keep_reserve()

    @property
    def shortage(self) -> str:
        """Why the database takes neither new outputs nor new jobs; "" = it has room."""
        return self._database.shortage

    def require_room(self) -> None:
        """Raise `StorageFull` if the room that is left on the disk is for changes of state only."""
        self._database.require_room()

    def close(self) -> None:
        """Close all connections to the database."""
        self._database.close()

    def _record_or_none(self, row: statements.Row | None) -> Record | None:
        return None if row is None else next(iter(self._decoder.records([row])), None)


def _put_records(connection: sa.Connection, records: Sequence[Record]) -> None:
    """Insert or replace the records; raise `Conflict` if an idempotency key is taken."""
    try:
        statements.put_workloads(connection, [row_of(record) for record in records])
    except sa.exc.IntegrityError as error:
        raise Conflict("Another workload of this owner was submitted with the same idempotency key.") from error


def _find_missing_parts(connection: sa.Connection, owner: str, wanted: Sequence[tuple[str, int]]) -> frozenset[str]:
    """Return those of these digests of which the owner has no part of that size in bytes."""
    known: dict[str, int] = {}
    for portion in _portions([digest for digest, _ in wanted]):
        known.update(statements.known_parts(connection, owner, portion))
    return frozenset(digest for digest, size in wanted if known.get(digest) != size)


def _add_part_uses(connection: sa.Connection, workload: str, owner: str, places: Mapping[int, str]) -> None:
    """Record that a workload has the parts of these digests, by their places."""
    rows = [
        {"workload": workload, "place": place, "owner": owner, "digest": digest} for place, digest in places.items()
    ]
    statements.add_part_uses(connection, rows)


def _portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in portions that fit one statement."""
    return (ids[start : start + _IDS] for start in range(0, len(ids), _IDS))


def _continuation(last: int, outputs: Sequence[OutputPiece]) -> list[OutputPiece]:
    """Return the pieces that continue the sequence after number `last` without a gap, in order.

    Pieces up to `last`, and those after the first gap, are left out.
    """
    new: list[OutputPiece] = []
    for output in sorted(outputs, key=lambda piece: piece.seq):
        if output.seq == last + 1:
            new.append(output)
            last = output.seq
        elif output.seq > last:
            break
    return new


def _add_outputs(connection: sa.Connection, workload: str, new: Sequence[OutputPiece]) -> None:
    """Store the pieces, and delete those that a `set` or a mark for left out pieces makes superfluous.

    Raises `NotFound` if the workload was never saved.
    """
    rows = [
        {"workload": workload, "seq": o.seq, "cell": _changed_cell(o.payload), "payload": encode_json(o.payload)}
        for o in new
    ]
    try:
        statements.add_outputs(connection, rows)
    except sa.exc.IntegrityError as error:
        raise NotFound(f"There is no workload {workload}.") from error
    replaced = {o.payload["cell"]: o.seq for o in new if o.payload.get("op") == "set" and "cell" in o.payload}
    replaced |= {_LEFT_OUT_CELL: max(marks)} if (marks := [o.seq for o in new if _is_mark(o.payload)]) else {}
    for cell, seq in replaced.items():
        statements.delete_outputs_of_cell(connection, workload, cell, seq)


def _is_mark(payload: JsonObject) -> bool:
    """Tell whether a piece stands in place of pieces that were left out."""
    return payload.get("op") == "run" and payload.get("state") == LEFT_OUT


def _changed_cell(payload: JsonObject) -> str | None:
    """Return the id of the cell whose outputs a piece changes; None for a mark such as the start of a cell."""
    if _is_mark(payload):
        return _LEFT_OUT_CELL
    return payload.get("cell") if payload.get("op") in _CHANGES_OUTPUTS else None


def _add_events(connection: sa.Connection, events: Sequence[NewEvent]) -> tuple[StoredEvent, ...]:
    """Insert the events and return them with their new ids, in the same order."""
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
