"""How a task ended, from what it wrote last and what was asked of it; and how a run ended, from its tasks."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.backends.protocol import Outcome

from .accounts import Account
from .files import read_owned
from .ledger import Run

#: A task may only claim these of itself.
_CLAIMS = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED})
#: What counts most for the whole run comes first.
_WEIGHT = (Outcome.FAILED, Outcome.LOST, Outcome.KILLED, Outcome.PAUSED, Outcome.SUCCEEDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How a task or a run ended."""

    outcome: Outcome
    #: For the owner.
    sentence: str = ""


def read_result(folder: Path, account: Account) -> End | None:
    """Return the end that the task's runner wrote to `result.json`; None if it wrote none that is valid."""
    content = read_owned(folder / "result.json", account)
    if content is None:
        return None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        result = json.loads(content)
        outcome = Outcome(result["outcome"])
        if outcome in _CLAIMS:
            return End(outcome=outcome, sentence=str(result.get("sentence") or ""))
    return None


def silent_end(run: Run, exit_code: int | None) -> End:
    """Return the end of a task that wrote no result."""
    if run.stop_asked:
        return End(
            outcome=Outcome.KILLED, sentence="The work was told to end, did not end in its time, and was killed."
        )
    how = {None: "", -9: " (killed, most often because the machine ran out of memory)"}.get(exit_code)
    if how is None and exit_code is not None:
        how = f" (signal {-exit_code})" if exit_code < 0 else f" (exit code {exit_code})"
    return End(outcome=Outcome.LOST, sentence=f"The process ended without a result{how}.")


def end_of_run(run: Run, ends: Sequence[End]) -> End:
    """Return the end of the run: of the task for which the others were stopped, else the gravest one."""
    if run.culprit is not None:
        task = run.culprit
    else:
        task = min(range(len(ends)), key=lambda i: (_WEIGHT.index(ends[i].outcome), i))
    end = ends[task]
    if len(ends) == 1 or end.outcome in (Outcome.SUCCEEDED, Outcome.PAUSED):
        return end
    return End(outcome=end.outcome, sentence=f"Task {task} of {len(ends)}: {end.sentence}")
