"""A warning about one cell of a job."""

from jupyter_gq.lab.reading.cells import make_title
from jupyter_gq.lab.requests import CellWarning

from .bundle import Step


def warn_about(step: Step, code: str, message: str) -> CellWarning:
    """Return a warning about one cell, with the cell's title unless the dialog shows the warning beside the cell."""
    beside = step.index is not None or step.why == "target"
    named = message if beside else f"“{make_title(step.written)}” {message}."
    return CellWarning(code=code, message=named, cell_id=step.cell_id or None, index=step.index)
