"""The hash of a request for a job, by which a repeated request is told from another one with the same key. Pure.

See docs/decisions/0246-refuse-a-key-that-comes-with-another-request.md.
"""

import hashlib
import json
from collections.abc import Callable, Mapping

from pydantic.main import IncEx

from jupyter_gq.client.bounds import Amount
from jupyter_gq.client.connection.older_service import HINTS
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.domain.amount import parse_cpus, parse_memory, parse_request
from jupyter_gq.domain.errors import InvalidAmount

#: Number of the way in which requests are hashed. A change of the way, or of what a request that was sent before
#: hashes to, takes the next number.
_WAY = "1"
_HINTS_OF_MANIFEST, _HINTS_OF_FILES = (
    {field for model, field in (hint.split(".") for hint in HINTS) if model == wanted}
    for wanted in ("Manifest", "FrozenFile")
)
_OF_MANIFEST: dict[str, IncEx | bool] = {
    **dict.fromkeys(_HINTS_OF_MANIFEST, True),
    "files": {"__all__": _HINTS_OF_FILES},
}
#: The fields that are amounts, which clients write as text or as numbers, such as "0.5" and 0.5.
_AMOUNTS: Mapping[str, Callable[[object], int]] = {
    "gpus": parse_request,
    "gpu_memory": parse_memory,
    "cpus": parse_cpus,
    "memory": parse_memory,
}
_LEFT_OUT: IncEx = {"bundle": {"manifest": _OF_MANIFEST}}


def hash_request(submission: JobSubmission) -> str:
    """Return the hash of a request, with the number of its way before it, such as "1:9f86d0...".

    The order of keys, fields with their default values, and hints, which a client leaves out for an older service, do
    not count, nor does the way in which an amount is written.
    """
    content = submission.model_dump(mode="json", exclude=_LEFT_OUT, exclude_defaults=True)
    amounts = {field: _to_number(getattr(submission, field), parse) for field, parse in _AMOUNTS.items()}
    content |= {field: amount for field, amount in amounts.items() if amount is not None}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{_WAY}:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def _to_number(amount: Amount | None, parse: Callable[[object], int]) -> Amount | None:
    """Return what an amount comes to, as a number; one that is none, which is refused later, as it is written."""
    try:
        return None if amount is None else parse(amount)
    except InvalidAmount:
        return amount


def is_same_request(before: str, now: str) -> bool:
    """Return whether two hashes may be those of one request: "" and hashes of different ways cannot be compared."""
    ways = {text.partition(":")[0] for text in (before, now)}
    return not before or len(ways) > 1 or before == now
