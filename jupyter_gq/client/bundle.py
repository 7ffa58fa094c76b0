"""The cells that a job runs, each with its code. Pure, standard library only: each start of a job imports this."""

from dataclasses import dataclass
from typing import Literal

from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping

Role = Literal["prefix", "target"]


class CellsMissing(UserError, LookupError):
    """A manifest that names cells which the notebook lacks."""

    def __init__(self, cells: tuple[str, ...]) -> None:
        super().__init__(f"The job's bundle lacks cells that its manifest names: {', '.join(cells)}.")
        self.cells = cells


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
