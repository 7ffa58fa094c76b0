"""The last eviction of each user's notebooks, which the options page shows.

An eviction or failure of a notebook is stored in the transaction of its change. The transaction of the owner's next
request for a share deletes it.
"""

from collections.abc import Iterable

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind
from jupyter_gq.domain.workload_detail import Eviction
from jupyter_gq.store.codec import decode_eviction, encode_eviction
from jupyter_gq.store.protocol import Record, Store

from .changes import Change


def evictions_to_store(changes: Iterable[tuple[Record, Change]]) -> dict[str, JsonObject]:
    """Return what to store, by key: the last eviction or failure of a notebook of each owner in these changes."""
    return {
        _key(record.workload.owner): encode_eviction(change.eviction)
        for record, change in changes
        if change.eviction is not None and record.workload.kind is Kind.NOTEBOOK
    }


def evictions_to_forget(record: Record) -> dict[str, JsonObject]:
    """Return what to store, by key, to delete the last eviction of the owner of a new notebook with a GPU; else {}."""
    workload = record.workload
    asks_for_share = workload.kind is Kind.NOTEBOOK and workload.request.devices > 0
    return {_key(workload.owner): {}} if asks_for_share else {}


def last_eviction(store: Store, user: str) -> Eviction | None:
    """Return the stored last eviction of the user's notebooks; None if there is none."""
    document = store.setting(_key(user))
    return decode_eviction(document) if document else None


def _key(user: str) -> str:
    return f"last_eviction:{user}"
