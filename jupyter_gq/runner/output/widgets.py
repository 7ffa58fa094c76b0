"""The state of widgets, and the rendering of progress bars, labels and simple controls as text. Pure.

A widget lives in its kernel and in a browser that talks to it; a training job has no such browser. Labels, HTML,
progress bars, controls with a name and a value, and boxes and tabs of them can be rendered as text; the value of a
password is hidden. An Output widget and a widget that was closed have no text; captured outputs, which may show widgets
again, are shown beside the widget (`captured`). For all other widgets the kernel's own text is kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import unescape
from itertools import chain, repeat
from textwrap import indent

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

_CHILD = "IPY_MODEL_"
_TAGS = re.compile(r"<[^>]*>")
_BAR_LENGTH = 20
#: What stands behind a bar whose work has ended before it was full, which a browser shows in red.
INTERRUPTED = "✗"
#: Boxes in boxes deeper than this are not followed; a box may even contain itself.
_DEEPEST = 8
#: Most parts of one rendering. Boxes that share their children have few widgets but very many parts.
MOST_PARTS = 200
#: Characters of text that count as one part, so that the bound of the parts also bounds the text.
_TEXT_OF_A_PART = 1024
#: Last line of a rendering that does not show all parts.
_CUT = "[...]"
_OUTPUT = "OutputModel"
#: What stands between the children of a box, by the name of its model.
_SEPARATORS = {
    "AccordionModel": "\n",
    "BoxModel": " ",
    "GridBoxModel": "\n",
    "HBoxModel": " ",
    "TabModel": "\n",
    "VBoxModel": "\n",
}
#: What is shown in place of a password.
_HIDDEN = "••••"
#: Name of the model of a widget that was closed.
_CLOSED = "ClosedModel"


class Widgets:
    """The state of a kernel's widgets."""

    def __init__(self) -> None:
        self._state: dict[str, JsonObject] = {}
        #: The boxes that each widget is directly in.
        self._boxes: dict[str, dict[str, None]] = {}
        #: The widgets whose views an Output widget has captured, and the Output widgets that have captured a view of
        #: each widget.
        self._captured: dict[str, dict[str, None]] = {}
        self._outer: dict[str, dict[str, None]] = {}
        #: Output widgets that capture outputs, with the message whose outputs they capture; the innermost is the last.
        self._capturing: list[tuple[str, str]] = []
        #: Output widgets that have ceased to capture, each once.
        self._ended: dict[str, None] = {}

    def apply(self, content: JsonMapping) -> JsonMapping | None:
        """Apply the content of a comm message; return the state of a widget that the message carries, None if none."""
        data = content.get("data")
        if not isinstance(data, Mapping) or data.get("method") == "echo_update":
            return None
        state = data.get("state")
        if not isinstance(state, Mapping):
            return None
        model = str(content.get("comm_id"))
        self._update_state(model, state)
        if "msg_id" in state and self.is_output(model):
            self._capturing = [each for each in self._capturing if each[0] != model]
            if state["msg_id"]:
                self._capturing.append((model, str(state["msg_id"])))
            else:
                self._ended[model] = None
        return state

    def _update_state(self, model: str, state: JsonMapping) -> None:
        known = self._state.setdefault(model, {})
        if "children" in state:
            self._move_children(model, before=known, after=state)
        known.update(state)

    def _move_children(self, model: str, *, before: JsonMapping, after: JsonMapping) -> None:
        """Note which widgets are no longer in a box and which are now, given two states of the box."""
        for child in _children(before):
            self._boxes.get(child, {}).pop(model, None)
        for child in _children(after):
            self._boxes.setdefault(child, {})[model] = None

    def take_ended(self) -> list[str]:
        """Return the Output widgets that have ceased to capture since the last call."""
        ended, self._ended = list(self._ended), {}
        return ended

    def close(self, model: str) -> bool:
        """Mark a widget as closed; return whether it was known."""
        if model not in self._state:
            return False
        self._move_children(model, before=self._state[model], after={})
        self._state[model] = {"_model_name": _CLOSED}
        self._capturing = [each for each in self._capturing if each[0] != model]
        return True

    def is_output(self, model: str) -> bool:
        """Return whether the model is an Output widget."""
        return self._state.get(model, {}).get("_model_name") == _OUTPUT

    def find_capturing(self, message: str) -> str | None:
        """Return the id of the Output widget that captures what the kernel sends in answer to a message.

        `message` is the id of that message. Returns None if no widget captures its answers.
        """
        return next((model for model, captured in reversed(self._capturing) if captured == message), None)

    def put_into(self, widget: str, model: str) -> None:
        """Note that an Output widget has captured a view of `widget`, and so contains it as a box does."""
        self._captured.setdefault(model, {})[widget] = None
        self._outer.setdefault(widget, {})[model] = None

    def take_out(self, widget: str, model: str) -> None:
        """Note that an Output widget shows a widget no longer."""
        self._captured.get(model, {}).pop(widget, None)
        self._outer.get(widget, {}).pop(model, None)

    def find_capturing_view(self, widget: str) -> list[str]:
        """Return the ids of the Output widgets that show a captured view of this widget itself, not of a box around."""
        return list(self._outer.get(widget, ()))

    def find_containing(self, model: str) -> list[str]:
        """Return the widget `model`, what contains it, what contains that, and so on, each once.

        Boxes contain their children, and Output widgets the widgets that they show.
        """
        return _follow(model, lambda each: chain(self._boxes.get(each, ()), self._outer.get(each, ())))

    def find_contained(self, model: str) -> list[str]:
        """Return the widget `model`, what it contains, what this contains, and so on, each once."""
        return _follow(model, lambda each: chain(_children(self._state.get(each, {})), self._captured.get(each, ())))

    def render(self, model: str) -> str | None:
        """Return the text of the widget `model`; None if it cannot be rendered as text.

        If the widget has more than `MOST_PARTS` parts, the text shows the first ones and ends with the line "[...]".
        """
        return _Rendering(self._state).render(model)


