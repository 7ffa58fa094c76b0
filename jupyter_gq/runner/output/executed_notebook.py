"""The executed notebook as a file: written while the cells run, read again by the next run of a paused job."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jupyter_gq.client.executed import KEY
from jupyter_gq.client.outputs import CellOutputs, fold
from jupyter_gq.runner.files.folder import write_whole


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
