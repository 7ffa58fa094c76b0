"""The cells that a job runs, each with its code. Pure, standard library only: each start of a job imports this."""

import keyword
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Literal

from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.plain_text import quoted, shorten

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
    """Return what is wrong with the first name that is none of a variable, or is there twice; "" if nothing is."""
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"{quoted(name)} is not the name of a variable. Write names such as model, separated by commas"
        plain = unicodedata.normalize("NFKC", name)
        if plain != name:  # Python stores the variable under the plain name only
            letter = next((each for each in name if unicodedata.normalize("NFKC", each) != each), name[0])
            told = f"the character U+{ord(letter):04X}, which Python replaces in names"
            return f"{quoted(name)} has {told}. Write {shorten(plain)}"
    repeated = next((name for name, times in Counter(names).items() if times > 1), None)
    return "" if repeated is None else f"the name {shorten(repeated)} is there twice"


def pair_cells(manifest: JsonMapping, notebook: JsonMapping) -> tuple[CellToRun, ...]:
    """Return the cells that a manifest names, prefix before targets, with their code from the notebook of the bundle.

    A found cell gets a unique id, also in `notebook` itself, which is changed. Raises `CellsMissing` for the first cell
    that is not found in the order of the manifest and for all after it, and `KeyError`, `TypeError` or `AttributeError`
    for a damaged document.
    """
    waiting: deque[tuple[str, Role]] = deque((ref["cell_id"], "prefix") for ref in manifest["prefix"])
    waiting += [(ref["cell_id"], "target") for ref in manifest["targets"]]
    ids = _FreeIds((ref for ref, _ in waiting), {cell.get("id") for cell in notebook["cells"]})
    found: list[CellToRun] = []
    for index, cell in enumerate(notebook["cells"]):
        if waiting and cell["cell_type"] == "code" and cell.get("id", waiting[0][0]) == waiting[0][0]:
            wanted, role = waiting.popleft()
            cell["id"] = ids.take(wanted)
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            found.append(CellToRun(index=index, id=cell["id"], role=role, source=text))
    if waiting:
        raise CellsMissing(tuple(ref for ref, _ in waiting))
    return tuple(found)


class _FreeIds:
    """The ids of the cells of a job, each taken once. The last cell that wants an id gets it, such as a target."""

    def __init__(self, wanted: Iterable[str], present: Set[object]) -> None:
        """Keep each of the `wanted` ids, one for each cell in their order, for the last cell that wants it.

        `present` are the ids of all cells of the notebook, none of which is given to another cell.
        """
        self._wanted = Counter(wanted)
        self._present = present
        self._taken: set[str] = set()
        #: The numbers that were not tried yet, by the beginning of the ids.
        self._numbers: dict[str, count[int]] = {}

    def take(self, wanted: str) -> str:
        """Take the id `wanted` for the next cell, or the first free one of `wanted-1`, `wanted-2`, ...; return it."""
        self._wanted[wanted] -= 1
        found = wanted if self._is_free(wanted) else self._number(wanted[:58])
        self._taken.add(found)
        return found

    def _is_free(self, name: str) -> bool:
        return name not in self._taken and self._wanted[name] <= 0

    def _number(self, beginning: str) -> str:
        numbers = self._numbers.setdefault(beginning, count(1))
        candidates = (f"{beginning}-{number}" for number in numbers)
        return next(each for each in candidates if self._is_free(each) and each not in self._present)
