"""The file of the executed notebook: written while the cells run, read again by the next run of a paused job."""

import json
from collections.abc import Iterable
from pathlib import Path

from jupyter_gq.client.files.user_files import read_notebook
from jupyter_gq.client.outputs.executed import KEY
from jupyter_gq.client.outputs.fold import CellOutputs, fold
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.runner.files.folder import write_whole


def write_notebook(path: Path, notebook: JsonMapping) -> None:
    """Write the notebook atomically, and so that `domain.output_bounds` hold for the file.

    Without spaces, and in UTF-8, the file is no larger than its outputs were measured. Raises `OSError` if the disk
    does not take it.
    """
    text = json.dumps(notebook, separators=(",", ":"), ensure_ascii=False)
    write_whole(path, text.encode("utf-8", "replace"))


def is_readable(path: Path) -> bool:
    """Return whether the notebook at `path` can be read back as `load_earlier_outputs` does."""
    try:
        return read_notebook(path) is not None
    except UnusableFile:
        return False


def load_earlier_outputs(path: Path, later_pieces: Iterable[JsonObject]) -> tuple[CellOutputs, frozenset[str]]:
    """Return what earlier runs left: the outputs of each cell, and the ids of the cells that ended.

    The notebook at `path` has the outputs up to a piece; those of `later_pieces`, from the spools, that follow it are
    folded in. A notebook that is missing or cannot be read counts as empty.
    """
    outputs: CellOutputs = {}
    ended: frozenset[str] = frozenset()
    seq = 0
    try:
        notebook = read_notebook(path) or {}
        about = notebook["metadata"][KEY]
        seq, ended = int(about["seq"]), frozenset(about["ended"])
        outputs = {cell["id"]: cell["outputs"] for cell in notebook["cells"] if cell.get("outputs")}
    except (UnusableFile, ValueError, KeyError, TypeError, AttributeError):
        pass  # there is no notebook yet, or it is damaged: the pieces alone count
    return fold((piece for piece in later_pieces if piece["seq"] > seq), outputs), ended
