"""The state of widgets, and the rendering of progress bars, labels and simple controls as text. Pure.

A widget lives in its kernel and in a browser that talks to it; a training job has no such browser. Labels, HTML,
progress bars, controls with a name and a value, and boxes and tabs of them can be rendered as text; the value of a
password is hidden. An Output widget and a widget that was closed have no text; captured outputs are shown beside the
widget (`captured`). For all other widgets the kernel's own text is kept.
"""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from itertools import chain, repeat
from textwrap import indent

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

VIEW = "application/vnd.jupyter.widget-view+json"
_CHILD = "IPY_MODEL_"
_TAGS = re.compile(r"<[^>]*>")
_BAR_LENGTH = 20
#: Boxes in boxes deeper than this are not followed; a box may even contain itself.
_DEEPEST = 8
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
        self._state.setdefault(model, {}).update(state)
        if "msg_id" in state and self.is_output(model):
            self._capturing = [each for each in self._capturing if each[0] != model]
            if state["msg_id"]:
                self._capturing.append((model, str(state["msg_id"])))
            else:
                self._ended[model] = None
        return state

    def take_ended(self) -> list[str]:
        """Return the Output widgets that have ceased to capture since the last call."""
        ended, self._ended = list(self._ended), {}
        return ended

    def close(self, model: str) -> bool:
        """Mark a widget as closed; return whether it was known."""
        if model not in self._state:
            return False
        self._state[model] = {"_model_name": _CLOSED}
        self._capturing = [each for each in self._capturing if each[0] != model]
        return True

    def is_output(self, model: str) -> bool:
        """Return whether the model is an Output widget."""
        return self._state.get(model, {}).get("_model_name") == _OUTPUT

    def find_capturing(self, message: str) -> str | None:
        """Return the Output widget that captures what is sent in answer to a message; None if none does."""
        return next((model for model, captured in reversed(self._capturing) if captured == message), None)

    def contains(self, root: str, model: str) -> bool:
        """Return whether the widget `root` is `model`, or a box with that widget in it, or in its boxes."""
        seen, following = {root}, [root]
        while following:
            children = set(_children(self._state.get(following.pop(), {}))) - seen
            seen |= children
            following += children
        return model in seen

    def render(self, model: str) -> str | None:
        """Return the text of the widget `model`; None if it cannot be rendered as text."""
        return self._render(model, 0)

    def _render(self, model: str, depth: int) -> str | None:
        """Return the text of a widget that lies in `depth` boxes; None if it cannot be rendered as text."""
        state = self._state.get(model)
        if state is None or depth > _DEEPEST:
            return None
        match str(state.get("_model_name")):
            case name if name in _SEPARATORS:
                parts = [self._render(child, depth + 1) for child in _children(state)]
                titled = [_add_title(title, part) for title, part in zip(_titles(state), parts, strict=False)]
                rendered = [part for part in titled if part is not None]
                return _SEPARATORS[name].join(rendered) if rendered else None
            case "HTMLModel" | "LabelModel" | "HTMLMathModel":
                return unescape(_TAGS.sub("", str(state.get("value", ""))))
            case name if depth == 0 and name in (_OUTPUT, _CLOSED):
                return ""
            case "FloatProgressModel" | "IntProgressModel":
                return _render_bar(state)
            case _:
                return _render_control(state)


def _children(state: JsonMapping) -> list[str]:
    children = state.get("children")
    return [str(child).removeprefix(_CHILD) for child in children] if isinstance(children, list | tuple) else []


def _titles(state: JsonMapping) -> Iterator[str]:
    """Yield the title of each child of a box, and then "" without end; boxes other than tabs have no titles."""
    titles = state.get("titles")
    return chain(map(str, titles) if isinstance(titles, list | tuple) else (), repeat(""))


def _add_title(title: str, part: str | None) -> str | None:
    """Return the text of a tab with its title in front; None if the tab cannot be rendered."""
    return part if part is None or not title else f"{title}\n{indent(part, '  ')}"


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
    """Return a progress bar as text, such as `|█████     |`; None if its state is malformed."""
    try:
        least, most = float(state.get("min", 0)), float(state.get("max", 100))
        part = (float(state.get("value", 0)) - least) / (most - least)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    full = round(_BAR_LENGTH * min(1.0, max(0.0, part)))
    return f"|{'█' * full}{' ' * (_BAR_LENGTH - full)}|"
