"""The views of suspended shares: what the owner of the notebook sees, and what borrowers are told."""

from collections.abc import Mapping
from typing import Final

from jupyter_gq.client.models import NotebookPhase, SuspensionView
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.idle.lending import is_wanted_back
from jupyter_gq.store.protocol import Record

#: The sentence of a suspended notebook in which a cell waits, while the borrowers make room.
COMES_BACK: Final = "A cell waits, so the share comes back: the work that borrowed it saves its state and makes room."
#: What the owner of a job on lent devices is told.
LENT: Final = "The share is lent by an idle notebook, so the job may be paused at any moment."

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


def notebook_phase(workload: Workload) -> NotebookPhase:
    """Return the phase of a notebook as its owner sees it: a suspended one that was told to end is "stopping"."""
    if workload.state is State.SUSPENDED and workload.stop is not None:
        return "stopping"
    return _PHASES[workload.state]


def suspension_view(record: Record) -> SuspensionView | None:
    """Return the suspension of a notebook whose share is suspended or comes back; None for any other."""
    found = record.detail.suspension
    if found is None or found.since is None or record.workload.state not in {State.SUSPENDED, State.RESUMING}:
        return None
    return SuspensionView(
        since=found.since,
        sentence=found.sentence,
        memory_mib=found.memory,
        expected_seconds=found.seconds,
    )


def suspension_sentence(record: Record) -> str:
    """Return the sentence about a notebook whose share is suspended or comes back."""
    found = record.detail.suspension
    if record.workload.state is State.RESUMING:
        about = f", which takes about {max(1, round(found.seconds))} s" if found is not None and found.seconds else ""
        return f"The share is coming back: its GPU state is being restored{about}."
    if is_wanted_back(record.workload):
        return COMES_BACK
    return found.sentence if found is not None else "The share is suspended: the next cell that you run brings it back."
