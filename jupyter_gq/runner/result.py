"""The result of a run, with the sentence that its owner reads. Pure."""

from dataclasses import asdict, dataclass
from typing import Literal

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.domain.json_types import JsonObject

_LONGEST_VALUE = 300
#: Most characters of an exception's text in the result: a reader refuses results of more than 64 KiB.
_LONGEST_EVALUE = 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The result of a run."""

    #: PAUSED: the run was told to stop and can be continued.
    outcome: Literal["SUCCEEDED", "FAILED", "PAUSED"]
    #: Explanation of a FAILED run, one sentence.
    sentence: str = ""
    #: Class and text of the exception that the user's code raised.
    ename: str | None = None
    evalue: str | None = None

    def to_document(self, at: float) -> JsonObject:
        """Return the content of `result.json`; `at` is the time of the end in seconds since the epoch."""
        return {**asdict(self), "finished_at": at}


SUCCEEDED = RunResult(outcome="SUCCEEDED")
PAUSED = RunResult(outcome="PAUSED")


def describe_failure(sentence: str) -> RunResult:
    """Return a FAILED result with this sentence, for a failure outside the user's code."""
    return RunResult(outcome="FAILED", sentence=sentence)


def describe_exception(cells: tuple[CellToRun, ...], cell: CellToRun, ename: str, evalue: str) -> RunResult:
    """Return the FAILED result of a run in which `cell` raised an exception.

    `ename` and `evalue` are the exception's class and text. The sentence shows at most the first 300 characters of
    each, and the result has at most the first 4000 characters of the text. For code that asked for input, the sentence
    explains that nobody can answer.
    """
    ename, evalue = ename[:_LONGEST_VALUE], evalue[:_LONGEST_EVALUE]
    if ename == "StdinNotImplementedError":
        what = "asked for input, but nobody can answer a training job: put the value into the code instead"
    else:
        short = evalue if len(evalue) <= _LONGEST_VALUE else evalue[:_LONGEST_VALUE] + "..."
        what = f"raised {ename}: {short}" if short else f"raised {ename}"
    sentence = f"{_name_cell(cells, cell)} {what}{'' if what.endswith(('.', '!', '?')) else '.'}"
    return RunResult(outcome="FAILED", sentence=sentence, ename=ename, evalue=evalue)


def describe_kernel_exit(cells: tuple[CellToRun, ...], cell: CellToRun, how: str) -> RunResult:
    """Return the FAILED result of a run whose kernel ended while `cell` ran; `how` completes "The kernel ..."."""
    name = _name_cell(cells, cell)
    return describe_failure(f"The kernel {how}; it was running {name[0].lower()}{name[1:]}.")


def _name_cell(cells: tuple[CellToRun, ...], cell: CellToRun) -> str:
    """Return the name of a cell in a sentence, such as "Cell 2 of 3 (`x = 1`)"."""
    same = [other for other in cells if other.role == cell.role]
    place = f"{same.index(cell) + 1} of {len(same)}"
    if cell.role == "prefix":
        return f"The replayed cell {place} (`{cell.first_line}`)"
    return "The cell" if len(same) == 1 else f"Cell {place} (`{cell.first_line}`)"
