"""The hash of a request for a job, by which a repeated request is told from another one with the same key. Pure.

See docs/decisions/0246-refuse-a-key-that-comes-with-another-request.md.
"""

import hashlib
import json

from pydantic.main import IncEx

from jupyter_gq.client.models import JobSubmission
from jupyter_gq.client.older_service import HINTS

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
_LEFT_OUT: IncEx = {"bundle": {"manifest": _OF_MANIFEST}}


def hash_request(submission: JobSubmission) -> str:
    """Return the hash of a request, with the number of its way before it, such as "1:9f86d0...".

    The order of keys, fields with their default values, and hints, which a client leaves out for an older service, do
    not count.
    """
    content = submission.model_dump(mode="json", exclude=_LEFT_OUT, exclude_defaults=True)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{_WAY}:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def is_same_request(before: str, now: str) -> bool:
    """Return whether two hashes may be those of one request: "" and hashes of different ways cannot be compared."""
    ways = {text.partition(":")[0] for text in (before, now)}
    return not before or len(ways) > 1 or before == now
