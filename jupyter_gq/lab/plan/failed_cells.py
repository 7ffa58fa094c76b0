"""The work of cells in the kernel before they failed: a job does not run them, unless their user says so.

The names that such a cell made or changed before its error have other values in a job, or none. For Python only.

Rules
-----
- The last statement of a cell is taken for the one that failed. So most cells that fail have done nothing.
- Told is what a later cell of the job reads before it makes it anew, and only if the cell is left out.
- A cell that failed several times with the same code is told once.

See docs/decisions/0225-tell-what-failed-cells-have-done.md.
"""

from collections.abc import Iterator, Sequence

from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.effects.changes import find_stored_names
from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.reading.cells import make_title, parse_cell
from jupyter_gq.lab.reading.names import find_free_names, find_made_by, find_names_read_before
from jupyter_gq.lab.requests import CellWarning


def find_partial_runs(steps: Sequence[Step], ran: Sequence[RanCell]) -> Iterator[CellWarning]:
    """Yield a warning for each failed cell that is left out and has set what the cells of the job read."""
    for code, names in _find_lacking(steps, ran):
        yield CellWarning(
            code="failed_cell",
            message=f"“{make_title(code)}” ended with an error here and is left out, but it had set "
            f"{', '.join(sorted(names))} before. Set this in a cell without an error, if the job needs it.",
        )


def _find_lacking(steps: Sequence[Step], ran: Sequence[RanCell]) -> Iterator[tuple[str, set[str]]]:
    """Yield the code of each such cell once, and the names that any of its executions has set."""
    own = {step.cell_id for step in steps if step.why == "target"}
    kept = {(step.cell_id, step.written): step.source for step in steps if step.why != "target" and not step.lacks}
    read = set(find_free_names(step.source for step in steps if step.why == "target"))
    lacking: dict[tuple[str, str], set[str]] = {}
    for cell in reversed(ran):
        run = (cell.cell_id, cell.code)
        if run in kept:
            read = find_names_read_before(kept[run], read)
        elif cell.failed and cell.cell_id not in own:
            lacking[run] = lacking.get(run, set()) | read.intersection(_find_done(cell.code))
    yield from ((code, names) for (_, code), names in reversed(lacking.items()) if names)


def _find_done(code: str) -> set[str]:
    """Return the names that a cell has made or changed before its last statement."""
    tree = parse_cell(code)
    return set() if tree is None else find_made_by(tree.body[:-1]) | find_stored_names(tree.body[:-1])
