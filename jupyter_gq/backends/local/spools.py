"""Outputs in the spool of an ended run, read in portions, because user code can write that file.

The form of a spool is that of `runner.delivery.spool`.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from jupyter_gq.backends.bundles import LeftOutputs
from jupyter_gq.client.outputs.fold import make_substitute
from jupyter_gq.domain import bounded_json, output_bounds
from jupyter_gq.domain.errors import InvalidJson
from jupyter_gq.domain.json_types import JsonObject

from .accounts import UnixAccount
from .files import read_owned_part

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
#: Bytes of one portion.
PORTION = 4 * _MIB
#: Bytes and values of the longest piece, as the API takes it.
LONGEST_PIECE, MOST_VALUES = output_bounds.REQUEST_SIZE, output_bounds.REQUEST_VALUES
#: The beginning of the last field of a piece with outputs, as the runner writes it.
_OUTPUTS = b', "output'
#: Bytes of a spool that are read. More than the outputs that a job keeps, and less than a database should be given.
MOST_READ = 512 * _MIB


def read_spool(path: Path, account: UnixAccount, start: int) -> LeftOutputs:
    """Return the pieces of a spool from byte `start` on, about `PORTION` bytes; skip what is no piece.

    A notice replaces a line that is longer than `LONGEST_PIECE`. `following` is None in the last portion. From
    `MOST_READ` bytes on, nothing is read, and that is logged. Raises `UnusableFile` for a file that is no regular file
    of this account.
    """
    if start >= MOST_READ:
        log.warning("%s is larger than %d MiB; the outputs after that are not stored", path, MOST_READ // _MIB)
        return LeftOutputs(pieces=(), following=None)
    size = PORTION
    content = read_owned_part(path.parent, path.name, account, start=start, size=size)
    if len(content) == size and b"\n" not in content:
        size = LONGEST_PIECE
        content = read_owned_part(path.parent, path.name, account, start=start, size=size)
    whole = content.rfind(b"\n") + 1  # a line that the end of the runner cut short was never a piece
    if not whole and len(content) == LONGEST_PIECE:
        whole = LONGEST_PIECE  # the rest of the line begins the next portion, and is no piece
    return LeftOutputs(
        pieces=tuple(_pieces(content[:whole])), following=start + whole if whole and len(content) == size else None
    )


def _pieces(content: bytes) -> Iterator[JsonObject]:
    """Yield the JSON objects among these lines.

    A notice replaces the outputs of a piece that is beyond the bounds, because a gap would end the outputs of the job.
    """
    for line in content.splitlines():
        piece = _parse(line)
        if piece is None:
            head = _parse(line.partition(_OUTPUTS)[0] + b"}")
            piece = None if head is None else make_substitute(head)
        if piece is not None:
            yield piece


def _parse(line: bytes) -> JsonObject | None:
    """Return the JSON object in a line; None if there is none within the bounds."""
    try:
        piece = bounded_json.parse(line.decode("utf-8", "replace"), max_nodes=MOST_VALUES)
    except InvalidJson:
        return None
    return piece if isinstance(piece, dict) else None
