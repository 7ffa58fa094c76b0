"""The results of tasks and runs: from what a task's runner wrote last, from what was asked of it, and from its exit."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.exit_status import DISK_FULL, NO_ROOM, RESULT_NOT_WRITTEN, explain_unwritten_result
from jupyter_gq.client.files.user_files import SMALL_FILE
from jupyter_gq.devices.linux.control_group import MemoryWatch
from jupyter_gq.domain.errors import UnansweredFile, UnusableFile

from .accounts import UnixAccount
from .files import read_owned_end, read_owned_json
from .ledger import Run
from .tasks import ENTER, SHIELD

#: Outcomes that a task may write about itself. A task can know no other.
_OWN_OUTCOMES = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED})
#: Sentence of a run of which no process, and no word in its log, says that its start came to an end.
HALF_STARTED = "The service was restarted while this run began."
#: The most characters of a sentence that a task may write about itself.
_MAX_SENTENCE = 2000
#: Bytes of the log in which its last line is looked for.
_LOG_END = 4096
#: Exit statuses of `tasks.ENTER`: it cannot enter the folder, or cannot begin the command, or does not find that.
_NOT_BEGUN = frozenset({125, 126, 127})
#: Outcomes of the tasks of a run: the first of these that occurs is the outcome of the run.
_GRAVEST_FIRST = (Outcome.FAILED, Outcome.REFUSED, Outcome.LOST, Outcome.KILLED, Outcome.PAUSED, Outcome.SUCCEEDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The result of a task or a run that has ended."""

    outcome: Outcome
    #: Explanation for the owner.
    sentence: str = ""


def read_result(folder: Path, account: UnixAccount) -> Result | None:
    """Return the result that the task's runner wrote to `result.json`; None if it wrote none that is valid.

    Raises `UnansweredFile` if the folder does not answer in time.
    """
    try:
        result = read_owned_json(folder / "result.json", account, limit=SMALL_FILE)
        outcome = None if result is None else Outcome(str(result.get("outcome")))
    except UnansweredFile:
        raise
    except (UnusableFile, ValueError):
        return None
    if result is None or outcome not in _OWN_OUTCOMES:
        return None
    return Result(outcome=outcome, sentence=str(result.get("sentence") or "")[:_MAX_SENTENCE])


def read_log_end(folder: Path, account: UnixAccount) -> bytes:
    """Return the end of the task's log, empty if it cannot be read; raise `UnansweredFile` as `read_result` does."""
    try:
        return read_owned_end(folder / "log", account, size=_LOG_END) or b""
    except UnansweredFile:
        raise
    except UnusableFile:
        return b""


def explain_missing_result(
    run: Run, exit_code: int | None, *, has_started: bool = True, folder_deleted: bool = False, log_end: bytes = b""
) -> Result:
    """Return the result of a task that wrote none; `log_end` is the end of the task's log.

    The outcome is FAILED if the task's folder was deleted or did not take the result, if its working folder cannot be
    entered or its command not begun, or if the job exceeded its memory; KILLED after a request to stop; REFUSED if the
    start of the task was never confirmed; otherwise LOST, with the exit code if known, or because the machine had too
    little memory, or no room on the disk.
    """
    if folder_deleted:
        return Result(
            outcome=Outcome.FAILED,
            sentence="The folder of this run was deleted while it ran, so its result is lost. Send the cell again.",
        )
    if exit_code == RESULT_NOT_WRITTEN:
        return Result(outcome=Outcome.FAILED, sentence=explain_unwritten_result(log_end)[:_MAX_SENTENCE])
    if exit_code in _NOT_BEGUN and (why := _read_refusal(log_end)):
        return Result(outcome=Outcome.FAILED, sentence=f"The task could not be started: {why}."[:_MAX_SENTENCE])
    if run.stop_asked:
        return Result(
            outcome=Outcome.KILLED, sentence="The process was told to end, did not end in time, and was killed."
        )
    if not has_started:
        return Result(outcome=Outcome.REFUSED, sentence=HALF_STARTED)
    if exit_code == DISK_FULL:
        return Result(outcome=Outcome.LOST, sentence=NO_ROOM)
    # After a restart of the service the exit code is not known.
    may_be_killed = run.group and exit_code in (-signal.SIGKILL, None)
    kill = MemoryWatch(Path(run.group), since_made=True).find_kill() if may_be_killed else None
    if kill is not None:
        sentence = f"The process was killed because {kill.explain('the job')}. {kill.remedy}"
        # With the same limit, the next run would end in the same way.
        return Result(outcome=Outcome.LOST if kill.limit is None else Outcome.FAILED, sentence=sentence)
    how = {None: "", -9: " (killed, most often because the machine ran out of memory)"}.get(exit_code)
    if how is None and exit_code is not None:
        how = f" (signal {-exit_code})" if exit_code < 0 else f" (exit code {exit_code})"
    return Result(outcome=Outcome.LOST, sentence=f"The process ended without a result{how}.")


def _read_refusal(log_end: bytes) -> str:
    """Return why the task could not begin; "" if the log ends with a line of neither `tasks.ENTER` nor `SHIELD`."""
    lines = log_end.decode("utf-8", "replace").strip().splitlines()
    told, _, why = (lines[-1] if lines else "").partition(": ")
    return why if told in (ENTER, SHIELD) else ""


def combine_results(run: Run, results: Mapping[int, Result]) -> Result:
    """Return the result of a run: that of the task for which the others were stopped, else the gravest one.

    `results` are the results of the tasks by number. The gravest is FAILED, then REFUSED, LOST, KILLED, PAUSED and
    SUCCEEDED; of equal ones, the first task counts. If a run of several tasks did not succeed or pause, the sentence
    names that task. If the start of the run failed, the result is the one in its ledger entry.
    """
    if run.failed_as is not None:
        return Result(outcome=run.failed_as, sentence=run.failure)
    if run.culprit is not None:
        task = run.culprit
    else:
        task = min(results, key=lambda number: (_GRAVEST_FIRST.index(results[number].outcome), number))
    result = results[task]
    if len(run.tasks) == 1 or result.outcome in (Outcome.SUCCEEDED, Outcome.PAUSED):
        return result
    return Result(outcome=result.outcome, sentence=f"Task {task} of {len(run.tasks)}: {result.sentence}")
