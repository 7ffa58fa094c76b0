"""The log of a run as text: everything that the kernel printed and that the runner did."""

import re
from typing import TextIO

from jupyter_gq.domain.json_types import JsonObject

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class RunLog:
    """A log of outputs as readable text. The methods raise `OSError` if the disk does not take the text.

    Each output is written as it comes, also those that a cell drops beyond its bounds.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._line_is_open = False

    def begin_cell(self, name: str) -> None:
        """Write the heading of a cell that starts, with the name by which its owner knows it."""
        self.end_line()
        self._write(f"--- {name}\n")

    def add(self, output: JsonObject) -> None:
        """Write the text of an output.

        An error is written as its traceback without colours, and a display without text as its MIME types.
        """
        if output["output_type"] == "stream":
            self._write(str(output["text"]))
        else:
            self.end_line()
            self._write(_describe(output) + "\n")

    def end_line(self) -> None:
        """End a line that is open, so that the next text begins on a new line."""
        if self._line_is_open:
            self._file.write("\n")
            self._file.flush()
            self._line_is_open = False

    def _write(self, text: str) -> None:
        if text:
            self._file.write(text)
            self._file.flush()
            self._line_is_open = not text.endswith("\n")


def _describe(output: JsonObject) -> str:
    if output["output_type"] == "error":
        return _ESCAPES.sub("", "\n".join(output["traceback"]))
    return str(output["data"].get("text/plain", f"[{', '.join(output['data'])}]"))
