"""Records and events as rows of the tables, and back."""

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import FINAL

from . import statements
from .codec import decode_detail, decode_json, decode_workload, encode_detail, encode_workload
from .protocol import Record, StoredEvent


def row_of(record: Record) -> statements.Values:
    """Return the row of the table `workloads` for a record, by column."""
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


def record_or_none(row: statements.Row | None) -> Record | None:
    """Return the record of a row; None for None."""
    return None if row is None else record_of(row)


def record_of(row: statements.Row) -> Record:
    """Return the record of a row of the table `workloads`."""
    return Record(
        workload=decode_workload(row.document),
        detail=decode_detail(row.detail),
        idempotency_key=row.idempotency_key,
        token_hash=row.token_hash,
    )


def stored_event(row: statements.Row) -> StoredEvent:
    """Return the event of a row of the table `events`."""
    return StoredEvent(
        id=row.id,
        at=Instant(row.at),
        owner=row.owner,
        kind=row.kind,
        object=row.object,
        payload=decode_json(row.payload),
    )
