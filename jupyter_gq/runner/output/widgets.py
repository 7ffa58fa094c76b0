"""The state of widgets, and the rendering of progress bars, labels and simple controls as text. Pure.

A widget lives in its kernel and in a browser that talks to it; a training job has no such browser. Labels, HTML,
progress bars, controls with a name and a value, and boxes of them can be rendered as text. An Output widget and a
widget that was closed have no text; captured outputs are shown beside the widget (`captured`). For all other widgets
the kernel's own text is kept.
"""

import re
from collections.abc import Mapping
from html import unescape

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

VIEW = "application/vnd.jupyter.widget-view+json"
_CHILD = "IPY_MODEL_"
_TAGS = re.compile(r"<[^>]*>")
_BAR_LENGTH = 20
#: Boxes in boxes deeper than this are not followed; a box may even contain itself.
_DEEPEST = 8
_OUTPUT = "OutputModel"
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
            case "HBoxModel" | "VBoxModel" | "BoxModel" as box:
                parts = [self._render(child, depth + 1) for child in _children(state)]
                rendered = [part for part in parts if part is not None]
                return ("\n" if box == "VBoxModel" else " ").join(rendered) if rendered else None
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


def _render_control(state: JsonMapping) -> str | None:
    """Return the name and value of a control, such as "x: 3"; None if the widget is no control with a single value."""
    name, value = state.get("description"), state.get("value")
    return f"{name}: {value}" if name and isinstance(name, str) and isinstance(value, str | float | int) else None


def _render_bar(state: JsonMapping) -> str | None:
    """Return a progress bar as text, such as `|█████     |`; None if its state is malformed."""
    try:
        least, most = float(state.get("min", 0)), float(state.get("max", 100))
        part = (float(state.get("value", 0)) - least) / (most - least)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    full = round(_BAR_LENGTH * min(1.0, max(0.0, part)))
    return f"|{'█' * full}{' ' * (_BAR_LENGTH - full)}|"
