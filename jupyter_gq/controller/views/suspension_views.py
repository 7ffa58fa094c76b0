"""The views of suspended shares: what the owner of the notebook sees, and what borrowers are told."""

from collections.abc import Mapping
from typing import Final

from jupyter_gq.client.models import NotebookPhase, SuspensionView
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import Suspension
from jupyter_gq.scheduling.idle.lending import is_wanted_back
from jupyter_gq.store.protocol import Record

#: The sentence of a suspended notebook in which a cell waits, while the borrowers make room. There is no queue: each
#: share comes back to its own place.
COMES_BACK: Final = (
    "A cell waits, so the share comes back before all other work, within about {seconds} s: the work that borrowed it "
    "saves its state and makes room."
)

#: The same, and the sentence of a share that comes back, if something stands in the way, which is told after them.
WAITS, COMING = "A cell waits for the share.", "The share is to come back."

#: An admitted ticket still waits, since its server may start only when the backend expects it.
_PHASES: Mapping[State, NotebookPhase] = {
    State.PENDING: "waiting",
    State.ADMITTED: "waiting",
    State.STARTING: "starting",
    State.RUNNING: "running",
    State.SUSPENDED: "suspended",
    State.RESUMING: "resuming",
    State.STOPPING: "stopping",
    State.SUCCEEDED: "stopped",
    State.FAILED: "stopped",
    State.CANCELLED: "stopped",
}


def describe_lent(lenders: int) -> str:
    """Return what the owner of a job is told whose devices so many suspended notebooks have lent; "" for 0."""
    if lenders == 0:
        return ""
    who = "The share is lent by an idle notebook" if lenders == 1 else f"Shares are lent by {lenders} idle notebooks"
    return f"{who}, so the job may be paused at any moment."


def notebook_phase(workload: Workload) -> NotebookPhase:
    """Return the phase of a notebook as its owner sees it: a suspended one that was told to end is "stopping"."""
    if workload.state is State.SUSPENDED and workload.stop is not None:
        return "stopping"
    return _PHASES[workload.state]


def suspension_view(record: Record, return_within: Seconds | None) -> SuspensionView | None:
    """Return the suspension of a notebook whose share is suspended or comes back; None for any other.

    `return_within` is the time within which a share is back once a cell waits for it; None = it is not known, because
    something stands in the way.
    """
    found = record.detail.suspension
    if found is None or found.since is None or record.workload.state not in {State.SUSPENDED, State.RESUMING}:
        return None
    return SuspensionView(
        since=found.since,
        sentence=found.sentence,
        memory_mib=found.memory,
        expected_seconds=found.seconds,
        back_within=_back_within(record, found, return_within),
    )


def _back_within(record: Record, found: Suspension, return_within: Seconds | None) -> Seconds | None:
    """Return the seconds within which a share that a cell waits for should be back; None if none waits, or unknown."""
    if record.workload.state is State.RESUMING:
        return None if return_within is None else found.seconds
    return return_within if is_wanted_back(record.workload) else None


def suspension_sentence(record: Record, return_within: Seconds | None) -> str:
    """Return the sentence about a notebook whose share is suspended or comes back; see `suspension_view`."""
    found = record.detail.suspension
    if record.workload.state is State.RESUMING:
        if return_within is None:
            return COMING
        about = f", which takes about {max(1, round(found.seconds))} s" if found is not None and found.seconds else ""
        return f"The share is coming back: its GPU state is being restored{about}."
    if is_wanted_back(record.workload):
        return WAITS if return_within is None else COMES_BACK.format(seconds=round(return_within))
    return found.sentence if found is not None else "The share is suspended: the next cell that you run brings it back."
