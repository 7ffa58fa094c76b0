"""Outputs that Output widgets of ipywidgets capture (`with Output():`, `@interact`). Pure.

In a browser the widget shows what it captured. A training job has no browser, so the captured outputs are shown as
outputs of the cell that displays the widget, alone or inside of boxes. A widget that is not displayed shows nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.json_types import JsonObject

from .cell_output import CellOutput, Entry, Output, append_text
from .messages import make_output, read_content

#: The maximum number of characters of consecutive captured text; the end is kept.
LONGEST_TEXT = 64 * 1024
#: The maximum number of outputs of a widget; if there are more, the last half of them is kept.
MOST_OUTPUTS = 500
_CUT = "[...]\n"
#: What is shown in the place of an output that was cleared.
NOTHING: Output = {"output_type": "display_data", "data": {"text/plain": ""}, "metadata": {}}


@dataclass(kw_only=True, slots=True, eq=False)
class WidgetView:
    """A display of a widget in the outputs of a cell."""

    cell: CellOutput
    entry: Entry
    model: str


@dataclass(slots=True, eq=False)
class _Captured:
    """A captured output, and its entries in the outputs of the cells that display the widget, by the view."""

    output: Output
    display_id: str | None = None
    #: The widget that the output shows, and its text; None if there is none.
    widget: str | None = None
    text: str | None = None
    entries: dict[WidgetView, Entry] = field(default_factory=dict)

    @property
    def display(self) -> Output:
        """The output in a form that can stand among the outputs of a cell, where text of streams would be joined."""
        if self.output["output_type"] == "stream":
            return {"output_type": "display_data", "data": {"text/plain": self.output["text"]}, "metadata": {}}
        return self.output if self.text is None else {**self.output, "data": {"text/plain": self.text}}


class CapturedOutputs:
    """The outputs that one widget captured."""

    def __init__(self) -> None:
        self._captured: list[_Captured] = []
        #: Entries of outputs that were cleared or hidden; the next outputs take their places.
        self._free: dict[WidgetView, list[Entry]] = {}
        self._clear_before_next = False
        #: Widgets that outputs have shown, and that no output shows any longer.
        self._discarded: list[str] = []

    @property
    def outputs(self) -> list[Output]:
        """The captured outputs as nbformat."""
        return [each.output for each in self._captured]

    def append(
        self,
        output: Output,
        display_id: str | None,
        views: Iterable[WidgetView],
        widget: str | None = None,
        text: str | None = None,
    ) -> None:
        """Add an output and show it in all of these views; text of the same stream is joined.

        `widget` is the widget that the output shows, and `text` the text of that widget, if it has one.
        """
        if self._clear_before_next:
            self._discard()
        self._append(_Captured(output, display_id, widget, text), views)
        self._hide_free()

    def _append(self, new: _Captured, views: Iterable[WidgetView]) -> None:
        """Add an output and show it, but hide nothing that was cleared."""
        output = new.output
        last = self._captured[-1] if self._captured else None
        if last is not None and _is_same_stream(last.output, output):
            last.output = {**last.output, "text": _join(last.output["text"], output["text"])}
        else:
            if output["output_type"] == "stream":
                new.output = {**output, "text": _join("", output["text"])}
            last = new
            self._captured.append(last)
            if len(self._captured) > MOST_OUTPUTS:
                self._drop_oldest()
        self._show(last, views)

    def _drop_oldest(self) -> None:
        """Forget the older half of the outputs; all others move up, so that the cell drops none of its own."""
        gone, kept = self._captured[: -MOST_OUTPUTS // 2], self._captured[-MOST_OUTPUTS // 2 :]
        for view, places in _list_places(self._captured).items():
            moving = [each for each in kept if view in each.entries]
            for each, place in zip(moving, places, strict=False):
                each.entries[view] = place
                view.cell.update(place, each.display)
            self._free[view] = places[len(moving) :] + self._free.get(view, [])
        self._captured = kept
        self.remove_free()
        self._note_gone([each.widget for each in gone])

    def clear(self, *, wait: bool) -> None:
        """Remove all outputs, now or before the next output (`wait`)."""
        if wait:
            self._clear_before_next = True
            return
        self._discard()
        self._hide_free()

    def remove_free(self) -> None:
        """Remove the places that are free from the cells, so that they show no more than the widget does.

        A view that shows no output keeps one place, in which the next output is shown.
        """
        shown = _list_places(self._captured)
        for view, places in self._free.items():
            kept = places[: 0 if view in shown else 1]
            view.cell.remove(places[len(kept) :])
            self._free[view] = kept

    def replace(self, outputs: Iterable[Output], views: Iterable[WidgetView]) -> None:
        """Replace all outputs by these."""
        shown = list(views)
        self._discard()
        for output in outputs:
            self._append(_Captured(output), shown)
        self._hide_free()

    def update_display(self, display_id: str, content: JsonObject, widget: str | None, text: str | None) -> bool:
        """Replace the content of the outputs with this display id; return whether there are any.

        `widget` is the widget that they show from now on, and `text` the text of that widget, if it has one.
        """
        found = [each for each in self._captured if each.display_id == display_id]
        gone = [each.widget for each in found]
        for each in found:
            each.output = {**each.output, "data": content["data"], "metadata": content.get("metadata", {})}
            each.widget, each.text = widget, text
            _show_again(each)
        self._note_gone(gone)
        return bool(found)

    def update_widget(self, widget: str, text: str | None) -> None:
        """Show another text of a widget in the outputs that show the widget."""
        for each in self._captured:
            if each.widget == widget and each.text != text:
                each.text = text
                _show_again(each)

    def hide(self, views: Iterable[WidgetView]) -> None:
        """Show the outputs no longer in these views; their places become free."""
        for view in views:
            places = [each.entries.pop(view) for each in self._captured if view in each.entries]
            self._free[view] = places + self._free.get(view, [])
        self._hide_free()

    def take_discarded(self) -> list[str]:
        """Return the widgets that outputs have ceased to show since the last call."""
        discarded, self._discarded = self._discarded, []
        return discarded

    def show(self, view: WidgetView) -> None:
        """Show all outputs in another view."""
        for each in self._captured:
            if view not in each.entries:
                self._show(each, [view])

    def _show(self, captured: _Captured, views: Iterable[WidgetView]) -> None:
        display = captured.display
        for view in views:
            free = self._free.get(view)
            if view in captured.entries:
                view.cell.update(captured.entries[view], display)
            elif free:
                captured.entries[view] = free.pop(0)
                view.cell.update(captured.entries[view], display)
            else:
                captured.entries[view] = view.cell.add(display)

    def _discard(self) -> None:
        """Forget all outputs; the places where they are shown become free, in the order in which they are shown."""
        # Free places are taken from the front, so those that are still free lie behind those that were taken.
        for view, places in _list_places(self._captured).items():
            self._free[view] = places + self._free.get(view, [])
        gone = [each.widget for each in self._captured]
        self._captured = []
        self._clear_before_next = False
        self._note_gone(gone)

    def _note_gone(self, widgets: Iterable[str | None]) -> None:
        """Note which of these widgets no output shows any longer."""
        still = {each.widget for each in self._captured}
        self._discarded += [widget for widget in widgets if widget is not None and widget not in still]

    def _hide_free(self) -> None:
        """Show nothing in the places that are free."""
        for view, entries in self._free.items():
            for entry in entries:
                if entry.output != NOTHING:
                    view.cell.update(entry, NOTHING)


def _list_places(captured: Iterable[_Captured]) -> dict[WidgetView, list[Entry]]:
    """Return the places of these outputs in each view that shows any, in the order in which they are shown."""
    places: dict[WidgetView, list[Entry]] = {}
    for each in captured:
        for view, entry in each.entries.items():
            places.setdefault(view, []).append(entry)
    return places


def find_outputs(value: object) -> Iterator[Output]:
    """Yield the outputs in the `outputs` of a widget's state; parts that are no outputs are left out."""
    for each in value if isinstance(value, list | tuple) else ():
        kind = str(each.get("output_type")) if isinstance(each, dict) else ""
        content = read_content(kind, each)
        output = None if content is None else make_output(kind, content)
        if output is not None:
            yield output


def _is_same_stream(last: Output, output: Output) -> bool:
    return last["output_type"] == output["output_type"] == "stream" and bool(last["name"] == output["name"])


def _join(before: str, more: str) -> str:
    """Return the text of a stream with more text; only the end if it is too long."""
    text = append_text(before, bounded_json.make_whole(more))
    return text if len(text) <= LONGEST_TEXT else _CUT + text[len(_CUT) - LONGEST_TEXT :]


def _show_again(captured: _Captured) -> None:
    """Show the present content of an output wherever it is shown."""
    for view, entry in captured.entries.items():
        view.cell.update(entry, captured.display)
