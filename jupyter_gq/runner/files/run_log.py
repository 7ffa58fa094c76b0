"""The log of a run as text: everything that the kernel printed and that the runner did."""

import re
from typing import TextIO

from jupyter_gq.domain.json_types import JsonObject

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class RunLog:
    """A log of output pieces as readable text. The methods raise `OSError` if the disk does not take the text."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._line_is_open = False

    def write(self, pieces: list[JsonObject]) -> None:
        """Write the text of these pieces to the log; pieces without text are skipped."""
        for piece in pieces:
            text = _to_text(piece)
            if not text:
                continue
            if piece["op"] == "cell" or piece["output"]["output_type"] != "stream":
                self.end_line()
            self._file.write(text)
            self._line_is_open = not text.endswith("\n")
        self._file.flush()

    def end_line(self) -> None:
        """End a line that is open, so that the next text begins on a new line."""
        if self._line_is_open:
            self._file.write("\n")
            self._file.flush()
            self._line_is_open = False


def _to_text(piece: JsonObject) -> str:
    """Return the text of a piece in the log; "" if the piece does not appear there."""
    match piece["op"]:
        case "append":
            return _text_of(piece["output"])
        case "cell" if piece["state"] == "start":
            return f"--- {'replayed ' if piece['role'] == 'prefix' else ''}cell {piece['cell']}\n"
        case _:
            return ""


def _text_of(output: JsonObject) -> str:
    """Return an output as plain text: an error as its traceback without colours.

    A display without text is shown as its MIME types.
    """
    match output["output_type"]:
        case "stream":
            return str(output["text"])
        case "error":
            return _ESCAPES.sub("", "\n".join(output["traceback"])) + "\n"
        case _:
            return str(output["data"].get("text/plain", f"[{', '.join(output['data'])}]")) + "\n"
