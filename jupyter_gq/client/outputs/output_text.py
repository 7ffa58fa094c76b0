"""The outputs of a job as lines of text that only grow, for a terminal or a file.

Rules
-----
- Printed once: a line that was printed is not printed again, also if a paused job continues. If outputs change
  (`clear_output`, an updated display), the lines from the first different one on are printed.
- Whole lines: a line is printed when it has ended, so a progress bar is one line. `partial` is the line that has not.
"""

from collections.abc import Iterable, Sequence

from jupyter_gq.domain.json_types import JsonObject, JsonValue
from jupyter_gq.domain.plain_text import strip_controls

from .fold import Fold, Output


class OutputText:
    """The text of a job's outputs so far. Pieces of output go in, in order; lines come out."""

    def __init__(self) -> None:
        self._folded = Fold()
        self._ended: set[str] = set()
        #: The lines of each cell that were returned.
        self._returned: dict[str, list[str]] = {}
        #: The line of the present cell that has not ended; "" if there is none.
        self.partial = ""

    def add(self, pieces: Iterable[JsonObject]) -> list[str]:
        """Return the lines that these pieces of output complete."""
        changed: dict[str, None] = {}
        for piece in pieces:
            if "cell" in piece:
                self._apply(piece)
                changed[piece["cell"]] = None
        return [line for cell in changed for line in self._new_lines(cell)]

    def end(self) -> list[str]:
        """Return the lines that were not complete when the outputs ended."""
        self._ended.update(self._folded.outputs)
        return [line for cell in self._folded.outputs for line in self._new_lines(cell)]

    def _apply(self, piece: JsonObject) -> None:
        """Add one piece to the outputs of its cell; a cell that starts once more continues its earlier outputs."""
        if piece["op"] == "cell":
            ended = piece.get("state") == "end"
            (self._ended.add if ended else self._ended.discard)(piece["cell"])
        self._folded.add([piece])

    def _new_lines(self, cell: str) -> list[str]:
        """Return the complete lines of a cell that were not returned before; set `partial`."""
        text = render(self._folded.outputs[cell])
        if cell in self._ended and text and not text.endswith("\n"):
            text += "\n"
        *lines, self.partial = text.split("\n")
        known = self._returned.setdefault(cell, [])
        common = _count_common(known, lines)
        if common == len(lines):  # cleared: the same lines may come back
            return []
        self._returned[cell] = lines
        return lines[common:]


def render(outputs: Sequence[Output]) -> str:
    """Return the outputs of a cell as text without control characters; each output begins on a new line."""
    text = ""
    for output in outputs:
        if text and not text.endswith("\n"):
            text += "\n"
        text += strip_controls(_render_output(output), lines=True)
    return text


def _render_output(output: Output) -> str:
    """Return the text of an output; an image or a widget without text is named by its type."""
    match output["output_type"]:
        case "stream":
            return _join(output["text"])
        case "error":
            return "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
        case _:
            data = output.get("data", {})
            return _join(data["text/plain"]) if "text/plain" in data else f"[{', '.join(sorted(data)) or 'no data'}]"


def _join(text: JsonValue) -> str:
    """Return text that may be a list of lines, as nbformat allows, as one text."""
    return "".join(text) if isinstance(text, list) else str(text)


def _count_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of leading lines that both lists share."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
