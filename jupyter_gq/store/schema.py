"""The schema of a database: brings it to the present revision. Safe if two processes open one database at once."""

from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError

MIGRATIONS = Path(__file__).parent / "migrations"
#: The newest revision in `migrations/versions`; a test compares them.
NEWEST = "0002"
_KNOWN = frozenset({"0001", NEWEST})
#: Any constant will do, as long as it is ours.
_ADVISORY_LOCK = 0x6A7571


def revision(connection: sa.Connection) -> str | None:
    """Return the revision of this database; None if it is empty."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def migrate(connection: sa.Connection) -> None:
    """Run the migrations that this database lacks, inside the caller's write transaction.

    Raises `AdminError` if the database was written by a newer release.
    """
    if not _lacks(connection):
        return
    if connection.dialect.name != "postgresql":
        upgrade(connection)
        return
    from .patience import as_long_as_it_takes  # the driver of PostgreSQL is needed only here

    with as_long_as_it_takes(connection):
        # The second process waits for the first, and finds nothing left to do.
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if _lacks(connection):
            upgrade(connection)


def expect_newest(connection: sa.Connection, place: str) -> None:
    """Raise `AdminError` if the database at `place` is empty, or was written by another release."""
    found = revision(connection)
    if found is None:
        raise AdminError(f"{place} is no database of jupyter-gq.")
    if _lacks(connection):
        raise AdminError(
            f"The database {place} has the schema {found} of an older release, and this release has {NEWEST}. "
            "Use the release that wrote it, or start the service of this one first."
        )


def _lacks(connection: sa.Connection) -> bool:
    """Return True if the schema is not the newest; raises `AdminError` if it is newer than ours."""
    found = revision(connection)
    if found is not None and found not in _KNOWN:
        raise AdminError(
            f"The database has the schema {found}, which this release does not know (it knows up to {NEWEST}). "
            "Install the release that wrote it, or a newer one."
        )
    return found != NEWEST


def upgrade(connection: sa.Connection, to: str = NEWEST) -> None:
    """Run the migrations up to this revision."""
    # Imported here: most starts find the schema in place, and Alembic costs time and memory.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to)
