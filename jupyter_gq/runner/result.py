"""How a run ended, in the words that its owner reads. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from jupyter_gq.client.bundle import CellToRun

_LONGEST_VALUE = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The end of a run."""

    #: PAUSED: it was told to stop, and stopped at a good place.
    outcome: Literal["SUCCEEDED", "FAILED", "PAUSED"]
    #: For FAILED: one sentence.
    sentence: str = ""
    #: For an exception of the user's code: its class and its text.
    ename: str | None = None
    evalue: str | None = None

    def result(self, at: float) -> dict[str, Any]:
        """The content of result.json; `at` in seconds since the epoch."""
        return {**asdict(self), "finished_at": at}


SUCCEEDED = Verdict(outcome="SUCCEEDED")
PAUSED = Verdict(outcome="PAUSED")


def broken(sentence: str) -> Verdict:
    """Something else than the user's code failed."""
    return Verdict(outcome="FAILED", sentence=sentence)


def raised(cells: tuple[CellToRun, ...], cell: CellToRun, ename: str, evalue: str) -> Verdict:
    """The user's code raised in this cell."""
    if ename == "StdinNotImplementedError":
        what = "asked for input, but nobody can answer a training job: put the value into the code instead"
    else:
        short = evalue if len(evalue) <= _LONGEST_VALUE else evalue[:_LONGEST_VALUE] + "..."
        what = f"raised {ename}: {short}" if short else f"raised {ename}"
    sentence = f"{_cell(cells, cell)} {what}{'' if what.endswith(('.', '!', '?')) else '.'}"
    return Verdict(outcome="FAILED", sentence=sentence, ename=ename, evalue=evalue)


def kernel_ended(cells: tuple[CellToRun, ...], cell: CellToRun, how: str) -> Verdict:
    """The kernel ended while this cell ran."""
    name = _cell(cells, cell)
    return broken(f"The kernel {how}; it was running {name[0].lower()}{name[1:]}.")


def _cell(cells: tuple[CellToRun, ...], cell: CellToRun) -> str:
    """The cell as its owner knows it."""
    same = [other for other in cells if other.role == cell.role]
    place = f"{same.index(cell) + 1} of {len(same)}"
    if cell.role == "prefix":
        return f"The replayed cell {place} (`{cell.first_line}`)"
    return "The cell" if len(same) == 1 else f"Cell {place} (`{cell.first_line}`)"
