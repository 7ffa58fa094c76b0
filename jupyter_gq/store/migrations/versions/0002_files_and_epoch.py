"""Files of workloads, the epoch of who writes, and on PostgreSQL the order of ids that SQLite and Python have."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of files and of the writer's epoch, which begins at 0.

    On PostgreSQL, also let ids of workloads sort by their bytes.
    """
    op.create_table(
        "files",
        sa.Column("workload", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    leadership = op.create_table(
        "leadership",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.Integer, nullable=False),
    )
    op.bulk_insert(leadership, [{"id": 1, "epoch": 0}])
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("workloads", "id", type_=sa.Text(collation="C"))
