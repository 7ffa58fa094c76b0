"""Tables of the database. Queried fields have columns; the rest of a record is one JSON document beside them."""

import sqlalchemy as sa

metadata = sa.MetaData()

# Ids sort by their bytes, as in SQLite and Python, whatever the language of the database.
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

workloads = sa.Table(
    "workloads",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("final", sa.Boolean, nullable=False),
    sa.Column("submitted_at", sa.Double, nullable=False),
    sa.Column("idempotency_key", sa.Text),
    sa.Column("token_hash", sa.Text),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.UniqueConstraint("owner", "idempotency_key", name="workloads_owner_key"),
)
sa.Index("workloads_by_age", workloads.c.submitted_at, workloads.c.id)
sa.Index("workloads_by_owner", workloads.c.owner, workloads.c.submitted_at)
sa.Index("workloads_live", workloads.c.final, workloads.c.submitted_at)

outputs = sa.Table(
    "outputs",
    metadata,
    sa.Column("workload", sa.Text, sa.ForeignKey("workloads.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    # The cell whose outputs this piece changes; NULL for marks such as the start of a run or a cell.
    sa.Column("cell", sa.Text),
    sa.Column("payload", sa.Text, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    # Otherwise SQLite would reuse the id of a deleted event.
    sqlite_autoincrement=True,
)

audit_entries = sa.Table(
    "audit_entries",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("details", sa.Text, nullable=False),
    # Otherwise SQLite would reuse the id of a deleted entry.
    sqlite_autoincrement=True,
)
sa.Index("audit_entries_by_time", audit_entries.c.at)
sa.Index("audit_entries_by_actor", audit_entries.c.actor, audit_entries.c.id)
sa.Index("audit_entries_by_object", audit_entries.c.object, audit_entries.c.id)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

files = sa.Table(
    "files",
    metadata,
    # Not a foreign key: the bundle of a job is stored before its record, so that no record is without its bundle.
    # See docs/decisions/0031-keep-job-files-in-the-store.md.
    sa.Column("workload", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# Parts of the project files that jobs take along: each content once for each user, so that no user learns what another
# one has. See docs/decisions/0125-keep-frozen-files-in-the-database-once-for-each-user.md.
parts = sa.Table(
    "parts",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("size", sa.Integer, nullable=False),
    # When the owner last sent the part or asked for it; a part that no job has is deleted some time later.
    sa.Column("wanted_at", sa.Double, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
# No foreign keys: a job's uses are stored before its record, as its files are.
part_uses = sa.Table(
    "part_uses",
    metadata,
    sa.Column("workload", sa.Text, primary_key=True),
    # From 0: the parts that the job takes along, in order. Below 0: those that it brings back.
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
sa.Index("part_uses_by_part", part_uses.c.owner, part_uses.c.digest)

# One row with the epoch of the last takeover. Every write locks it first and compares the epoch with its own.
leadership = sa.Table(
    "leadership",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.Integer, nullable=False),
)
