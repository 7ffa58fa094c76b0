"""SQL statements, one named function each. The caller opens the transaction."""

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from jupyter_gq.domain.audit import AuditFilter

from .outside import LEAST_OUTSIDE, OUTSIDE_BUNDLE
from .protocol import PageSize
from .tables import audit_entries, events, files, leadership, outputs, part_uses, parts, settings, workloads

#: A row of a result: its columns are attributes, typed by the driver only.
Row = sa.Row[tuple[object, ...]]
#: A row to write, by column.
Values = Mapping[str, object]
#: Rows of a page that are in memory beyond those that fit it.
_ROWS_AT_ONCE = 8


def put_workloads(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Insert or replace rows of workloads."""
    _put(connection, workloads, rows, key=("id",))


def workload_by_id(connection: sa.Connection, workload: str) -> Row | None:
    """Return the row of a workload; None if there is none."""
    return connection.execute(sa.select(workloads).where(workloads.c.id == workload)).one_or_none()


def known_ids(connection: sa.Connection, ids: Sequence[str]) -> Sequence[str]:
    """Return the ids of `ids` that have a row in the table of workloads; `ids` must fit one statement."""
    return connection.execute(sa.select(workloads.c.id).where(workloads.c.id.in_(ids))).scalars().all()


def workload_by_key(connection: sa.Connection, owner: str, key: str) -> Row | None:
    """Return the row of the workload that an owner submitted with an idempotency key; None if there is none."""
    query = sa.select(workloads).where(workloads.c.owner == owner, workloads.c.idempotency_key == key)
    return connection.execute(query).one_or_none()


def unfinished_workloads(connection: sa.Connection) -> Sequence[Row]:
    """Return the rows of all workloads that are not final, oldest first."""
    query = sa.select(workloads).where(workloads.c.final.is_(False))
    return connection.execute(query.order_by(workloads.c.submitted_at, workloads.c.id)).all()


def newest_workloads(
    connection: sa.Connection,
    page: PageSize,
    *,
    kind: str | None,
    owner: str | None,
    detail: str | None,
    before: tuple[float, str] | None,
) -> Sequence[Row]:
    """Return one page of rows of workloads of that kind and owner, newest first; None = all kinds or owners.

    `detail` is text that the stored detail contains, in upper or lower case; None = any detail.
    `before` is (submitted_at, id) of the last row of the previous page; None = the first page.
    """
    query = sa.select(workloads).order_by(workloads.c.submitted_at.desc(), workloads.c.id.desc())
    if kind is not None:
        query = query.where(workloads.c.kind == kind)
    if owner is not None:
        query = query.where(workloads.c.owner == owner)
    if detail is not None:
        query = query.where(workloads.c.detail.contains(detail, autoescape=True))
    if before is not None:
        query = query.where(sa.tuple_(workloads.c.submitted_at, workloads.c.id) < sa.tuple_(*before))
    return _read_page(connection, query, page, lambda row: len(row.document) + len(row.detail))


def finished_workloads(connection: sa.Connection, submitted_before: float, after: str, limit: int) -> Sequence[Row]:
    """Return at most `limit` rows of final workloads, submitted before that time and with ids above `after`, by id."""
    # Only the condition on the ids can use an index: with any other, SQLite would sort all final workloads each time.
    final, submitted_at = workloads.c.final.is_not(False), workloads.c.submitted_at + 0
    query = sa.select(workloads).where(final, submitted_at < submitted_before, workloads.c.id > after)
    return connection.execute(query.order_by(workloads.c.id).limit(limit)).all()


def finished_owners(connection: sa.Connection, kind: str) -> Mapping[str, str]:
    """Return the owner of each final workload of that kind, by the workload's id; no document is read."""
    query = sa.select(workloads.c.id, workloads.c.owner).where(workloads.c.final.is_(True), workloads.c.kind == kind)
    return {row.id: row.owner for row in connection.execute(query)}


def owners_of_finished(connection: sa.Connection, kind: str) -> Sequence[str]:
    """Return the owners of all final workloads of that kind, each once."""
    query = sa.select(workloads.c.owner).where(workloads.c.final.is_(True), workloads.c.kind == kind).distinct()
    return connection.execute(query).scalars().all()


def delete_workload(connection: sa.Connection, workload: str) -> None:
    """Delete the row of a workload, with its outputs; its files stay."""
    connection.execute(sa.delete(workloads).where(workloads.c.id == workload))


def delete_first_outputs(connection: sa.Connection, workload: str, most: int) -> int:
    """Delete the oldest `most` pieces of a workload's output; return how many were deleted."""
    oldest = sa.select(outputs.c.seq).where(outputs.c.workload == workload).order_by(outputs.c.seq).limit(most)
    found = connection.execute(oldest).scalars().all()
    if found:
        connection.execute(sa.delete(outputs).where(outputs.c.workload == workload, outputs.c.seq <= found[-1]))
    return len(found)


def workload_age(connection: sa.Connection, workload: str) -> tuple[float, str] | None:
    """Return the sort key of a workload by age, (submitted_at, id); None if there is no such workload."""
    query = sa.select(workloads.c.submitted_at, workloads.c.id).where(workloads.c.id == workload)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.submitted_at, row.id)


