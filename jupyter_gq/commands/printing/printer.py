"""The news of a job on the terminal: outputs on standard output, everything about the job on standard error."""

import json
import shutil
import sys
from collections.abc import Iterable

from jupyter_gq.client.models import JobView
from jupyter_gq.client.outputs.output_text import OutputText
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.phases import ENDED

from .tables import cut_lines

_CLEAR_LINE = "\r\x1b[K"


class StatePrinter:
    """A watcher that prints changes of the job's state and of the connection on standard error, and no outputs."""

    def __init__(self) -> None:
        self._told = ""

    def show_job(self, job: JobView) -> None:
        """Print the state of the job if its phase has changed, or its reason or place while it waits."""
        waits = job.phase in {"waiting", "paused"}
        place = "" if job.position is None else f" Place in the queue: {job.position}."
        told = (job.sentence or job.phase) + place
        key = told if waits else job.phase
        if key != self._told and job.phase not in ENDED:
            self._told = key
            self.tell(told)

    def show_pieces(self, pieces: list[JsonObject]) -> None:
        """Print nothing."""

    def show_connection(self, available: bool) -> None:
        """Print that the service has gone away or has come back."""
        self.tell("The service answers again." if available else "The service does not answer; this command waits.")

    def tell(self, sentence: str) -> None:
        """Print a sentence on standard error."""
        print_plain(sentence, sys.stderr)
        sys.stderr.flush()

    def end(self) -> None:
        """Print what was held back until the outputs ended: nothing."""


class TextPrinter(StatePrinter):
    """A watcher that also prints outputs as text. On a terminal, the line that has not ended yet is shown too."""

    def __init__(self) -> None:
        super().__init__()
        self._text = OutputText()
        self._is_terminal = sys.stdout.isatty()
        self._shown = ""

    def show_pieces(self, pieces: list[JsonObject]) -> None:
        """Print the lines that these pieces of output complete."""
        self._print(self._text.add(pieces), self._text.partial)

    def tell(self, sentence: str) -> None:
        """Print a sentence on standard error, on a line of its own."""
        self._print([], "")
        super().tell(sentence)

    def end(self) -> None:
        """Print the lines that were not complete when the outputs ended."""
        self._print(self._text.end(), "")

    def _print(self, lines: Iterable[str], partial: str) -> None:
        """Print whole lines, then on a terminal the partial one, in place of the partial line before."""
        if self._shown:
            sys.stdout.write(_CLEAR_LINE)
        for line in lines:
            sys.stdout.write(line + "\n")
        self._shown = partial if self._is_terminal else ""
        if self._shown:
            (cut,) = cut_lines([self._shown], shutil.get_terminal_size().columns - 1)
            sys.stdout.write(cut)
        sys.stdout.flush()


class JsonPrinter(StatePrinter):
    """A watcher that also prints each piece of output as a line of JSON."""

    def show_pieces(self, pieces: list[JsonObject]) -> None:
        """Print a line for each piece."""
        for piece in pieces:
            print(json.dumps(piece), flush=True)
