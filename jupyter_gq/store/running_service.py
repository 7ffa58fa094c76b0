"""The question whether a scheduler service works on a database that a command is about to replace or to copy.

See docs/decisions/0199-refuse-to-replace-the-database-of-a-running-service.md and
docs/decisions/0218-find-a-service-by-its-connections-to-postgresql.md.
"""

from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError

from .engine import SERVICE, describe_database, open_engine, parse_url
from .failures import translated_errors
from .folder_lock import is_locked

_REFUSED = "Nothing was changed. Stop the Hub or the deployment that runs the service, and run the command again."


def expect_no_service(url: str) -> None:
    """Raise `AdminError` if a service works on the database of the URL.

    On SQLite a service of this machine is found by the lock of the folder of the file, if that is its state folder. On
    PostgreSQL a service is found by its connections. Raises `StoreUnavailable` if PostgreSQL does not answer.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        _expect_no_connection(url)
        return
    folder = Path(parsed.database or "").absolute().parent
    if is_locked(folder):
        raise AdminError(f"A scheduler service works in the folder {folder}, and would end. {_REFUSED}")


def _expect_no_connection(url: str) -> None:
    """Raise `AdminError` if a service is connected to this database on PostgreSQL."""
    engine = open_engine(url)
    place = describe_database(engine)
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = :service"
    )
    try:
        with translated_errors(place), engine.connect() as connection:
            found = connection.execute(query, {"service": SERVICE}).scalar_one()
    finally:
        engine.dispose()
    if found:
        raise AdminError(f"A scheduler service is connected to the database {place}, and would end. {_REFUSED}")
