"""The last eviction of each user's notebooks, which the options page shows."""

from jupyter_gq.domain.workload_detail import Eviction
from jupyter_gq.store.codec import decode_eviction, encode_eviction
from jupyter_gq.store.protocol import Store


def remember_eviction(store: Store, user: str, eviction: Eviction) -> None:
    """Store the eviction or failure of a notebook as the user's last one."""
    store.put_setting(_key(user), encode_eviction(eviction))


def forget_eviction(store: Store, user: str) -> None:
    """Delete the stored last eviction of the user, who has asked for another share."""
    store.put_setting(_key(user), {})


def last_eviction(store: Store, user: str) -> Eviction | None:
    """Return the stored last eviction of the user's notebooks; None if there is none."""
    document = store.setting(_key(user))
    return decode_eviction(document) if document else None


def _key(user: str) -> str:
    return f"last_eviction:{user}"
