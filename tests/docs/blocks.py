"""The fenced blocks of the pages, and the marks above them.

Each block with commands or code is run by `test_commands.py`, or has a mark in the line above it:

    <!-- not run: REASON -->
    <!-- run by: PATH OF A TEST THAT NAMES THE PAGE -->
"""

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

from .pages import PAGES, relative

_BLOCK = re.compile(
    r"^ *(?:<!-- (?P<mark>not run|run by): (?P<told>[^\n]+?) -->\n+ *)?"
    r"```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    #: "not run", "run by", or None.
    mark: str | None
    #: The reason or the path that the mark gives; "" without a mark.
    told: str

    @property
    def id(self) -> str:
        """The page and the line, as the id of a test."""
        return f"{relative(self.page)}:{self.line}"

    def commands(self):
        """Yield each shell command as a list of words."""
        text = self.text.replace("\\\n", " ")
        if self.language == "console":
            text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
        for line in text.splitlines():
            if words := shlex.split(line, comments=True):
                yield words

    def output(self) -> str:
        """Return what a console block shows below its commands."""
        return "\n".join(line for line in self.text.splitlines() if not line.startswith("$ ")).strip()


def blocks() -> list[Block]:
    """Return all fenced blocks of all pages."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            found.append(
                Block(
                    page=page,
                    line=text.count("\n", 0, match.start("language")) + 1,
                    language=match["language"],
                    text=textwrap.dedent(match["text"]),
                    mark=match["mark"],
                    told=match["told"] or "",
                )
            )
    return found
