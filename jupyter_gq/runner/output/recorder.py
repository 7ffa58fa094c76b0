"""The outputs of all cells of a job, and the rate at which their changes are sent.

The first change is sent at once. After that, changes are gathered for `FLUSH_INTERVAL` seconds, or longer if the job
has used up its budget. The outputs at the end of a cell are always sent.
"""

import logging
from collections.abc import Callable

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.delivery.budget import Budget
from jupyter_gq.runner.mask import Mask

from .captured import CapturedOutputs, WidgetView, find_outputs
from .cell_output import CellOutput, Entry, Output, OutputBounds, Piece, collapse_piece
from .messages import find_view, make_output, without_view
from .widgets import Widgets

log = logging.getLogger(__name__)

#: Seconds for which changes are gathered before they are sent.
FLUSH_INTERVAL = 0.08
#: Seconds until the next try if the budget is used up.
OVER_BUDGET_WAIT = 1.0


class Recorder:
    """The outputs of all cells of a job; their changes are handed on in order."""

    def __init__(
        self,
        emit: Callable[[list[Piece]], None],
        now: float,
        bounds: OutputBounds | None = None,
        mask: Mask | None = None,
        note: Callable[[Output], None] = lambda _: None,
    ) -> None:
        """Begin without outputs; `emit` takes the unnumbered pieces, `now` is in seconds of a monotonic clock.

        `mask` hides the values of secrets; None = there are none. `note` takes each new output at once, and
        text without what its own carriage returns overwrite.
        """
        self._note = note
        self._mask = mask or Mask()
        #: Text at the end of a cell's stream that may be the beginning of a secret, by cell and name of the stream.
        self._held: dict[tuple[CellOutput, str], str] = {}
        self._emit = emit
        self._bounds = bounds or OutputBounds()
        self._budget = Budget(now)
        self._job_is_full = False
        self._cells: dict[str, CellOutput] = {}
        #: The outputs with each display id, and the displays of widgets that they are.
        self._displays: dict[str, list[tuple[CellOutput, Entry, WidgetView | None]]] = {}
        self._widgets = Widgets()
        #: The displays of each widget that was displayed.
        self._views: dict[str, list[WidgetView]] = {}
        self._captured: dict[str, CapturedOutputs] = {}
        self._flushed_at = now - 3600.0

    def cell_output(self, cell: str, role: str) -> CellOutput:
        """Return the outputs of this cell, made empty at the first call; later calls return the same object."""
        if cell not in self._cells:
            self._cells[cell] = CellOutput(cell, role, self._bounds)
            self._cells[cell].job_is_full = self._job_is_full
        return self._cells[cell]

    def outputs(self, cell: str) -> list[Output]:
        """Return the outputs that the cell has now, as nbformat; an empty list for a cell that has not run."""
        known = self._cells.get(cell)
        return [] if known is None else known.outputs

    def append(self, to: CellOutput, content: JsonObject, kind: str, display_id: str | None) -> None:
        """Add an output that the kernel sent for the cell `to`; `kind` is the type of the message.

        A message of a type that is no output is ignored. A widget is stored as text if it can be rendered. With a
        `display_id`, `update_display` can replace the output later.
        """
        if kind == "stream":
            self._write_text(to, content["name"], content["text"])
            return
        self._release_text()
        output = make_output(kind, content)
        if output is None:
            log.debug("Output of type %s is not kept.", kind)
            return
        widget = find_view(content)
        if widget is not None:
            output = _show_text(output, self._widgets.render(widget))
        entry = to.add(output)
        self._note(entry.output)
        view = self._add_view(to, entry, widget)
        if display_id:
            self._displays.setdefault(display_id, []).append((to, entry, view))

    @property
    def longest_secret(self) -> int:
        """The most characters of a value that is hidden."""
        return self._mask.longest

    def hide(self, content: JsonObject) -> JsonObject | None:
        """Return the content of a message without the values of secrets; None if it is nested too deeply for that."""
        try:
            hidden: JsonObject = self._mask.hide_all(content)
        except RecursionError:
            return None
        return hidden

    def _write_text(self, to: CellOutput, name: str, text: str) -> None:
        """Add text to a stream, without an end that may be the beginning of a secret.

        The end is held back while other streams go on: they may have come between two pieces of one secret.
        """
        shown, held = self._mask.split(self._held.pop((to, name), "") + text)
        if shown:
            self._add_text(to, name, shown)
        if held:
            self._held[to, name] = held

    def _release_text(self) -> None:
        """Show the text that was held back: no secret has followed."""
        for (to, name), text in self._held.items():
            self._add_text(to, name, text)
        self._held.clear()

    def _add_text(self, to: CellOutput, name: str, text: str) -> None:
        to.write_text(name, text)
        self._note({"output_type": "stream", "name": name, "text": collapse_piece(text)})

    def update_display(self, display_id: str, content: JsonObject) -> None:
        """Replace the content of all outputs with this display id, perhaps by a widget; do nothing if there are none.

        The outputs then follow no widget that they have shown before.
        """
        widget = find_view(content)
        text = None if widget is None else self._widgets.render(widget)
        content = {**content, "data": without_view(content["data"])}
        displays = self._displays.get(display_id, [])
        for place, (cell, entry, before) in enumerate(displays):
            output = {**entry.output, "data": content["data"], "metadata": content.get("metadata", {})}
            cell.update(entry, _show_text(output, text))
            if before is not None:
                self._forget_view(before)
            displays[place] = (cell, entry, self._add_view(cell, entry, widget))
        for model, captured in self._captured.items():
            if captured.update_display(display_id, content, widget, text):
                self._hide_discarded(model)
                self._show_inside(widget, model)

    def find_capturing_widget(self, message: str) -> str | None:
        """Return the id of the Output widget that captures what the kernel sends in answer to a message.

        `message` is the id of that message. Returns None if no widget captures its answers.
        """
        return self._widgets.find_capturing(message)

    def capture(self, model: str, content: JsonObject, kind: str, display_id: str | None) -> None:
        """Add an output to those that an Output widget captured, and show it where the widget is shown.

        `model` is the id of the Output widget. A message whose type, `kind`, is that of no output is ignored. With a
        `display_id`, `update_display` can replace the output later.
        """
        output = make_output(kind, content)
        if output is None:
            return
        self._note(output)
        widget = find_view(content)
        text = None if widget is None else self._widgets.render(widget)
        views = self._views_of(model)
        self._captured_by(model).append(output, display_id, views, widget, text)
        self._hide_discarded(model)
        self._show_inside(widget, model)

    def _show_inside(self, widget: str | None, model: str) -> None:
        """Let the Output widget `model` contain a widget that it has captured, with what that has captured itself."""
        if widget is not None:
            self._widgets.put_into(widget, model)
            for view in self._views_of(model):
                self._show_captured(widget, view)

    def _hide_discarded(self, model: str) -> None:
        """Hide the captures of inner Output widgets that the Output widget `model` has ceased to show.

        They are hidden in the displays of `model` only. One that shows such a widget in another way too, as a box does
        with its children, goes on to show it.
        """
        views = self._views_of(model)
        for widget in self._captured_by(model).take_discarded():
            self._widgets.take_out(widget, model)
            self._hide_captured(widget, views)

    def _hide_captured(self, widget: str, views: list[WidgetView]) -> None:
        """Hide in these views what the Output widgets in a widget have captured, unless the views still show them."""
        for inner in self._widgets.find_contained(widget):
            if inner in self._captured:
                still = self._views_of(inner)
                self._captured[inner].hide([view for view in views if view not in still])

    def _forget_view(self, view: WidgetView) -> None:
        """Let the display of a widget stay as it is, whatever becomes of the widget."""
        if view in self._views.get(view.model, ()):
            self._views[view.model].remove(view)
            self._hide_captured(view.model, [view])

    def clear_captured(self, model: str, *, wait: bool) -> None:
        """Remove what an Output widget captured, now or before its next output (`wait`)."""
        self._captured_by(model).clear(wait=wait)
        self._hide_discarded(model)

    def take_ended_captures(self) -> list[tuple[str, list[Output]]]:
        """Return the Output widgets that have ceased to capture since the last call, with what they have captured."""
        return [
            (model, self._captured[model].outputs) for model in self._widgets.take_ended() if model in self._captured
        ]

    def apply_comm(self, kind: str, content: JsonObject) -> bool:
        """Apply a comm message to the widgets and to the outputs that show them; return whether they may have changed.

        `kind` is the type of the message. Output widgets show the outputs that the kernel puts into their state. Only
        the changed widget and what contains it are rendered, each once however often it is displayed.
        """
        model = str(content.get("comm_id"))
        if not self._apply_to_widgets(kind, model, content):
            return False
        for root in self._widgets.find_containing(model):
            views = self._displays_of(root)
            outer = [self._captured_by(each) for each in self._widgets.find_capturing_view(root)]
            text = self._widgets.render(root) if views or outer else None
            for captured in outer:
                captured.update_widget(root, text)
            for view in views:
                output = _show_text(view.entry.output, text)
                if output != view.entry.output:
                    view.cell.update(view.entry, output)
        return True

    def _apply_to_widgets(self, kind: str, model: str, content: JsonObject) -> bool:
        """Apply a comm message to the widget `model`, and return whether a widget may look different now."""
        if kind == "comm_close":
            return self._widgets.close(model)
        state = self._widgets.apply(content)
        if state is not None and "outputs" in state and self._widgets.is_output(model):
            self._captured_by(model).replace(find_outputs(state["outputs"]), self._views_of(model))
            self._hide_discarded(model)
        return state is not None

    def _captured_by(self, model: str) -> CapturedOutputs:
        return self._captured.setdefault(model, CapturedOutputs())

    def _views_of(self, model: str) -> list[WidgetView]:
        """Return the displays of a widget, alone or in boxes, that are still shown."""
        return [view for root in self._widgets.find_containing(model) for view in self._displays_of(root)]

    def _displays_of(self, root: str) -> list[WidgetView]:
        """Return the displays of a widget by itself that are still shown, and forget the others."""
        if root not in self._views:
            return []
        self._views[root] = [view for view in self._views[root] if view.entry.is_kept]
        return self._views[root]

    def _add_view(self, cell: CellOutput, entry: Entry, widget: str | None) -> WidgetView | None:
        """Return the display that an output is of a widget, with what Output widgets in it have captured beside it.

        None if the output shows no widget.
        """
        if widget is None:
            return None
        view = WidgetView(cell=cell, entry=entry, model=widget)
        self._views.setdefault(widget, []).append(view)
        self._show_captured(widget, view)
        return view

    def _show_captured(self, widget: str, view: WidgetView) -> None:
        """Show in a view what the Output widgets in a widget have captured."""
        for model in self._widgets.find_contained(widget):
            if model in self._captured:
                self._captured[model].show(view)

    def seconds_until_flush(self, now: float) -> float | None:
        """Return the seconds until `flush` should be called: 0 if it is due, None if nothing changed.

        `now` is in seconds of the monotonic clock that the constructor got.
        """
        size = self._pending_size()
        if size == 0:
            return None
        wait = max(0.0, self._flushed_at + FLUSH_INTERVAL - now)
        return wait if self._budget.allows(size, now) else max(wait, OVER_BUDGET_WAIT)

    def finish(self, now: float) -> None:
        """Emit all pending changes, after the last output of the job.

        The empty places of Output widgets are removed before, but for one of a widget that shows nothing: until then, a
        later cell may show something in them.
        """
        for captured in self._captured.values():
            captured.remove_free()
        self.flush(now, everything=True)

    def flush(self, now: float, *, everything: bool = False) -> None:
        """Emit the pending changes if the budget allows it, or in any case if `everything` is set.

        Does nothing if nothing changed. Afterwards each cell knows whether the outputs of the job have reached their
        limit.
        """
        if everything:
            self._release_text()
        size = self._pending_size()
        if size == 0 or not (everything or self._budget.allows(size, now)):
            return
        self._budget.spend(size)
        self._flushed_at = now
        self._emit([piece for cell in self._cells.values() for piece in cell.take_pieces()])
        self._job_is_full = sum(cell.size for cell in self._cells.values()) > self._bounds.job
        for cell in self._cells.values():
            cell.job_is_full = self._job_is_full

    def _pending_size(self) -> int:
        return sum(cell.pending_size for cell in self._cells.values())


def _show_text(output: Output, text: str | None) -> Output:
    """Return the output with the text of a widget as its data; unchanged if the widget has no text."""
    return output if text is None else {**output, "data": {"text/plain": text}}
