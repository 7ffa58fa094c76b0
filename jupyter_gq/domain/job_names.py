"""Names of jobs beside their ids, and the ids of cells by which a call or a script is told from cells. Pure.

See docs/decisions/0248-let-the-word-last-name-the-newest-job.md.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

#: The word for the newest job of the user, wherever the id of a job is expected.
LAST: Final = "last"
#: Id of the target cell of a job that no cell of a notebook stands for.
CALL_CELL: Final = "call"
#: Beginning of the ids of the cells that run before the target cell in a job that calls a function.
SETUP_CELL: Final = "setup-"
#: Ids of the target cell of a job that runs a script, and of the cell before it.
SCRIPT_CELL: Final = "script"
ARGUMENTS_CELL: Final = "arguments"

#: What a job was made from: cells of a notebook, a script, or a call of a function or code that is in no cell.
JobOrigin = Literal["notebook", "script", "call"]
#: What sentences for its owner call the code of a job.
CodeNoun = Literal["cell", "script", "function"]


def find_origin(targets: Sequence[str], prefix: Sequence[str]) -> JobOrigin:
    """Return what a job with these ids of target and prefix cells was made from.

    The path of the job's file does not say so, since a script may be opened as a notebook.
    """
    if list(targets) == [SCRIPT_CELL] and list(prefix) == [ARGUMENTS_CELL]:
        return "script"
    return "call" if list(targets) == [CALL_CELL] else "notebook"


def calls_function(job: Mapping[str, object]) -> bool:
    """Return whether a job was sent as a function, not as cells; `job` is a `JobView` as JSON."""
    return find_code_noun(_list_cells(job.get("targets")), _list_cells(job.get("prefix"))) == "function"


def find_code_noun(targets: Sequence[str], prefix: Sequence[str]) -> CodeNoun:
    """Return what the user calls the code of a job with these ids of target and prefix cells.

    A job of the origin "call" runs a "function" if it has prefix cells, and all of their ids begin with `SETUP_CELL`.
    The code of any other call is in no cell of the notebook, and is called a "cell" all the same.
    """
    if find_origin(targets, prefix) == "script":
        return "script"
    is_call = list(targets) == [CALL_CELL] and bool(prefix)
    return "function" if is_call and all(cell.startswith(SETUP_CELL) for cell in prefix) else "cell"


def _list_cells(cells: object) -> list[str]:
    """Return the ids of cells, as a job describes them."""
    return [str(cell.get("cell_id")) for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
