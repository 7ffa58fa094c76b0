"""The result of a run, with the sentence that its owner reads. Pure."""

from dataclasses import asdict, dataclass, replace
from typing import Literal

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.domain.job_names import CodeNoun, find_code_noun
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.memory_kill import MemoryKill
from jupyter_gq.runner.mask import Mask

_LONGEST_VALUE = 300
#: Most characters of an exception's text in the result: a reader refuses results of more than 64 KiB.
_LONGEST_EVALUE = 4000
_LONGEST_COMMAND = 60
_PATHS = "Relative paths start in the folder in which the job runs."
_NO_LINKS = "If the job has files, it runs in a folder of its own, which is no repository."
_NAME_VERSION = "name the version yourself, as by SETUPTOOLS_SCM_PRETEND_VERSION."
#: What the owner of a cell can do after an exception, by its class.
_CELL_REMEDIES = {
    "NameError": "If a cell that did not run in the job makes this name, let that cell run first.",
    "ModuleNotFoundError": "Install the package where the kernel of this notebook runs, then send the cell again.",
    "FileNotFoundError": f"{_PATHS} Correct the path, or take the file along or choose the live folder when you send "
    "the cell again.",
    "NoRepository": f"{_NO_LINKS} Choose the live folder when you send the cell again, or {_NAME_VERSION}",
}
#: What the owner of other code can do, which has no dialog.
_OTHER_REMEDIES = {
    "ModuleNotFoundError": "Install the package where the kernel of the job runs, then send the {code} again.",
    "FileNotFoundError": f"{_PATHS} Correct the path and send the {{code}} again.",
    "NoRepository": f"{_NO_LINKS} If so, {_NAME_VERSION}",
}
#: What any owner can do. `{code}` is what the owner sent, such as "cell".
_REMEDIES = {
    "OutOfMemoryError": "Use less memory, for instance smaller batches, or ask for more GPUs.",
    "MemoryError": "Use less memory, or ask for more memory for the job.",
    "ParserError": "The {code} is nested too deeply for Python, whose parser has a memory of its own. Write it in "
    "steps.",
    "KeyboardInterrupt": "Something interrupted the kernel. Send the {code} again.",
}
#: Exceptions that are of another kind than their class says, by words of their text. Python raises `MemoryError` for
#: code that is nested too deeply. For repositories see docs/decisions/0319-link-no-repository.md.
_KINDS = {
    "CUDA out of memory": "OutOfMemoryError",
    "Parser stack overflowed": "ParserError",
    "not a git repository": "NoRepository",
    "setuptools-scm was unable to detect version": "NoRepository",
    "you are not inside of a DVC repository": "NoRepository",
}
#: Exceptions of libraries for repositories, whose text is only the path.
_NO_REPOSITORY = frozenset({"InvalidGitRepositoryError", "NotDvcRepoError", "NotGitRepository"})


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


def hide_secrets(result: RunResult, mask: Mask) -> RunResult:
    """Return the result without the values of secrets, which an exception may quote."""
    return replace(
        result,
        sentence=mask.hide(result.sentence),
        ename=None if result.ename is None else mask.hide(result.ename),
        evalue=None if result.evalue is None else mask.hide(result.evalue),
    )


SUCCEEDED = RunResult(outcome="SUCCEEDED")
PAUSED = RunResult(outcome="PAUSED")


def describe_failure(sentence: str) -> RunResult:
    """Return a FAILED result with this sentence, for a failure outside the user's code."""
    return RunResult(outcome="FAILED", sentence=sentence)


def describe_exception(
    cells: tuple[CellToRun, ...],
    cell: CellToRun,
    ename: str,
    evalue: str,
    kill: MemoryKill | None = None,
    *,
    by_value: bool = False,
) -> RunResult:
    """Return the FAILED result of a run in which `cell` raised an exception.

    `ename` and `evalue` are the exception's class and text. The sentence shows at most the first 300 characters of
    each, and the result has at most the first 4000 characters of the text. The sentence ends with what its owner can
    do. `kill` tells that Linux killed a process of the job meanwhile, which most often explains the exception.
    `by_value` tells that the cell itself ran, and that the display of one of its values raised the exception.
    """
    ename, evalue = ename[:_LONGEST_VALUE], evalue[:_LONGEST_EVALUE]
    if ename == "StdinNotImplementedError":
        what = "asked for input, but nobody can answer a training job: put the value into the code instead."
    else:
        short = evalue if len(evalue) <= _LONGEST_VALUE else evalue[:_LONGEST_VALUE] + "..."
        raised = "ran, but one of its values cannot be shown: it raised" if by_value else "raised"
        what = _end_sentence(f"{raised} {ename}: {short}" if short else f"{raised} {ename}")
        what = f"{what} {_find_remedy(cells, cell, ename, evalue) if kill is None else _describe_kill(kill)}"
    return RunResult(outcome="FAILED", sentence=f"{_name_cell(cells, cell)} {what}", ename=ename, evalue=evalue)


