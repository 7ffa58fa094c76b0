"""A short-lived token of the user, for what happens outside a spawn.

The spawner's own token exists only from the start of a server on, and not after a restart of the Hub. The options
page is made before it, and a server that ended after such a restart gives its ticket back without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyterhub.orm import APIToken

SERVICE = "jupyter-gq"
READ = (f"access:services!service={SERVICE}", "custom:gq:read")
SUBMIT = (f"access:services!service={SERVICE}", "custom:gq:submit")

#: Seconds after which it is void even when it could not be deleted.
_LIFETIME = 60


@contextmanager
def short_token(spawner: Any, scopes: tuple[str, ...]) -> Iterator[str]:
    """A token of the spawner's user with these scopes, deleted at the end.

    Raises `ValueError` when the user does not hold the scopes: then the Hub is not configured for jupyter-gq.
    """
    token = spawner.user.new_api_token(
        note="jupyter-gq: options page, end of a server", expires_in=_LIFETIME, scopes=list(scopes)
    )
    database = spawner.user.db
    try:
        yield token
    finally:
        record = APIToken.find(database, token)
        if record is not None:
            database.delete(record)
            database.commit()
