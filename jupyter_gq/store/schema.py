"""The schema of a database and its migrations, safe if two processes open one database at the same time."""

from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError

MIGRATIONS = Path(__file__).parent / "migrations"
#: The newest revision in `migrations/versions`; a test compares them.
NEWEST = "0004"
_KNOWN = frozenset({"0001", "0002", "0003", NEWEST})
#: Key of PostgreSQL's advisory lock; any constant that no other program uses.
_ADVISORY_LOCK = 0x6A7571


def revision(connection: sa.Connection) -> str | None:
    """Return the revision of the database's schema; None if the database holds no schema of ours."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def migrate(connection: sa.Connection, place: str) -> None:
    """Run the migrations that the database `place` lacks, inside the caller's write transaction.

    Raises `AdminError` if the database was written by a newer release.
    """
    if not _is_outdated(connection, place):
        return
    if connection.dialect.name != "postgresql":
        upgrade(connection)
        return
    from .silence_timeout import without_timeouts  # the driver of PostgreSQL is needed only here

    with without_timeouts(connection):
        # The second process waits for the first, and finds nothing left to do.
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if _is_outdated(connection, place):
            upgrade(connection)


def expect_newest(connection: sa.Connection, place: str) -> None:
    """Raise `AdminError` unless the database at `place` has the newest schema that this release knows."""
    found = revision(connection)
    if found is None:
        raise AdminError(f"{place} is no database of jupyter-gq.")
    if _is_outdated(connection, place):
        raise AdminError(
            f"The database {place} has the schema {found} of an older release, and this release has {NEWEST}. "
            "Use the release that wrote it, or start the service of this one first."
        )


def expect_known(found: str | None, place: str) -> None:
    """Raise `AdminError` if this release does not know the revision `found` of the database or backup `place`."""
    if found is not None and found not in _KNOWN:
        raise AdminError(
            f"{place} has the schema {found}, which this release does not know (it knows up to {NEWEST}). "
            "Install the release that wrote it, or a newer one."
        )


def _is_outdated(connection: sa.Connection, place: str) -> bool:
    """Tell whether the schema is missing or lacks migrations; raise `AdminError` if this release does not know it."""
    found = revision(connection)
    expect_known(found, f"The database {place}")
    return found != NEWEST


def upgrade(connection: sa.Connection, to: str = NEWEST) -> None:
    """Run the migrations up to the revision `to` (as in "0002"), inside the caller's transaction."""
    # Imported here: most starts find the schema in place, and Alembic costs time and memory.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to)
