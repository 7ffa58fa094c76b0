"""The last eviction of a notebook, by user: shown with the choices for the next server."""

from jupyter_gq.domain.workload_detail import Eviction
from jupyter_gq.store.codec import eviction_document, eviction_of
from jupyter_gq.store.protocol import Store


def remember_eviction(store: Store, user: str, eviction: Eviction) -> None:
    """Store why a notebook of this user was taken back, or failed."""
    store.put_setting(_key(user), eviction_document(eviction))


def forget_eviction(store: Store, user: str) -> None:
    """Clear it, once the user has asked for another share."""
    store.put_setting(_key(user), {})


def last_eviction(store: Store, user: str) -> Eviction | None:
    """Return the last eviction of this user's notebooks; None if there is none."""
    document = store.setting(_key(user))
    return eviction_of(document) if document else None


def _key(user: str) -> str:
    return f"last_eviction:{user}"
