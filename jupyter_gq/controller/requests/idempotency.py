"""Idempotency keys, by which a request for a new job that is sent twice makes one job.

See docs/decisions/0246-refuse-a-key-that-comes-with-another-request.md.
"""

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import Conflict, KeyReused
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.store.protocol import Record

from .request_hash import is_same_request


def is_key_known(context: Context, caller: Caller, key: str | None) -> bool:
    """Return whether a stored job of the caller's user was made with this key; False if there is no key.

    The key of a deleted job is not known any more. Reads the database.
    """
    return key is not None and context.store.by_idempotency_key(caller.user, key) is not None


def find_earlier_job(context: Context, caller: Caller, key: str, request_hash: str) -> Record | None:
    """Return the stored job that the caller's user made with this key before; None if there is none.

    `request_hash` is that of the request that comes with the key now.

    Raises `KeyReused` if another request made that job, and `Conflict` if the job is being deleted.
    """
    known = context.store.by_idempotency_key(caller.user, key)
    if known is None:
        return None
    workload = known.workload
    if not is_same_request(known.detail.request_hash, request_hash):
        raise KeyReused(
            f"The Idempotency-Key {quoted(key)} belongs to another request, which made the job {workload.name!r} "
            f"({workload.id}). Send a new job with a new key, or repeat that request unchanged."
        )
    if workload.id in context.deletions:
        raise Conflict(
            f"The job {workload.name!r} ({workload.id}), which an earlier request with the Idempotency-Key "
            f"{quoted(key)} made, is being deleted. Send a new job with a new key."
        )
    return context.records.get(workload.id) or known
