"""What the kernel shows, cell by cell, and when it is time to say so.

The first change is said at once; after that changes are gathered for `GATHER` seconds, and for longer when the job
has used up its budget. What a cell shows at its end is always said.
"""

import logging
from collections.abc import Callable
from typing import Any

from jupyter_gq.runner.delivery.budget import Budget

from .cell_output import Bounds, CellOutput, Entry, Output, Piece
from .widgets import VIEW, Widgets

log = logging.getLogger(__name__)

#: Seconds for which changes are gathered.
GATHER = 0.08
#: Seconds until the next try when the budget is used up.
OVER_BUDGET = 1.0


class Recorder:
    """Holds the outputs of all cells of a job and hands their changes on in order."""

    def __init__(self, emit: Callable[[list[Piece]], None], now: float, bounds: Bounds | None = None) -> None:
        """`emit` takes pieces without number; `now` is a time that goes on steadily, in seconds."""
        self._emit = emit
        self._bounds = bounds or Bounds()
        self._budget = Budget(now)
        self._full = False
        self._cells: dict[str, CellOutput] = {}
        self._displays: dict[str, list[tuple[CellOutput, Entry]]] = {}
        self._widgets = Widgets()
        self._views: list[tuple[CellOutput, Entry, str]] = []
        self._said_at = now - 3600.0

    def cell(self, cell: str, role: str) -> CellOutput:
        """The outputs of this cell, empty at first."""
        if cell not in self._cells:
            self._cells[cell] = CellOutput(cell, role, self._bounds)
            self._cells[cell].job_is_full = self._full
        return self._cells[cell]

    def outputs(self, cell: str) -> list[Output]:
        """What the cell shows now."""
        known = self._cells.get(cell)
        return [] if known is None else known.outputs

    def append(self, to: CellOutput, content: dict[str, Any], kind: str, display_id: str | None) -> None:
        """The kernel sent an output of this message type for that cell."""
        if kind == "stream":
            to.write(content["name"], content["text"])
            return
        output = output_of(kind, content)
        if output is None:
            log.debug("Output of type %s is not kept.", kind)
            return
        widget = content.get("data", {}).get(VIEW)
        if widget is not None:
            output = self._widget_output(output, str(widget.get("model_id")))
        entry = to.show(output)
        if widget is not None:
            self._views.append((to, entry, str(widget.get("model_id"))))
        if display_id:
            self._displays.setdefault(display_id, []).append((to, entry))

    def update(self, display_id: str, content: dict[str, Any]) -> None:
        """All outputs that were shown under this display id get another content."""
        for cell, entry in self._displays.get(display_id, ()):
            data = _without_widget(content["data"])
            cell.update(entry, {**entry.output, "data": data, "metadata": content.get("metadata", {})})

    def take_comm(self, content: dict[str, Any]) -> bool:
        """The state of a widget may have changed; True when something that is shown did."""
        if not self._widgets.take(content):
            return False
        changed = False
        for cell, entry, model in self._views:
            output = self._widget_output(entry.output, model)
            if output != entry.output:
                cell.update(entry, output)
                changed = True
        return changed

    def _widget_output(self, output: Output, model: str) -> Output:
        """The output with what its widget shows, in words, if that can be said."""
        text = self._widgets.text(model)
        return output if text is None else {**output, "data": {"text/plain": text}}

    def due(self, now: float) -> float | None:
        """In how many seconds `say` should be called; None: nothing changed."""
        size = self._waiting_size()
        if size == 0:
            return None
        wait = max(0.0, self._said_at + GATHER - now)
        return wait if self._budget.allows(size, now) else max(wait, OVER_BUDGET)

    def say(self, now: float, *, everything: bool = False) -> None:
        """Hand the changes on, if the budget allows it or `everything` is to be said now."""
        size = self._waiting_size()
        if size == 0 or not (everything or self._budget.allows(size, now)):
            return
        self._budget.spend(size)
        self._said_at = now
        self._emit([piece for cell in self._cells.values() for piece in cell.take()])
        self._full = sum(cell.size for cell in self._cells.values()) > self._bounds.job
        for cell in self._cells.values():
            cell.job_is_full = self._full

    def _waiting_size(self) -> int:
        return sum(cell.waiting_size for cell in self._cells.values())


def output_of(kind: str, content: dict[str, Any]) -> Output | None:
    """The nbformat output of a message; None for what is no output."""
    match kind:
        case "display_data":
            return {"output_type": kind, **_shown(content)}
        case "execute_result":
            count = content.get("execution_count")
            return {"output_type": kind, **_shown(content), "execution_count": count}
        case "error":
            return {"output_type": kind, **{name: content[name] for name in ("ename", "evalue", "traceback")}}
        case _:
            return None


def _shown(content: dict[str, Any]) -> dict[str, Any]:
    return {"data": _without_widget(content["data"]), "metadata": content.get("metadata", {})}


def _without_widget(data: dict[str, Any]) -> dict[str, Any]:
    """A widget lives in its kernel, which nobody can reach from the notebook: its text is shown in its place."""
    if VIEW in data and len(data) > 1:
        return {kind: value for kind, value in data.items() if kind != VIEW}
    return data
