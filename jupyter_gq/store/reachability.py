"""The check whether a writer can reach the database, for a service that waits to lead. Changes nothing."""

import sqlalchemy as sa

from jupyter_gq.domain.errors import StoreUnavailable

from .engine import describe_database, open_engine, parse_url
from .failures import translate_error


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
        with engine.connect() as connection:
            if connection.execute(sa.text("SHOW transaction_read_only")).scalar_one() == "on":
                raise StoreUnavailable(place, "it can only be read at present")
    except sa.exc.SQLAlchemyError as error:
        better = translate_error(error, place)
        if better is None:
            raise
        raise better from error
    finally:
        engine.dispose()
