"""Checks of the database by a service that waits to lead, or has not started yet; they change nothing."""

from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError, StoreUnavailable
from jupyter_gq.domain.json_types import JsonObject

from . import statements
from .codec import decode_json
from .engine import describe_database, find_file, open_engine, parse_url
from .failures import translated_errors


def peek_setting(url: str, name: str) -> JsonObject | None:
    """Return the setting `name` of the database at `url`; None if there is no such setting or no readable database.

    Neither creates nor migrates a database, and raises no error of one.
    """
    try:
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite" and not has_content(Path(parsed.database or "")):
            return None  # opening the file would make a database of it
        engine = open_engine(url)
    except AdminError:
        return None
    try:
        with engine.connect() as connection:
            value = statements.setting_by_name(connection, name)
    except (sa.exc.SQLAlchemyError, StoreUnavailable):
        return None
    finally:
        engine.dispose()
    return None if value is None else decode_json(value)


def has_content(file: Path) -> bool:
    """Tell whether the file of a SQLite database is there and not empty; raise `AdminError` if that cannot be seen."""
    return find_file(file) and file.stat().st_size > 0


def expect_database(url: str, state: Path, jobs: int) -> None:
    """Raise `AdminError` if a SQLite database is missing or empty, although the state folder has the files of `jobs`.

    A new database would know none of these jobs. Raises `AdminError` also for a database in a folder that this process
    may not enter. Databases on PostgreSQL are not checked.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    file = Path(parsed.database or "")
    if jobs and not has_content(file):
        raise AdminError(
            f"The database {file} is missing or empty, but {state} holds the files of {jobs} jobs: it was moved, "
            f"deleted or cut off. Put it back, or restore a backup: jupyter-gq restore BACKUP {file}. To begin without "
            f"these jobs, move the folders {state}/jobs and {state}/runs away."
        )


def check_reachable(url: str) -> None:
    """Raise `StoreUnavailable` if the database at the URL does not answer or can only be read now.

    A SQLite file is not checked: it is on a disk of the service, and opening it shows whether it is there. Raises
    `AdminError` for an invalid URL.
    """
    if parse_url(url).get_backend_name() == "sqlite":
        return
    engine = open_engine(url)
    place = describe_database(engine)
    try:
        with translated_errors(place), engine.connect() as connection:
            if connection.execute(sa.text("SHOW transaction_read_only")).scalar_one() == "on":
                raise StoreUnavailable(place, "it can only be read at present")
    finally:
        engine.dispose()
