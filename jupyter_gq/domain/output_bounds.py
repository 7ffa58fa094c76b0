"""The bounds of the outputs of a job: the runner keeps them, and the service refuses what exceeds them.

Rules
-----
Size: an output counts with its bytes as JSON in UTF-8, and with at least `VALUE_SIZE` for each of its JSON values. So a
    bound in bytes also bounds the values, each of which takes some 60 bytes of a reader's memory.
Nesting: all outputs of a cell fit into one request, and those of a job into one notebook, with the levels of the
    request or notebook around them.

See docs/decisions/0084-keep-outputs-within-the-bounds-of-the-service.md.
"""

from . import bounded_json

_MIB = 1024 * 1024
#: Bytes with which each JSON value counts at least.
VALUE_SIZE = 32
#: Bytes and values of a request with pieces of output.
REQUEST_SIZE = 40 * _MIB
REQUEST_VALUES = REQUEST_SIZE // VALUE_SIZE
#: Bytes and values of a single output: a heat map of 1000 by 1000 has a little more than a million values.
SINGLE_SIZE = 32 * _MIB
SINGLE_VALUES = SINGLE_SIZE // VALUE_SIZE
#: Levels of lists and objects of a single output; a request or a notebook has a few levels around the output.
SINGLE_DEPTH = bounded_json.MAX_DEPTH - 10
#: Bytes of all displays of a cell, and characters of all text of a cell.
CELL_SIZE = 36 * _MIB
CELL_TEXT = _MIB
#: Bytes of the outputs of a job; the cell that reaches this number may exceed it by `CELL_SIZE`.
JOB_SIZE = 128 * _MIB
#: Bytes and values of an executed notebook: room for the outputs of a job, and for the notebook itself.
NOTEBOOK_SIZE = 192 * _MIB
NOTEBOOK_VALUES = NOTEBOOK_SIZE // VALUE_SIZE


def measure_json(text: str) -> int:
    """Return the size of a JSON text that counts for the bounds, in bytes.

    A lone surrogate counts like the question mark that replaces it on the way.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return max(size, VALUE_SIZE * bounded_json.count_nodes(text, size // VALUE_SIZE))
