"""Outputs in the spool of an ended run, read in portions, because user code can write that file.

The form of a spool is that of `runner.delivery.spool`.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from jupyter_gq.backends.bundles import LeftOutputs
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.errors import InvalidJson
from jupyter_gq.domain.json_types import JsonObject

from .accounts import Account
from .files import read_owned_part

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
#: Bytes of one portion.
PORTION = 4 * _MIB
#: Bytes of the longest piece, as the API takes it.
LONGEST_PIECE = 32 * _MIB
#: Bytes of a spool that are read. More than the outputs that a job keeps, and less than a database should be given.
MOST_READ = 512 * _MIB


def read_spool(path: Path, account: Account, start: int) -> LeftOutputs:
    """Return the pieces of a spool from byte `start` on, about `PORTION` bytes; skip what is no piece.

    `following` is None in the last portion, and after a line that is longer than `LONGEST_PIECE`. From `MOST_READ`
    bytes on, nothing is read, and that is logged. Raises `UnusableFile` for a file that is no regular file of this
    account.
    """
    if start >= MOST_READ:
        log.warning("%s is larger than %d MiB; the outputs after that are not stored", path, MOST_READ // _MIB)
        return LeftOutputs(pieces=(), following=None)
    size = PORTION
    content = read_owned_part(path, account, start=start, size=size)
    if len(content) == size and b"\n" not in content:
        size = LONGEST_PIECE
        content = read_owned_part(path, account, start=start, size=size)
    whole = content.rfind(b"\n") + 1  # a line that the end of the runner cut short was never a piece
    return LeftOutputs(
        pieces=tuple(_pieces(content[:whole])), following=start + whole if whole and len(content) == size else None
    )


def _pieces(content: bytes) -> Iterator[JsonObject]:
    """Yield the JSON objects among these lines."""
    for line in content.splitlines():
        try:
            piece = bounded_json.parse(line.decode("utf-8", "replace"))
        except InvalidJson:
            continue
        if isinstance(piece, dict):
            yield piece
