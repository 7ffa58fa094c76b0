"""The executed notebook: written while the cells run, read again by the next run of a paused job."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jupyter_gq.client.outputs import CellOutputs, fold
from jupyter_gq.runner.bundle import Bundle
from jupyter_gq.runner.folder import write_whole

#: Of the notebook: which job and run made it, up to which piece, which cells ended. Never of a cell: there the lab
#: keeps what binds a cell to a job.
KEY = "jupyter_gq"


def executed(
    bundle: Bundle,
    about: Mapping[str, Any],
    outputs: Mapping[str, list[dict[str, Any]]],
    counts: Mapping[str, int | None],
    language: Mapping[str, Any],
) -> dict[str, Any]:
    """The notebook of the bundle with these outputs; `about` says whose they are."""
    ran = {cell.index: cell.id for cell in bundle.cells}
    cells = []
    for index, cell in enumerate(bundle.notebook["cells"]):
        metadata = {name: value for name, value in cell.get("metadata", {}).items() if name != KEY}
        done = {**cell, "metadata": metadata}
        if index in ran:
            done |= {"outputs": outputs.get(ran[index], []), "execution_count": counts.get(ran[index])}
        elif cell["cell_type"] == "code":
            done |= {"outputs": [], "execution_count": None}
        cells.append(done)
    metadata = {**bundle.notebook.get("metadata", {}), KEY: dict(about)}
    if language:
        metadata["language_info"] = dict(language)
    return {"nbformat": 4, "nbformat_minor": 5, **bundle.notebook, "metadata": metadata, "cells": cells}


def write_notebook(path: Path, notebook: Mapping[str, Any]) -> None:
    """Write it whole; raise `OSError` when the disk does not take it."""
    write_whole(path, json.dumps(notebook, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def left_outputs(path: Path, later_pieces: Iterable[dict[str, Any]]) -> tuple[CellOutputs, frozenset[str]]:
    """What earlier runs left: the outputs of each cell, and the cells that came to their end.

    `later_pieces` are those of the spools; the ones that the notebook contains already are passed over. A notebook
    that cannot be read counts as empty.
    """
    outputs: CellOutputs = {}
    ended: frozenset[str] = frozenset()
    seq = 0
    try:
        notebook = json.loads(path.read_bytes())
        about = notebook["metadata"][KEY]
        seq, ended = int(about["seq"]), frozenset(about["ended"])
        outputs = {cell["id"]: cell["outputs"] for cell in notebook["cells"] if cell.get("outputs")}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none yet, or it is damaged: the pieces tell
    return fold((piece for piece in later_pieces if piece["seq"] > seq), outputs), ended
