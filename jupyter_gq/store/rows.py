"""Records, outputs, events and audit entries as rows of the tables, and back."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import FINAL

from . import statements
from .codec import decode_detail, decode_json, decode_workload, encode_detail, encode_json, encode_workload
from .protocol import OutputPiece, Record, StoredEvent

log = logging.getLogger(__name__)

Decoded = TypeVar("Decoded")

#: Errors of a document that does not have the form that this release, or an older one, has written.
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def row_of(record: Record) -> statements.Values:
    """Return the row of the table `workloads` that stores a record, as values by column."""
    workload = record.workload
    return {
        "id": workload.id,
        "kind": workload.kind.value,
        "owner": workload.owner,
        "final": workload.state in FINAL,
        "submitted_at": workload.submitted_at,
        "idempotency_key": record.idempotency_key,
        "token_hash": record.token_hash,
        "document": encode_workload(workload),
        "detail": encode_detail(record.detail),
    }


def add_audit_entries(connection: sa.Connection, entries: Sequence[AuditEntry]) -> None:
    """Add entries to the audit log."""
    rows = [
        {
            "at": entry.at,
            "actor": entry.actor,
            "action": entry.action.value,
            "object": entry.object,
            "owner": entry.owner,
            "details": encode_json(dict(entry.details)),
        }
        for entry in entries
    ]
    if rows:
        statements.add_audit_entries(connection, rows)


class RowDecoder:
    """A decoder of rows; a row that cannot be read is left out, logged once, and listed."""

    def __init__(self) -> None:
        #: The rows that could not be read, each with the reason.
        self.unreadable: dict[str, str] = {}

    def records(self, rows: Iterable[statements.Row]) -> tuple[Record, ...]:
        """Return the records of those rows that can be read; list the other rows in `unreadable`."""
        return tuple(self._decode(rows, _record_of, lambda row: f"The workload {row.id}"))

    def outputs(self, rows: Iterable[statements.Row]) -> tuple[OutputPiece, ...]:
        """Return the pieces of output of those rows that can be read; list the other rows in `unreadable`."""
        return tuple(self._decode(rows, _output_of, lambda row: f"The output {row.seq} of {row.workload}"))

    def events(self, rows: Iterable[statements.Row]) -> tuple[StoredEvent, ...]:
        """Return the events of those rows that can be read; list the other rows in `unreadable`."""
        return tuple(self._decode(rows, _event_of, lambda row: f"The event {row.id}"))

    def audit_entries(self, rows: Iterable[statements.Row]) -> tuple[AuditEntry, ...]:
        """Return the entries of the audit log of those rows that can be read; list the other rows in `unreadable`."""
        return tuple(self._decode(rows, _audit_entry_of, lambda row: f"The audit entry {row.id}"))

    def _decode(
        self,
        rows: Iterable[statements.Row],
        decode: Callable[[statements.Row], Decoded],
        name: Callable[[statements.Row], str],
    ) -> Iterator[Decoded]:
        for row in rows:
            try:
                decoded = decode(row)
            except _DAMAGED as error:
                self._set_aside(name(row), f"{type(error).__name__}: {error}")
                continue
            yield decoded

    def _set_aside(self, place: str, why: str) -> None:
        if place not in self.unreadable:
            log.error("%s cannot be read from the database and is set aside. %s", place, why)
        self.unreadable[place] = why


def _record_of(row: statements.Row) -> Record:
    return Record(
        workload=decode_workload(row.document),
        detail=decode_detail(row.detail),
        idempotency_key=row.idempotency_key,
        token_hash=row.token_hash,
    )


def _output_of(row: statements.Row) -> OutputPiece:
    return OutputPiece(seq=row.seq, payload=_object(row.payload))


def _event_of(row: statements.Row) -> StoredEvent:
    return StoredEvent(
        id=row.id,
        at=Instant(row.at),
        owner=row.owner,
        kind=row.kind,
        object=row.object,
        payload=_object(row.payload),
    )


def _audit_entry_of(row: statements.Row) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=Instant(row.at),
        actor=row.actor,
        action=Action(row.action),
        object=row.object,
        owner=row.owner,
        details=_object(row.details),
    )


def _object(document: str) -> JsonObject:
    value = decode_json(document)
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value