def last_outputs(connection: sa.Connection, workloads: Sequence[str]) -> dict[str, int]:
    """Return the highest sequence number of the output of each workload that has some; they must fit one statement."""
    last = sa.func.max(outputs.c.seq).label("last")
    query = sa.select(outputs.c.workload, last).where(outputs.c.workload.in_(workloads)).group_by(outputs.c.workload)
    return {row.workload: row.last for row in connection.execute(query)}


def add_outputs(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Insert pieces of output."""
    connection.execute(sa.insert(outputs), rows)


def delete_outputs_of_cell(connection: sa.Connection, workload: str, cell: str, below: int) -> None:
    """Delete the pieces of a workload's output that changed this cell and have sequence numbers below `below`."""
    connection.execute(
        sa.delete(outputs).where(outputs.c.workload == workload, outputs.c.cell == cell, outputs.c.seq < below)
    )


def outputs_after(connection: sa.Connection, workload: str, after: int, page: PageSize) -> Sequence[Row]:
    """Return one page of pieces of output with sequence numbers above `after`, in order."""
    query = sa.select(outputs).where(outputs.c.workload == workload, outputs.c.seq > after).order_by(outputs.c.seq)
    return _read_page(connection, query, page, lambda row: len(row.payload))


def _length(connection: sa.Connection, content: sa.Column[bytes] | sa.Column[str]) -> sa.Function[int]:
    """Return the bytes of a content or of ASCII text; PostgreSQL would read all of a text to count its characters."""
    is_postgresql = connection.dialect.name == "postgresql"
    return sa.func.octet_length(content) if is_postgresql else sa.func.length(content)


def output_size(connection: sa.Connection, workload: str) -> tuple[int, int]:
    """Return the number of pieces of a workload's output, and their size in bytes; their text is ASCII."""
    size = sa.func.coalesce(sa.func.sum(_length(connection, outputs.c.payload)), 0)
    row = connection.execute(sa.select(sa.func.count(), size).where(outputs.c.workload == workload)).one()
    return int(row[0]), int(row[1])


def kept_size(connection: sa.Connection, workload: str) -> int:
    """Return the bytes of a workload's output and files together."""
    size = sa.func.coalesce(sa.func.sum(_length(connection, files.c.content)), 0)
    kept = connection.execute(sa.select(size).where(files.c.workload == workload)).scalar_one()
    return output_size(connection, workload)[1] + int(kept)


def add_events(connection: sa.Connection, rows: Sequence[Values]) -> Sequence[int]:
    """Insert events; return their ids in the same order."""
    insertion = sa.insert(events).returning(events.c.id, sort_by_parameter_order=True)
    return connection.execute(insertion, rows).scalars().all()


def events_after(connection: sa.Connection, event: int, limit: int) -> Sequence[Row]:
    """Return at most `limit` events with ids above `event`, in order."""
    return connection.execute(sa.select(events).where(events.c.id > event).order_by(events.c.id).limit(limit)).all()


def event_bounds(connection: sa.Connection) -> tuple[int, int]:
    """Return the smallest and the largest id of an event; (0, 0) if there is none."""
    low, high = connection.execute(sa.select(sa.func.min(events.c.id), sa.func.max(events.c.id))).one()
    return (low or 0, high or 0)


def delete_events_but_newest(connection: sa.Connection, keep: int) -> None:
    """Delete all events but the newest `keep`."""
    newest_deleted = sa.select(events.c.id).order_by(events.c.id.desc()).offset(keep).limit(1).scalar_subquery()
    connection.execute(sa.delete(events).where(events.c.id <= newest_deleted))


def add_audit_entries(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Insert entries of the audit log."""
    connection.execute(sa.insert(audit_entries), rows)


def newest_audit_entries(
    connection: sa.Connection, wanted: AuditFilter, before: int | None, page: PageSize
) -> Sequence[Row]:
    """Return one page of the entries that the filter lets through, newest first; `before` is an id, None = no bound."""
    columns = audit_entries.c
    query = sa.select(audit_entries).order_by(columns.id.desc())
    if before is not None:
        query = query.where(columns.id < before)
    if wanted.since is not None:
        query = query.where(columns.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(columns.at < wanted.until)
    for column in (columns.actor, columns.action, columns.object, columns.owner):
        value = getattr(wanted, column.name)
        if value is not None:
            query = query.where(column == value)
    return _read_page(connection, query, page, lambda row: sum(len(str(value)) for value in row))


def delete_oldest_audit_entries(connection: sa.Connection, before: float, most: int) -> int:
    """Delete the oldest `most` entries of the audit log from before that time; return how many there were."""
    oldest = sa.select(audit_entries.c.id).where(audit_entries.c.at < before).order_by(audit_entries.c.id).limit(most)
    return connection.execute(sa.delete(audit_entries).where(audit_entries.c.id.in_(oldest))).rowcount


def setting_by_name(connection: sa.Connection, name: str) -> str | None:
    """Return the document of a setting; None if there is no such setting."""
    return connection.execute(sa.select(settings.c.value).where(settings.c.name == name)).scalar_one_or_none()


def put_setting(connection: sa.Connection, row: Values) -> None:
    """Insert or replace a setting."""
    _put(connection, settings, [row], key=("name",))


def put_file(connection: sa.Connection, row: Values) -> None:
    """Insert or replace a file of a workload."""
    _put(connection, files, [row], key=("workload", "name"))


def file_by_name(connection: sa.Connection, workload: str, name: str) -> bytes | None:
    """Return the content of a file of a workload; None if there is no such file."""
    query = sa.select(files.c.content).where(files.c.workload == workload, files.c.name == name)
    return connection.execute(query).scalar_one_or_none()


def delete_file(connection: sa.Connection, workload: str, name: str) -> None:
    """Delete a file of a workload; no error if there is none."""
    connection.execute(sa.delete(files).where(files.c.workload == workload, files.c.name == name))


def delete_files(connection: sa.Connection, workload: str) -> int:
    """Delete the files of a workload and its uses of parts; return how many were deleted."""
    tables = (files, part_uses)
    return sum(connection.execute(sa.delete(table).where(table.c.workload == workload)).rowcount for table in tables)


def delete_files_without_workload(connection: sa.Connection) -> None:
    """Delete the files of workloads that were never saved, and their uses of parts."""
    for table in (files, part_uses):
        saved = sa.select(workloads.c.id).where(workloads.c.id == table.c.workload)
        connection.execute(sa.delete(table).where(~saved.exists()))


def put_parts(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Insert or replace parts of files."""
    _put(connection, parts, rows, key=("owner", "digest"))


def known_parts(connection: sa.Connection, owner: str, digests: Sequence[str]) -> dict[str, int]:
    """Return the bytes of the owner's parts with these digests, by digest; `digests` must fit one statement."""
    query = sa.select(parts.c.digest, parts.c.size).where(parts.c.owner == owner, parts.c.digest.in_(digests))
    return {row.digest: row.size for row in connection.execute(query)}


def part_contents(connection: sa.Connection, owner: str, digests: Sequence[str]) -> Mapping[str, bytes]:
    """Return what the rows of the owner's parts with these digests hold; `digests` must fit one statement."""
    query = sa.select(parts.c.digest, parts.c.content).where(parts.c.owner == owner, parts.c.digest.in_(digests))
    return {row.digest: row.content for row in connection.execute(query.where(parts.c.size >= LEAST_OUTSIDE))}


def touch_parts(connection: sa.Connection, owner: str, digests: Sequence[str], now: float) -> None:
    """Record that the owner wants these parts at the time `now`; `digests` must fit one statement."""
    named = sa.update(parts).where(parts.c.owner == owner, parts.c.digest.in_(digests))
    connection.execute(named.values(wanted_at=now))


def parts_size(connection: sa.Connection, owner: str) -> int:
    """Return the size in bytes of all parts of an owner together."""
    query = sa.select(sa.func.coalesce(sa.func.sum(parts.c.size), 0)).where(parts.c.owner == owner)
    return int(connection.execute(query).scalar_one())


def add_part_uses(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Insert uses of parts."""
    if rows:
        connection.execute(sa.insert(part_uses), rows)


def delete_result_uses(connection: sa.Connection, workload: str) -> None:
    """Delete the uses of the parts that a workload brings back."""
    connection.execute(sa.delete(part_uses).where(part_uses.c.workload == workload, part_uses.c.place < 0))


def part_by_digest(connection: sa.Connection, owner: str, digest: str) -> tuple[bytes, int] | None:
    """Return what the row of an owner's part holds, and the size of the part; None if there is no such part."""
    query = sa.select(parts.c.content, parts.c.size).where(parts.c.owner == owner, parts.c.digest == digest)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.content, row.size)


def read_parts(connection: sa.Connection, workload: str, start: int, page: PageSize) -> Sequence[Row]:
    """Return the content of one page of the parts of a workload from place `start` on, in order."""
    same = sa.and_(parts.c.owner == part_uses.c.owner, parts.c.digest == part_uses.c.digest)
    query = sa.select(parts.c.content, parts.c.size).select_from(part_uses).join(parts, same)
    query = query.where(part_uses.c.workload == workload, part_uses.c.place >= start).order_by(part_uses.c.place)
    return _read_page(connection, query, page, lambda row: row.size)


def outside_names(connection: sa.Connection) -> Sequence[bytes]:
    """Return the names of all objects outside the database that rows of parts and of files name."""
    of_parts = sa.select(parts.c.content).where(
        parts.c.size >= LEAST_OUTSIDE, _length(connection, parts.c.content) < LEAST_OUTSIDE
    )
    of_files = sa.select(files.c.content).where(files.c.name == OUTSIDE_BUNDLE)
    return connection.execute(sa.union_all(of_parts, of_files)).scalars().all()


def delete_unused_parts(connection: sa.Connection, wanted_before: float, most: PageSize) -> int:
    """Delete one page of the parts that no workload uses and whose owner last wanted them before `wanted_before`.

    Returns the number of deleted parts. All parts of the page are named in one statement, so `most.entries` must not
    exceed the number of parameters that the database allows in a statement.
    """
    used = sa.select(part_uses.c.digest).where(part_uses.c.owner == parts.c.owner, part_uses.c.digest == parts.c.digest)
    unused = sa.select(parts.c.owner, parts.c.digest, parts.c.size).where(
        parts.c.wanted_at < wanted_before, ~used.exists()
    )
    found = _read_page(connection, unused, most, lambda row: row.size)
    names = [(row.owner, row.digest) for row in found]
    return connection.execute(sa.delete(parts).where(sa.tuple_(parts.c.owner, parts.c.digest).in_(names))).rowcount


def epoch(connection: sa.Connection) -> int:
    """Return the stored epoch, which is that of the last takeover."""
    return int(connection.execute(sa.select(leadership.c.epoch)).scalar_one())


def lock_epoch(connection: sa.Connection) -> int:
    """Return the stored epoch, and lock its row until the end of the transaction; wait for the present holder."""
    return int(connection.execute(sa.select(leadership.c.epoch).with_for_update()).scalar_one())


def set_epoch(connection: sa.Connection, epoch: int) -> None:
    """Replace the stored epoch by that of a new takeover."""
    connection.execute(sa.update(leadership).values(epoch=epoch))


def _read_page(
    connection: sa.Connection, query: sa.Select[tuple[object, ...]], page: PageSize, size_of: Callable[[Row], int]
) -> Sequence[Row]:
    """Return the first rows of a query that fit the page, at least one; the others are not read into memory."""
    with connection.execute(query.limit(page.entries), execution_options={"yield_per": _ROWS_AT_ONCE}) as rows:
        return page.take(rows, size_of)


def _put(connection: sa.Connection, table: sa.Table, rows: Sequence[Values], *, key: tuple[str, ...]) -> None:
    """Insert rows, or replace the rows with the same values of the columns `key`."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(table)
    replaced = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in key}
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=replaced), rows)
