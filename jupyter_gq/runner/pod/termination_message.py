"""The termination message, by which a pod's result reaches Kubernetes. Standard library only."""

import json
import logging
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

#: Bytes of the message that Kubernetes keeps.
LONGEST = 4096


def write_termination_message(place: Path | None, result: Mapping[str, str]) -> None:
    """Write the result to the file `place` as the termination message, replacing an earlier one.

    Does nothing if `place` is None. An error of the disk is logged.
    """
    if place is None:
        return
    try:
        place.write_bytes(encode_message(result))
    except OSError as error:
        log.warning("The result could not be written to %s: %s", place, error)


def encode_message(result: Mapping[str, str]) -> bytes:
    """Return the result in at most `LONGEST` bytes: the sentence is cut, the JSON stays valid.

    A LOST result is only its sentence, because a run cannot declare itself lost. Returns b"" for a result that does not
    fit even without a sentence.
    """
    whole = result["sentence"]
    if len(encoded := _encode(result, whole)) <= LONGEST:
        return encoded
    # Bisection is possible: a character takes at least a byte, and a longer sentence never takes less room.
    cut = bisect_right(range(1, LONGEST), LONGEST, key=lambda length: len(_encode(result, f"{whole[:length]}…")))
    encoded = _encode(result, f"{whole[:cut]}…")
    return encoded if len(encoded) <= LONGEST else b""


def _encode(result: Mapping[str, str], sentence: str) -> bytes:
    content = sentence if result["outcome"] == "LOST" else json.dumps({**result, "sentence": sentence})
    return content.encode("utf-8", "replace")
