"""The cells that a job runs, each with its code. Pure, standard library only: each start of a job imports this."""

import keyword
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue

Role = Literal["prefix", "target"]


class CellsMissing(UserError, LookupError):
    """A manifest that names cells which the notebook lacks."""

    def __init__(self, cells: tuple[str, ...]) -> None:
        super().__init__(f"The job's bundle lacks cells that its manifest names: {', '.join(cells)}.")
        self.cells = cells


class InvalidNotebook(UserError, ValueError):
    """An error: the notebook of a bundle is not nbformat 4, or lacks a cell that the manifest names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellToRun:
    """A code cell at its place in the bundle."""

    #: Position in the notebook of the bundle.
    index: int
    #: Id under which the outputs are known. A cell that ran several times has its own id only the last time.
    id: str
    role: Role
    source: str

    @property
    def first_line(self) -> str:
        """The first line of the cell's source, cut to 60 characters, by which a person recognises the cell."""
        line = self.source.strip().split("\n", 1)[0].strip()
        return line if len(line) <= 60 else line[:57] + "..."


def normalize_notebook(notebook: JsonMapping, wanted: Sequence[str]) -> JsonObject:
    """Return a copy of a notebook in which the source of each cell is one text; in files it may be a list of lines.

    The notebook and each cell have metadata afterwards. `wanted` are the ids of the cells that will run, in order.
    Raises `InvalidNotebook` if the notebook has no list of nbformat 4 cells, or lacks one of them.
    """
    # Only what the runner and nbclient read is checked. The schema of nbformat would refuse notebooks that run well,
    # such as those with outputs of other programs, and takes seconds for a large notebook.
    if notebook.get("nbformat", 4) != 4:
        raise InvalidNotebook("the notebook has another format than nbformat 4. Open it in JupyterLab and save it")
    metadata = notebook.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidNotebook("the notebook has metadata that are no object")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise InvalidNotebook("the notebook has no list of cells")
    copy = {
        **notebook,
        "metadata": metadata,
        "cells": [_normalize_cell(cell, number) for number, cell in enumerate(cells, 1)],
    }
    missing = list(wanted)
    for cell in copy["cells"]:
        if missing and cell["cell_type"] == "code" and cell.get("id", missing[0]) == missing[0]:
            missing.pop(0)
    if missing:
        raise InvalidNotebook(
            f"the notebook lacks the code cell {missing[0]!r} that the manifest names. Cells must be in the order of "
            "the manifest"
        )
    return copy


def _normalize_cell(cell: JsonValue, number: int) -> JsonObject:
    """Return a copy of a cell with its source as one text; raise `InvalidNotebook` if it is no cell of nbformat 4."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        raise InvalidNotebook(f"cell {number} of the notebook is no object with a cell_type")
    lines = cell.get("source")
    if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
        lines = "".join(lines)
    if not isinstance(lines, str):
        raise InvalidNotebook(f"cell {number} of the notebook has a source that is neither text nor a list of lines")
    if not isinstance(cell.get("id", ""), str):
        raise InvalidNotebook(f"cell {number} of the notebook has an id that is no text")
    metadata = cell.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidNotebook(f"cell {number} of the notebook has metadata that are no object")
    tags = metadata.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidNotebook(f"cell {number} of the notebook has tags that are no list of texts")
    return {**cell, "metadata": metadata, "source": lines}


def explain_invalid_names(names: Sequence[str]) -> str:
    """Return as a sentence which of these names cannot be those of variables to bring back; "" if all can."""
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"{name!r} is not the name of a variable. Write names such as model, separated by commas"
        plain = unicodedata.normalize("NFKC", name)
        if plain != name:  # Python stores the variable under the plain name only
            return f"{name!a} is not how Python keeps the name of a variable. Write {plain}"
    repeated = next((name for name in names if names.count(name) > 1), None)
    return "" if repeated is None else f"the name {repeated} is there twice"


def pair_cells(manifest: JsonMapping, notebook: JsonMapping) -> tuple[CellToRun, ...]:
    """Return the cells that a manifest names, prefix before targets, with their code from the notebook of the bundle.

    A found cell gets a unique id, also in `notebook` itself, which is changed. Raises `CellsMissing` for named cells
    that the notebook lacks, and `KeyError`, `TypeError` or `AttributeError` for a damaged document.
    """
    waiting: list[tuple[str, Role]] = [(ref["cell_id"], "prefix") for ref in manifest["prefix"]]
    waiting += [(ref["cell_id"], "target") for ref in manifest["targets"]]
    found: list[CellToRun] = []
    for index, cell in enumerate(notebook["cells"]):
        if waiting and cell["cell_type"] == "code" and cell.get("id", waiting[0][0]) == waiting[0][0]:
            wanted, role = waiting.pop(0)
            later = {ref for ref, _ in waiting}
            cell["id"] = _free_id(wanted, {c.id for c in found} | later)
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            found.append(CellToRun(index=index, id=cell["id"], role=role, source=text))
    if waiting:
        raise CellsMissing(tuple(ref for ref, _ in waiting))
    return tuple(found)


def _free_id(wanted: str, taken: set[str]) -> str:
    """Return the id `wanted`, or if it is taken, the first of `wanted-1`, `wanted-2`, ... that is not."""
    if wanted not in taken:
        return wanted
    number = 1
    while (candidate := f"{wanted[:58]}-{number}") in taken:
        number += 1
    return candidate
