"""A short-lived token of the user for requests outside a spawn.

The spawner's own token exists only from the start of a server on, and not after a restart of the Hub. The options page
is rendered before that start, and a server that ends after such a restart gives its ticket back without the token.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jupyterhub.orm import APIToken

from jupyter_gq.hub.hub_parts import AnySpawner

SERVICE = "jupyter-gq"
READ_SCOPES = (f"access:services!service={SERVICE}", "custom:gq:read")
SUBMIT_SCOPES = (f"access:services!service={SERVICE}", "custom:gq:submit")

#: Seconds after which the token expires, if it could not be deleted before.
_LIFETIME = 60


@contextmanager
def short_lived_token(spawner: AnySpawner, scopes: tuple[str, ...]) -> Iterator[str]:
    """Provide a token of the spawner's user with these scopes; it is deleted at the end of the block.

    Raises `ValueError` if the user does not hold the scopes: then the Hub is not configured for jupyter-gq.
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
