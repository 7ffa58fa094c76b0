"""Progress bars and labels made of widgets, as text. Pure.

A widget lives in its kernel and in a browser that talks to it; a training job has no such browser. What can be said
in words is: labels, HTML, progress bars and boxes of them, which is what tqdm shows in a notebook. Of all others the
kernel's own text stays.
"""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"
_CHILD = "IPY_MODEL_"
_TAGS = re.compile(r"<[^>]*>")
_BAR = 20
#: Boxes in boxes deeper than this are not followed; a box may even contain itself.
_DEEPEST = 8


class Widgets:
    """The state of a kernel's widgets."""

    def __init__(self) -> None:
        self._state: dict[str, dict[str, Any]] = {}

    def take(self, content: Mapping[str, Any]) -> bool:
        """Take the content of a comm message; True when it changed the state of a widget."""
        data = content.get("data")
        state = data.get("state") if isinstance(data, Mapping) else None
        if not isinstance(state, Mapping):
            return False
        self._state.setdefault(str(content["comm_id"]), {}).update(state)
        return True

    def text(self, model: str) -> str | None:
        """What this widget shows, in words; None when it cannot be said."""
        return self._text(model, 0)

    def _text(self, model: str, depth: int) -> str | None:
        state = self._state.get(model)
        if state is None or depth > _DEEPEST:
            return None
        match str(state.get("_model_name")):
            case "HBoxModel" | "VBoxModel" | "BoxModel" as box:
                parts = [self._text(child, depth + 1) for child in _children(state)]
                said = [part for part in parts if part is not None]
                return ("\n" if box == "VBoxModel" else " ").join(said) if said else None
            case "HTMLModel" | "LabelModel" | "HTMLMathModel":
                return unescape(_TAGS.sub("", str(state.get("value", ""))))
            case "FloatProgressModel" | "IntProgressModel":
                return _bar(state)
            case _:
                return None


def _children(state: Mapping[str, Any]) -> list[str]:
    return [str(child).removeprefix(_CHILD) for child in state.get("children", ())]


def _bar(state: Mapping[str, Any]) -> str | None:
    try:
        least, most = float(state.get("min", 0)), float(state.get("max", 100))
        part = (float(state.get("value", 0)) - least) / (most - least)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    full = round(_BAR * min(1.0, max(0.0, part)))
    return f"|{'█' * full}{' ' * (_BAR - full)}|"
