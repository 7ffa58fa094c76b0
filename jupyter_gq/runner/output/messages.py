"""The content of a kernel's messages about outputs. Pure.

User code can send any message in the kernel's name: `display(..., raw=True)` takes any data, and a session of the
kernel sends any content. `read_content` gives every field the type that the Jupyter protocol says, so that whatever
reads the content afterwards can rely on that. What makes no sense is left out, and the rest is shown.
"""

import re

from jupyter_gq.domain.json_types import JsonObject

from .cell_output import Output

#: The format of a widget's display in the data of an output.
VIEW = "application/vnd.jupyter.widget-view+json"
#: Formats whose values may be any JSON; those of all others are text.
_JSON_FORMAT = re.compile(r"application/(.*\+)?json")


def read_content(kind: str, content: object) -> JsonObject | None:
    """Return the content of a message of type `kind` with fields of the right types; None to ignore the message."""
    if not isinstance(content, dict):
        return None
    match kind:
        case "stream" if "text" in content:
            name = content.get("name")
            return {"name": name if isinstance(name, str) else "stdout", "text": str(content["text"])}
        case "display_data" | "execute_result" | "update_display_data":
            return _read_display(content)
        case "error":
            return _read_error(content)
        case "stream":
            return None
        case "status":
            return {"execution_state": str(content.get("execution_state"))}
        case _ if not isinstance(content.get("transient", {}), dict):
            return {**content, "transient": {}}  # nbclient looks into that of every message
        case _:
            return content


def _read_display(content: JsonObject) -> JsonObject | None:
    data, metadata, count = content.get("data"), content.get("metadata"), content.get("execution_count")
    if not isinstance(data, dict):
        return None
    read = {name: value for name, value in data.items() if name != VIEW or _is_view(value)}
    if data and not read:
        return None
    display: JsonObject = {
        "data": {name: _read_value(name, value) for name, value in read.items()},
        "metadata": metadata if isinstance(metadata, dict) else {},
        "transient": _read_transient(content.get("transient")),
    }
    if isinstance(count, int) and not isinstance(count, bool):
        display["execution_count"] = count
    return display


def _is_view(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("model_id"), str)


def _read_value(name: str, value: object) -> object:
    is_text = isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))
    return value if is_text or _JSON_FORMAT.fullmatch(name) else str(value)


def _read_transient(transient: object) -> JsonObject:
    """Return the `transient` of a display with its display id as text, if there is one; IPython takes any value."""
    display_id = transient.get("display_id") if isinstance(transient, dict) else None
    return {"display_id": str(display_id)} if display_id else {}


def _read_error(content: JsonObject) -> JsonObject:
    lines = content.get("traceback")
    return {
        "ename": str(content.get("ename", "")),
        "evalue": str(content.get("evalue", "")),
        "traceback": [str(line) for line in lines] if isinstance(lines, list) else [],
    }


def find_view(content: JsonObject) -> str | None:
    """Return the widget that a display shows, from the content of its message; None for any other output."""
    view = content.get("data", {}).get(VIEW)
    return None if view is None else str(view["model_id"])


def make_output(kind: str, content: JsonObject) -> Output | None:
    """Return the nbformat output of a message; None for types that are no outputs."""
    match kind:
        case "stream":
            return {"output_type": kind, "name": content["name"], "text": content["text"]}
        case "display_data":
            return {"output_type": kind, **_shown(content)}
        case "execute_result":
            count = content.get("execution_count")
            return {"output_type": kind, **_shown(content), "execution_count": count}
        case "error":
            return {"output_type": kind, **{name: content[name] for name in ("ename", "evalue", "traceback")}}
        case _:
            return None


def _shown(content: JsonObject) -> JsonObject:
    # The order is that of nbformat: code can print what an Output widget has captured.
    return {"metadata": content.get("metadata", {}), "data": without_view(content["data"])}


def without_view(data: JsonObject) -> JsonObject:
    """Return the data without the view of a widget if another form is left.

    A widget lives in its kernel, which cannot be reached from the notebook; its text is shown instead.
    """
    if VIEW in data and len(data) > 1:
        return {kind: value for kind, value in data.items() if kind != VIEW}
    return data
