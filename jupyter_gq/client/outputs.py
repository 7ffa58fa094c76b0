"""The numbered output of a job, and how it folds into the outputs of a cell.

Every piece is a JSON object with `seq` (from 1, no gaps, over all runs), `run`, `at` and `op`:

| op | further fields | meaning |
|---|---|---|
| `run` | `state`: "start", "ready" (with `language`) or "pause" | a run begins, its kernel answers, it was paused |
| `run` | `state`: "left out" | the service left out pieces up to this one, beyond the limit of a job |
| `cell` | `cell`, `role` ("prefix" or "target"), `state` ("start", "end"), `execution_count` | its limits |
| `append` | `cell`, `role`, `output` | an nbformat output; text of the same stream continues it |
| `replace` | `cell`, `role`, `index`, `output` | output number `index` was updated (display id) |
| `clear` | `cell`, `role` | clear_output |
| `set` | `cell`, `role`, `outputs` | all outputs anew: sent when the size cap left something out |

The end of a cell also says `finished`: false when it failed or was interrupted.

The same fold stands in the lab extension (`labextension/src/outputs.ts`); `tests/data/outputs.json` holds the
cases that both pass.

See docs/decisions/0002-number-the-pieces-of-output.md.
"""

from collections.abc import Iterable
from html import escape

from jupyter_gq.domain.json_types import JsonObject

#: The state of a mark in place of pieces that the service left out.
LEFT_OUT = "left out"

Output = JsonObject
CellOutputs = dict[str, list[Output]]

#: Fields of a piece that its substitute keeps.
_KEPT_FIELDS = ("seq", "run", "at", "op", "cell", "role", "index", "state", "finished")


def fold(events: Iterable[JsonObject], into: CellOutputs | None = None) -> CellOutputs:
    """Apply pieces of output in order, and return the outputs by the id of their cell.

    If `into` is given, the pieces continue these outputs, which are changed and returned.
    """
    cells: CellOutputs = {} if into is None else into
    for event in events:
        if "cell" in event:
            _apply(event, cells.setdefault(event["cell"], []))
    return cells


def _apply(event: JsonObject, outputs: list[Output]) -> None:
    """Change the outputs of a cell as one piece says; ignore an unknown operation or an index that does not exist."""
    match event["op"]:
        case "append":
            append(outputs, event["output"])
        case "replace" if event["index"] < len(outputs):
            outputs[event["index"]] = event["output"]
        case "clear":
            outputs.clear()
        case "set":
            outputs[:] = event["outputs"]


def append(outputs: list[Output], output: Output) -> None:
    """Add an output to the end of `outputs`; text of the same stream as the last output continues that output.

    The text of a stream is stored as a terminal would show it.
    """
    last = outputs[-1] if outputs else None
    same_stream = (
        last is not None and last["output_type"] == output["output_type"] == "stream" and last["name"] == output["name"]
    )
    if last is not None and same_stream:
        outputs[-1] = {**last, "text": collapse(last["text"] + output["text"])}
    else:
        if output["output_type"] == "stream":
            output = {**output, "text": collapse(output["text"])}
        outputs.append(output)


def collapse(text: str) -> str:
    """Return the text that a terminal would show.

    Text before a carriage return is overwritten, and a backspace removes one character. A carriage return at the very
    end is kept, so that what follows still overwrites the line.
    """
    if "\r" not in text and "\b" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(_collapse_line(line) for line in lines)


def _collapse_line(line: str) -> str:
    """Return what a terminal would show of one line; a carriage return at its end is kept."""
    trailing = "\r" if line.endswith("\r") else ""
    shown = ""
    for part in line.removesuffix("\r").split("\r"):
        overwritten = _apply_backspaces(part)
        shown = overwritten + shown[len(overwritten) :]
    return shown + trailing


def _apply_backspaces(text: str) -> str:
    """Return the text after its backspaces have removed characters."""
    if "\b" not in text:
        return text
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


def make_notice(sentence: str) -> Output:
    """Return a display output that shows this sentence among the user's outputs."""
    html = f'<div style="color: var(--jp-ui-font-color2); font-style: italic">{escape(sentence)}</div>'
    return {"output_type": "display_data", "data": {"text/plain": sentence, "text/html": html}, "metadata": {}}


def make_substitute(piece: JsonObject) -> JsonObject:
    """Return a piece in the place of one that the service refuses: it has the same number, and a notice as its output.

    Of the fields that say nothing about outputs, only those that every release knows are kept.
    """
    kept = {name: piece[name] for name in _KEPT_FIELDS if name in piece}
    notice = make_notice("Output was left out here: the scheduler service refused it. Save it to a file instead.")
    match piece.get("op"):
        case "append" | "replace":
            return kept | {"output": notice}
        case "set":
            return kept | {"outputs": [notice]}
        case _:
            return kept
