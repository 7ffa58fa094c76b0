"""The limits on the stored output of one job, whatever its runner sends.

Rules
-----
Limits: a job has at most `c.TrainingQueues.max_output_mib` of stored output, in at most `max_output_pieces` pieces.

Beyond a limit: a note takes the place of the first piece, and a mark the place of each later one. The store keeps the
newest mark only, so the runner goes on, and the job takes no more room. The executed notebook has all output.

Estimate: the stored output is measured once, then counted. Before anything is left out, it is measured again, because a
`set` deletes earlier pieces.

See docs/decisions/0085-limit-the-output-of-a-job-on-the-server.md.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_gq.client.outputs.fold import LEFT_OUT
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.store.protocol import OutputPiece, OutputSize

_MEBIBYTE = 1024 * 1024
#: Fields of a piece that its note or mark has too.
_KEPT = ("seq", "run", "at")


@dataclass(frozen=True, slots=True)
class _Stored:
    """The output of one job: an estimate that is never too small, while no piece is deleted behind it."""

    pieces: int
    size: int
    #: The limit (in bytes, in pieces) that was met; None = none was.
    met: OutputSize | None = None


class OutputLimits:
    """The stored output of the jobs that send output."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stored: dict[str, _Stored] = {}

    def append(self, job: str, pieces: Sequence[OutputPiece]) -> int:
        """Store these pieces, or a note and marks in place of those beyond a limit; return the last stored number.

        For the errors and for pieces after a gap see `Store.append_outputs`. Pieces that are not stored do not count.
        """
        limit = OutputSize(
            pieces=self._context.settings.max_output_pieces, size=self._context.settings.max_output_bytes
        )
        before = after = self._stored.get(job) or self._measure(job)
        admitted: list[OutputPiece] = []
        for piece in pieces:
            after, kept = self._admit(job, piece, after, limit)
            admitted.append(kept)
        last = self._context.store.append_outputs(job, admitted)
        is_all_stored = not admitted or admitted[-1].seq <= last
        self._stored[job] = after if is_all_stored else replace(self._measure(job), met=before.met)
        return last

    def _admit(self, job: str, piece: OutputPiece, stored: _Stored, limit: OutputSize) -> tuple[_Stored, OutputPiece]:
        """Return the estimate after a piece, and what is to be stored: the piece, or its note or mark."""
        if stored.met == limit:
            return stored, _mark(piece)
        size = len(json.dumps(piece.payload, separators=(",", ":")))
        if _exceeds(stored, size, limit):
            stored = self._measure(job)
        if _exceeds(stored, size, limit):
            return replace(stored, met=limit), _note(piece, limit)
        return replace(stored, pieces=stored.pieces + 1, size=stored.size + size), piece

    def _measure(self, job: str) -> _Stored:
        """Ask the store for the output of a job, and forget the jobs that have ended."""
        found = self._context.store.output_size(job)
        unfinished = self._context.records.find_unfinished
        self._stored = {name: each for name, each in self._stored.items() if unfinished(name) is not None}
        return _Stored(pieces=found.pieces, size=found.size)


def _exceeds(stored: _Stored, size: int, limit: OutputSize) -> bool:
    return stored.pieces >= limit.pieces or stored.size + size > limit.size


def _mark(piece: OutputPiece) -> OutputPiece:
    """Return what is stored in place of a piece that is left out."""
    return OutputPiece(seq=piece.seq, payload={**_kept(piece), "op": "run", "state": LEFT_OUT})


def _note(piece: OutputPiece, limit: OutputSize) -> OutputPiece:
    """Return the piece that says in the cell of `piece` that output is left out; a mark if `piece` has no cell."""
    if "cell" not in piece.payload:
        return _mark(piece)
    text = (
        f"[The output of this job is larger than {limit.size / _MEBIBYTE:g} MiB or {limit.pieces} pieces. The rest is "
        "left out here; the executed notebook has it.]\n"
    )
    place: JsonObject = {name: piece.payload[name] for name in ("cell", "role") if name in piece.payload}
    output = {"output_type": "stream", "name": "stderr", "text": text}
    return OutputPiece(seq=piece.seq, payload={**_kept(piece), "op": "append", **place, "output": output})


def _kept(piece: OutputPiece) -> JsonObject:
    return {name: piece.payload[name] for name in _KEPT if name in piece.payload}
