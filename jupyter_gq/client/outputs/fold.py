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
    folded = Fold(into)
    folded.add(events)
    return folded.outputs


class Fold:
    """The outputs of cells to which pieces are added. A piece costs its own length, however much is there already."""

    def __init__(self, outputs: CellOutputs | None = None) -> None:
        self._cells: CellOutputs = {} if outputs is None else outputs
        #: Streams that are the last output of their cell and may go on, by the cell. Their text is not in `_cells` yet.
        self._open: dict[str, _Stream] = {}

    @property
    def outputs(self) -> CellOutputs:
        """The outputs so far, by the id of their cell. The dict is not a copy: later pieces change it."""
        for cell in list(self._open):
            self._close(cell)
        return self._cells

    def add(self, events: Iterable[JsonObject]) -> None:
        """Apply the next pieces of output, in order."""
        for event in events:
            if "cell" in event:
                self._apply(event, event["cell"], self._cells.setdefault(event["cell"], []))

    def _apply(self, event: JsonObject, cell: str, outputs: list[Output]) -> None:
        """Change the outputs of a cell as one piece says; ignore unknown operations and missing indexes."""
        match event["op"]:
            case "append":
                self._append(cell, outputs, event["output"])
            case "replace" if event["index"] < len(outputs):
                self._close(cell)
                outputs[event["index"]] = event["output"]
            case "clear":
                self._open.pop(cell, None)
                outputs.clear()
            case "set":
                self._open.pop(cell, None)
                outputs[:] = event["outputs"]

    def _append(self, cell: str, outputs: list[Output], output: Output) -> None:
        """Add an output to those of a cell; text of the same stream as the last output continues that output."""
        if output["output_type"] != "stream":
            self._close(cell)
            outputs.append(output)
            return
        last = outputs[-1] if outputs else None
        if last is None or last["output_type"] != "stream" or last["name"] != output["name"]:
            self._close(cell)
            outputs.append({**output, "text": ""})
            self._open[cell] = _Stream("")
        elif cell not in self._open:
            self._open[cell] = _Stream(last["text"])
        self._open[cell].add(output["text"])

    def _close(self, cell: str) -> None:
        """Put the text of the stream that is the last output of a cell into the outputs."""
        stream = self._open.pop(cell, None)
        if stream is not None:
            outputs = self._cells[cell]
            outputs[-1] = {**outputs[-1], "text": stream.join()}


class _Stream:
    """The text of a stream as a terminal would show it, in parts, since only the last line can still change."""

    def __init__(self, text: str) -> None:
        line = text.rfind("\n") + 1
        self._ended = [text[:line]]
        self._line = [text[line:]]

    def add(self, text: str) -> None:
        """Continue the text."""
        if not text:
            return
        if "\r" in text or "\b" in text or self._line[-1].endswith("\r"):
            text = collapse("".join([*self._line, text]))
            self._line = []
        end = text.rfind("\n") + 1
        if end:
            self._ended += [*self._line, text[:end]]
            self._line = []
        self._line.append(text[end:])

    def join(self) -> str:
        """Return the whole text."""
        return "".join([*self._ended, *self._line])


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