class _Rendering:
    """A rendering of a widget as text, with bounded work."""

    def __init__(self, state: Mapping[str, JsonObject]) -> None:
        """Begin without parts; `state` has the state of each known widget."""
        self._state = state
        self._parts_left = MOST_PARTS
        self._is_cut = False

    def render(self, model: str) -> str | None:
        """Return the text of the widget; None if it cannot be rendered as text."""
        text = self._render(model, 0)
        return text if text is None or not self._is_cut else f"{text}\n{_CUT}"

    def _render(self, model: str, depth: int) -> str | None:
        """Return the text of a widget that lies in `depth` boxes; None if it cannot be rendered as text."""
        state = self._state.get(model)
        if state is None or depth > _DEEPEST:
            return None
        match str(state.get("_model_name")):
            case name if name in _SEPARATORS:
                titled = zip(_titles(state), self._render_children(state, depth), strict=False)
                parts = [_add_title(title, part) for title, part in titled if part is not None]
                return _SEPARATORS[name].join(parts) if parts else None
            case "HTMLModel" | "LabelModel" | "HTMLMathModel":
                return unescape(_TAGS.sub("", str(state.get("value", ""))))
            case name if depth == 0 and name in (_OUTPUT, _CLOSED):
                return ""
            case "FloatProgressModel" | "IntProgressModel":
                return _render_bar(state)
            case _:
                return _render_control(state)

    def _render_children(self, state: JsonMapping, depth: int) -> Iterator[str | None]:
        """Yield the text of each child of a box that lies in `depth` boxes, until the rendering has all its parts."""
        for child in _children(state):
            if self._parts_left <= 0:
                self._is_cut = True
                return
            self._parts_left -= 1
            text = self._render(child, depth + 1)
            self._parts_left -= len(text or "") // _TEXT_OF_A_PART
            yield text


def _follow(model: str, find_next: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the widget and all widgets that `find_next` leads to from there, each once."""
    found, following = {model: None}, [model]
    while following:
        for each in find_next(following.pop()):
            if each not in found:
                found[each] = None
                following.append(each)
    return list(found)


def _children(state: JsonMapping) -> Iterator[str]:
    """Yield the children of a box in their order; widgets that are no boxes have none."""
    children = state.get("children")
    for child in children if isinstance(children, list | tuple) else ():
        yield str(child).removeprefix(_CHILD)


def _titles(state: JsonMapping) -> Iterator[str]:
    """Yield the title of each child of a box, and then "" without end; boxes other than tabs have no titles."""
    titles = state.get("titles")
    return chain(map(str, titles) if isinstance(titles, list | tuple) else (), repeat(""))


def _add_title(title: str, part: str) -> str:
    """Return the text of a tab with its title in front."""
    return part if not title else f"{title}\n{indent(part, '  ')}"


def _render_control(state: JsonMapping) -> str | None:
    """Return the name and value of a control, such as "x: 3"; None if the widget has no name or no simple value."""
    name, value = state.get("description"), _find_value(state)
    return f"{name.rstrip(':')}: {value}" if name and isinstance(name, str) and value is not None else None


def _find_value(state: JsonMapping) -> str | None:
    """Return the value of a control as text; for a selection, the chosen labels; None if it has no simple value."""
    labels, chosen = state.get("_options_labels"), state.get("index")
    if isinstance(labels, list | tuple):
        places = chosen if isinstance(chosen, list | tuple) else [chosen]
        return ", ".join(str(labels[at]) for at in places if isinstance(at, int) and 0 <= at < len(labels))
    value = state.get("value")
    if state.get("_model_name") == "PasswordModel":
        return _HIDDEN
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(end, float | int) for end in value):
        return f"{value[0]} to {value[1]}"
    return str(value) if isinstance(value, str | float | int) else None


def _render_bar(state: JsonMapping) -> str | None:
    """Return a progress bar as text, such as `|█████     |`; None if its state is malformed.

    A bar with the style "danger", as tqdm sets it for a loop that was left, ends with the mark `INTERRUPTED`.
    """
    try:
        least, most = float(state.get("min", 0)), float(state.get("max", 100))
        part = (float(state.get("value", 0)) - least) / (most - least)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    full = round(_BAR_LENGTH * min(1.0, max(0.0, part)))
    mark = INTERRUPTED if state.get("bar_style") == "danger" else ""
    return f"|{'█' * full}{' ' * (_BAR_LENGTH - full)}{mark}|"
