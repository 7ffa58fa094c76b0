"""How a pod's result reaches Kubernetes: as the message of the container that ended. Standard library only."""

import json
import logging
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

#: Bytes that Kubernetes keeps of it.
LONGEST = 4096


def leave_word(place: Path | None, result: Mapping[str, str]) -> None:
    """Write the result where Kubernetes takes it from; it may be written again."""
    if place is None:
        return
    try:
        place.write_bytes(message_of(result))
    except OSError as error:
        log.warning("The result could not be left at %s: %s", place, error)


def message_of(result: Mapping[str, str]) -> bytes:
    """What is left, at most `LONGEST` bytes: the sentence is cut, never the form.

    A run that is LOST may not say so of itself: its sentence is left as last words.
    """
    whole = result["sentence"]
    if len(encoded := _encoded(result, whole)) <= LONGEST:
        return encoded
    # No character takes less than a byte, and a longer sentence never takes less room.
    cut = bisect_right(range(1, LONGEST), LONGEST, key=lambda length: len(_encoded(result, f"{whole[:length]}…")))
    encoded = _encoded(result, f"{whole[:cut]}…")
    return encoded if len(encoded) <= LONGEST else b""


def _encoded(result: Mapping[str, str], sentence: str) -> bytes:
    content = sentence if result["outcome"] == "LOST" else json.dumps({**result, "sentence": sentence})
    return content.encode("utf-8", "replace")
