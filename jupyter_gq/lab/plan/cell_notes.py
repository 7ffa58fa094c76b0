"""The warnings of a plan as sentences for people who see no list of cells, such as users of `%%train`."""

from collections.abc import Iterable, Sequence

from jupyter_gq.lab.bundle.bundle import sends_itself
from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.reading.cells import make_title
from jupyter_gq.lab.requests import CellWarning

#: Most cells that a sentence names.
_MOST_CELLS = 5


def describe_warnings(warnings: Iterable[CellWarning], before: Sequence[RanCell], target: str) -> list[str]:
    """Return a sentence for each warning; cells with the same warning have one sentence, which names them.

    `before` are the cells that run first, in the order of the request, and `target` is the id of the cell that is sent.
    """
    listed, cells = list(warnings), dict[str, list[str]]()
    for warning in listed:
        if warning.index is not None:
            cells.setdefault(warning.message, []).append(_name_cell(before[warning.index]))
    sentences = [
        f"{_name_cells(cells[each.message])} {each.message}."
        if each.index is not None
        else f"This cell {each.message}."
        if each.cell_id == target
        else each.message
        for each in listed
    ]
    return list(dict.fromkeys(sentences))


def describe_failed(ran: Sequence[RanCell], target: str) -> list[str]:
    """Return a sentence on the cells that are left out since they ended with an error; none if there are none.

    Neither the target nor a cell that ran again without an error is named.
    """
    mended = {cell.cell_id for cell in ran if not cell.failed and cell.cell_id}
    failed = [cell for cell in ran if cell.failed and cell.cell_id not in {*mended, target}]
    names = [_name_cell(cell) for cell in failed if not sends_itself(cell.code)]
    if not names:
        return []
    return [f"{_name_cells(names)} ended with an error and does not run in the job: what it did is missing there."]


def _name_cell(cell: RanCell) -> str:
    """Return the number and the first words of a cell, such as "[3] “model = load()”"."""
    return f"[{cell.execution_count}] “{make_title(cell.code)}”"


def _name_cells(names: list[str]) -> str:
    """Return the subject of a sentence in the singular, with the first of these cells and the number of the others."""
    if len(names) == 1:
        return f"The cell {names[0]}"
    more = len(names) - _MOST_CELLS
    first, last = (names[:_MOST_CELLS], f"{more} more") if more > 0 else (names[:-1], names[-1])
    return f"Each of the cells {', '.join(first)} and {last}"
