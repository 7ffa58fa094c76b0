"""The executed notebook: a bundle's notebook with the outputs so far. Pure.

The runner writes it while the cells run; where its files do not outlive it, the service makes the same from the
pieces that it has stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .bundle import CellToRun
from .outputs import CellOutputs, fold

#: Of the notebook: which job and run made it, up to which piece, which cells ended. Never of a cell: there the lab
#: keeps what binds a cell to a job.
KEY = "jupyter_gq"


@dataclass(kw_only=True, slots=True)
class ShownOutputs:
    """The outputs that a job has shown so far."""

    #: By cell.
    outputs: CellOutputs = field(default_factory=dict)
    #: Execution counts of the present run, by cell.
    counts: dict[str, int | None] = field(default_factory=dict)
    #: Cells that came to their end in the present run.
    ended: set[str] = field(default_factory=set)
    #: As the kernel describes it; empty before it has.
    language: JsonObject = field(default_factory=dict)
    run: int = 0
    #: Number of the last piece.
    seq: int = 0

    def take(self, pieces: Sequence[JsonMapping]) -> None:
        """Apply these pieces, which follow the last one."""
        fold((dict(piece) for piece in pieces), self.outputs)
        for piece in pieces:
            self._mark(piece)

    def _mark(self, piece: JsonMapping) -> None:
        self.seq, self.run = int(piece["seq"]), int(piece.get("run", self.run))
        match piece["op"], piece.get("state"):
            case "run", "start":
                self.counts, self.ended = {}, set()
            case "run", "ready":
                self.language = dict(piece.get("language") or {})
            case "cell", "end":
                self.counts[piece["cell"]] = piece.get("execution_count")
                if piece.get("finished", True):
                    self.ended.add(piece["cell"])

    def about(self, job: str) -> JsonObject:
        """Return the metadata that says which job and run made the notebook."""
        return {"job": job, "run": self.run, "seq": self.seq, "ended": sorted(self.ended)}


def make_executed_notebook(
    notebook: JsonMapping, cells: Iterable[CellToRun], about: JsonMapping, shown: ShownOutputs
) -> JsonObject:
    """Return this notebook with the outputs that its cells have shown; `about` says whose it is."""
    ran = {cell.index: cell.id for cell in cells}
    done_cells = []
    for index, cell in enumerate(notebook["cells"]):
        metadata = {name: value for name, value in cell.get("metadata", {}).items() if name != KEY}
        done = {**cell, "metadata": metadata}
        if index in ran:
            count = shown.counts.get(ran[index])
            done |= {"outputs": shown.outputs.get(ran[index], []), "execution_count": count}
        elif cell["cell_type"] == "code":
            done |= {"outputs": [], "execution_count": None}
        done_cells.append(done)
    metadata = {**notebook.get("metadata", {}), KEY: dict(about)}
    if shown.language:
        metadata["language_info"] = dict(shown.language)
    return {"nbformat": 4, "nbformat_minor": 5, **notebook, "metadata": metadata, "cells": done_cells}
