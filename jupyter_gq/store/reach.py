"""The check whether a writer can reach the database, for a service that waits. Changes nothing, and no schema."""

import sqlalchemy as sa

from jupyter_gq.domain.errors import StoreUnavailable

from .engine import open_engine, parse_url, place_of
from .failures import named


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
