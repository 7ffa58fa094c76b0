"""Looks at the database by a service that does not lead yet. They change nothing, and no schema."""

from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError, StoreUnavailable
from jupyter_gq.domain.json_types import JsonObject

from . import statements
from .codec import decode_json
from .engine import open_engine, parse_url, place_of
from .failures import named


def peek_setting(url: str, name: str) -> JsonObject | None:
    """Return a small named document; None if there is none, or no database that can be read."""
    try:
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite" and not (parsed.database and Path(parsed.database).is_file()):
            return None
        engine = open_engine(url)
    except AdminError:
        return None
    try:
        with engine.connect() as connection:
            value = statements.setting_by_name(connection, name)
    except sa.exc.SQLAlchemyError:
        return None
    finally:
        engine.dispose()
    return None if value is None else decode_json(value)


def reach(url: str) -> None:
    """Raise `StoreUnavailable` with a sentence if the database does not answer, or answers readers only.

    A SQLite file is on a disk of the service itself: opening it shows whether it is there.
    """
    if parse_url(url).get_backend_name() == "sqlite":
        return
    engine = open_engine(url)
    place = place_of(engine)
    try:
        with engine.connect() as connection:
            if connection.execute(sa.text("SHOW transaction_read_only")).scalar_one() == "on":
                raise StoreUnavailable(place, "it can only be read at present")
    except sa.exc.SQLAlchemyError as error:
        better = named(error, place)
        if better is None:
            raise
        raise better from error
    finally:
        engine.dispose()
