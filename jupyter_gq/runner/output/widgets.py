"""Rendering of progress bars and labels made of widgets as text. Pure.

A widget lives in its kernel and in a browser that talks to it; a training job has no such browser. Labels, HTML,
progress bars and boxes of them can be rendered as text: tqdm shows these in a notebook. For all other widgets the
kernel's own text is kept.
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


class Widgets:
    """The state of a kernel's widgets."""

    def __init__(self) -> None:
        self._state: dict[str, JsonObject] = {}

    def apply(self, content: JsonMapping) -> bool:
        """Apply the content of a comm message; return whether it carries the state of a widget."""
        data = content.get("data")
        state = data.get("state") if isinstance(data, Mapping) else None
        if not isinstance(state, Mapping):
            return False
        self._state.setdefault(str(content["comm_id"]), {}).update(state)
        return True

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
            case "FloatProgressModel" | "IntProgressModel":
                return _render_bar(state)
            case _:
                return None


def _children(state: JsonMapping) -> list[str]:
    return [str(child).removeprefix(_CHILD) for child in state.get("children", ())]


def _render_bar(state: JsonMapping) -> str | None:
    """Return a progress bar as text, such as `|█████     |`; None if its state is malformed."""
    try:
        least, most = float(state.get("min", 0)), float(state.get("max", 100))
        part = (float(state.get("value", 0)) - least) / (most - least)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    full = round(_BAR_LENGTH * min(1.0, max(0.0, part)))
    return f"|{'█' * full}{' ' * (_BAR_LENGTH - full)}|"
