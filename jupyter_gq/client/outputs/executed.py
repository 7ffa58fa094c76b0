"""The executed notebook: the notebook of a bundle with the outputs so far. Pure.

The runner writes it while the cells run. If the runner's files do not outlive it, the service makes the same notebook
from the stored pieces of output.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .fold import CellOutputs, Fold

#: Key of the notebook's metadata for job, run, last piece and ended cells. In the metadata of cells, the lab extension
#: uses this key to bind a cell to a job, so the executed notebook has it in no cell.
KEY = "jupyter_gq"


@dataclass(kw_only=True, slots=True)
class ShownOutputs:
    """The outputs that a job has shown so far, over all runs."""

    #: Execution counts of the present run, by the id of the cell.
    counts: dict[str, int | None] = field(default_factory=dict)
    #: Ids of the cells that finished in the present run.
    ended: set[str] = field(default_factory=set)
    #: The language, as the kernel describes it; empty before its first answer.
    language: JsonObject = field(default_factory=dict)
    #: Number of the present run.
    run: int = 0
    #: Number of the last applied piece.
    seq: int = 0
    #: Kept from one page of pieces to the next: a fold that begins anew reads the text of the pages before again.
    _fold: Fold = field(init=False, default_factory=Fold)

    @property
    def outputs(self) -> CellOutputs:
        """The outputs by the id of the cell."""
        return self._fold.outputs

    @outputs.setter
    def outputs(self, outputs: CellOutputs) -> None:
        self._fold = Fold(outputs)

    def take(self, pieces: Sequence[JsonMapping]) -> None:
        """Update the outputs, counts, language and run with the next pieces of a job's output, in order.

        The cost is that of these pieces, however many there were before.
        """
        self._fold.add(dict(piece) for piece in pieces)
        for piece in pieces:
            self._mark(piece)

    def _mark(self, piece: JsonMapping) -> None:
        """Record the number and the run of a piece, and the language, count or ended cell that it reports.

        The start of a run clears the counts and the ended cells of the run before.
        """
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
        """Return the metadata for the notebook's `KEY`: the job's id, the run, the last piece and the ended cells."""
        return {"job": job, "run": self.run, "seq": self.seq, "ended": sorted(self.ended)}


def make_executed_notebook(
    notebook: JsonMapping, cells: Iterable[CellToRun], about: JsonMapping, shown: ShownOutputs
) -> JsonObject:
    """Return a copy of the notebook in which the cells that the job runs have the outputs shown so far.

    `cells` are the cells that the job runs; all other code cells lose their outputs. `about` becomes the value of `KEY`
    in the notebook's metadata, and no cell keeps that key.
    """
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
