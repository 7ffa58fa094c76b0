"""What cells have done in the kernel before they failed: a job does not run them, unless their user says so.

The names that such a cell made or changed before its error have other values in a job, or none. For Python only.

Rules
-----
- The last statement of a cell is taken for the one that failed. So most cells that fail have done nothing.
- Told is what a later cell of the job reads before it makes it anew, and only if the cell is left out.

See docs/decisions/0225-tell-what-failed-cells-have-done.md.
"""

from collections.abc import Iterator, Sequence

from .bundle import Step
from .cells import make_title, parse_cell
from .changes import find_stored_names
from .history import RanCell
from .names import find_free_names, find_made_by
from .requests import CellWarning


def find_partial_runs(steps: Sequence[Step], ran: Sequence[RanCell]) -> Iterator[CellWarning]:
    """Yield a warning for each failed execution that is left out and has set what the cells of the job read."""
    targets = [step.source for step in steps if step.why == "target"]
    own = {step.cell_id for step in steps if step.why == "target"}
    kept = {(step.cell_id, step.written) for step in steps if step.why != "target" and not step.lacks}
    for place, cell in enumerate(ran):
        tree = parse_cell(cell.code) if cell.failed and cell.cell_id not in own else None
        if tree is None or (cell.cell_id, cell.code) in kept:
            continue
        done = find_made_by(tree.body[:-1]) | find_stored_names(tree.body[:-1])
        later = [each.code for each in ran[place + 1 :] if (each.cell_id, each.code) in kept] if done else []
        lacking = sorted(done.intersection(find_free_names([*later, *targets]))) if done else []
        if lacking:
            yield CellWarning(
                code="failed_cell",
                message=f"“{make_title(cell.code)}” ended with an error here and is left out, but it had set "
                f"{', '.join(lacking)} before. Set this in a cell without an error, if the job needs it.",
            )
