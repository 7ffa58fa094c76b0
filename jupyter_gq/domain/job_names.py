"""How jobs are named beside their ids, and how a job that calls a function is told from a job of cells. Pure.

See docs/decisions/0248-let-the-word-last-name-the-newest-job.md.
"""

from collections.abc import Mapping
from typing import Final

#: The word for the newest job of the user, wherever the id of a job is expected.
LAST: Final = "last"
#: Id of the target cell of a job that no cell of a notebook stands for.
CALL_CELL: Final = "call"
#: Beginning of the ids of the cells that run before it in a job that calls a function.
SETUP_CELL: Final = "setup-"


def calls_function(job: Mapping[str, object]) -> bool:
    """Return whether a job was sent as a function, not as cells; `job` is a `JobView` as JSON."""
    targets, setup = _list_cells(job.get("targets")), _list_cells(job.get("prefix"))
    return targets == [CALL_CELL] and bool(setup) and all(cell.startswith(SETUP_CELL) for cell in setup)


def _list_cells(cells: object) -> list[str]:
    """Return the ids of cells, as a job describes them."""
    return [str(cell.get("cell_id")) for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
