"""The first schema: workloads, their outputs, events and settings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables of workloads, outputs, events and settings, with their indexes."""
    op.create_table(
        "workloads",
        sa.Column("id", sa.Text, primary_key=True),
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
    op.create_index("workloads_by_age", "workloads", ["submitted_at", "id"])
    op.create_index("workloads_by_owner", "workloads", ["owner", "submitted_at"])
    op.create_index("workloads_live", "workloads", ["final", "submitted_at"])
    op.create_table(
        "outputs",
        sa.Column("workload", sa.Text, sa.ForeignKey("workloads.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("cell", sa.Text),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("object", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
