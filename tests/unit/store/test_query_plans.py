"""The plans by which SQLite answers questions about very many finished workloads."""

import sqlalchemy as sa

from jupyter_gq.store import statements
from jupyter_gq.store.sql import SqlStore


def test_a_page_of_finished_workloads_follows_their_ids_and_sorts_nothing(tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path / 'service.sqlite'}")
    asked = []
    with store._database.read() as connection:
        sa.event.listen(connection.engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
        statements.finished_workloads(connection, 1e9, "job-1", 100)
        statement, values = asked[-1]
        plan = [row[3] for row in connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    store.close()
    (step,) = plan
    assert step.startswith("SEARCH workloads USING INDEX sqlite_autoindex_workloads_1 (id>?)")