def describe_exit_by_code(cells: tuple[CellToRun, ...], cell: CellToRun, argument: str) -> RunResult:
    """Return the result of a run that the code of `cell` ended with `exit(argument)`; "" for success.

    The run has succeeded if the argument says so and a cell that the user sent said it. A sentence tells that cells
    after it did not run.
    """
    name = _name_cell(cells, cell)
    is_last = cell is cells[-1]
    if argument == "":
        if is_last:
            return SUCCEEDED
        told = f"{name} ended the job with exit(), so the cells after it did not run."
        if cell.role == "prefix":
            return describe_failure(f"{told} Leave that cell out, or remove the exit().")
        return RunResult(outcome="SUCCEEDED", sentence=told)
    short = argument if len(argument) <= _LONGEST_VALUE else argument[:_LONGEST_VALUE] + "..."
    how = f"exit status {short}" if short.lstrip("-").isdecimal() else f"exit: {short}"
    sentence = (
        f"{_end_sentence(f'{name} ended the job with {how}')} {_find_remedy(cells, cell, 'SystemExit', argument)}"
    )
    return RunResult(outcome="FAILED", sentence=sentence, ename="SystemExit", evalue=argument[:_LONGEST_EVALUE])


def describe_failed_command(
    cells: tuple[CellToRun, ...], cell: CellToRun, command: str, status: int, kill: MemoryKill | None = None
) -> RunResult:
    """Return the FAILED result of a run whose last cell ended with a shell command that failed.

    `kill` tells that Linux killed a process of the job meanwhile.
    """
    short = command if len(command) <= _LONGEST_COMMAND else command[:_LONGEST_COMMAND] + "..."
    name = _name_cell(cells, cell)
    return describe_failure(
        f"{name} ran, but its last command `{short}` ended with exit status {status}. "
        + ("What the command printed, if anything, says why." if kill is None else _describe_kill(kill))
    )


def describe_kernel_exit(cells: tuple[CellToRun, ...], cell: CellToRun, how: str, remedy: str = "") -> RunResult:
    """Return the FAILED result of a run whose kernel ended while `cell` ran.

    `how` completes "The kernel ...", and `remedy` is a sentence on what the owner can do, or "".
    """
    name = _name_cell(cells, cell)
    return describe_failure(f"The kernel {how}; it was running {name[0].lower()}{name[1:]}. {remedy}".rstrip())


def describe_missing_reply(cells: tuple[CellToRun, ...], cell: CellToRun) -> RunResult:
    """Return the FAILED result of a run whose kernel was idle again without a word about `cell`."""
    return describe_failure(
        f"{_name_cell(cells, cell)} ended without a result: the kernel could not execute it, as happens if an "
        "expression is too long or too deep. The log of the runner has its error. "
        f"Split the {_find_noun(cells)}, and send it again."
    )


def _describe_kill(kill: MemoryKill) -> str:
    """Return sentences on a process that was killed while a cell ran, and on what the owner can do."""
    return f"Meanwhile, Linux killed a process of the job, because {kill.explain('the job')}. {kill.remedy}"


def _find_remedy(cells: tuple[CellToRun, ...], cell: CellToRun, ename: str, evalue: str) -> str:
    """Return a sentence on what the owner can do after an exception in `cell`."""
    known = next((kind for words, kind in _KINDS.items() if words in evalue), ename.rsplit(".", 1)[-1])
    if known in _NO_REPOSITORY:
        known = "NoRepository"
    noun = _find_noun(cells)
    remedies = _REMEDIES | (_CELL_REMEDIES if noun == "cell" else _OTHER_REMEDIES)
    if known in remedies:
        return remedies[known].format(code=noun)
    if noun == "cell" and cell.role == "prefix":
        return "Correct that cell, or leave it out, and send again."
    return f"Correct the {noun} and send it again."


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def locate_cell(cells: tuple[CellToRun, ...], cell: CellToRun) -> str:
    """Return what a cell is and where, such as "replayed cell 2 of 3 (`x = 1`)"; for other code "script" or similar."""
    noun = _find_noun(cells)
    if noun != "cell":
        return "load of the function" if (noun, cell.role) == ("function", "prefix") else noun
    same = [other for other in cells if other.role == cell.role]
    kind = "replayed cell" if cell.role == "prefix" else "cell"
    return f"{kind} {same.index(cell) + 1} of {len(same)} (`{cell.first_line}`)"


def _name_cell(cells: tuple[CellToRun, ...], cell: CellToRun) -> str:
    """Return the name of a cell at the beginning of a sentence: "Cell 2 of 3 (`x = 1`)", "The cell", "The script"."""
    place = locate_cell(cells, cell)
    if not place.startswith("cell "):
        return f"The {place}"
    targets = [other for other in cells if other.role == "target"]
    return "The cell" if len(targets) == 1 else f"C{place[1:]}"


def _find_noun(cells: tuple[CellToRun, ...]) -> CodeNoun:
    """Return what the owner calls the code that these cells hold."""
    targets, prefix = ([cell.id for cell in cells if cell.role == role] for role in ("target", "prefix"))
    return find_code_noun(targets, prefix)
