"""Runs the migrations on the connection that `store.schema` hands over, inside its transaction."""

from alembic import context

from jupyter_gq.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # our SQLite connections begin transactions themselves, so DDL is part of them
)
with context.begin_transaction():
    context.run_migrations()
