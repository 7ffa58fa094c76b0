"""The views of suspended shares: what the owner of the notebook sees, and what borrowers are told."""

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_gq.client.models import NotebookPhase, SuspensionView
from jupyter_gq.domain.amount import ONE_GPU, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import Suspension
from jupyter_gq.scheduling.decision import KeptOut, Returning
from jupyter_gq.scheduling.idle.lending import is_wanted_back
from jupyter_gq.scheduling.wording import UNOBSERVED, gpu_noun
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.store.protocol import Record

#: The sentence of a share that a cell waits for, or that comes back, if something stands in the way; that is told next.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Comeback:
    """The way back of a suspended share once a cell waits for it."""

    #: Time within which the share is back, from the moment when a cell waits; None = unknown, something is in the way.
    within: Seconds | None
    #: What is left of this time.
    left: Seconds | None
    #: What the share waits for, by the last decision; None = that did not know of a cell that waits.
    plan: Returning | None = None


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


def suspension_view(record: Record, comeback: Comeback) -> SuspensionView | None:
    """Return the suspension of a notebook whose share is suspended or comes back; None for any other."""
    found = record.detail.suspension
    if found is None or found.since is None or record.workload.state not in {State.SUSPENDED, State.RESUMING}:
        return None
    is_wanted, plan = is_wanted_back(record.workload), comeback.plan
    is_in_line = is_wanted and plan is not None and plan.is_coming
    return SuspensionView(
        since=found.since,
        sentence=found.sentence,
        memory_mib=found.memory,
        expected_seconds=found.seconds,
        back_within=_back_within(record, found, comeback),
        wanted=is_wanted or record.workload.state is State.RESUMING,
        position=plan.ahead + 1 if plan is not None and is_in_line else None,
        leaving=len(plan.leaving) if plan is not None and is_in_line else 0,
    )


def _back_within(record: Record, found: Suspension, comeback: Comeback) -> Seconds | None:
    """Return the seconds within which a share that a cell waits for should be back; None if none waits, or unknown."""
    if record.workload.state is State.RESUMING:
        return None if comeback.within is None else found.seconds
    return comeback.left if is_wanted_back(record.workload) else None


def suspension_sentence(record: Record, comeback: Comeback) -> str:
    """Return the sentence about a notebook whose share is suspended or comes back."""
    found = record.detail.suspension
    if record.workload.state is State.RESUMING:
        if comeback.within is None:
            return COMING
        about = f", which takes about {max(1, round(found.seconds))} s" if found is not None and found.seconds else ""
        return f"The share is coming back: its GPU state is being restored{about}."
    if is_wanted_back(record.workload):
        return _describe_wait(record.workload, comeback)
    return found.sentence if found is not None else "The share is suspended: the next cell that you run brings it back."


def _describe_wait(notebook: Workload, comeback: Comeback) -> str:
    """Return what a cell waits for: its place behind other notebooks if there are any, and the work that leaves."""
    plan = comeback.plan
    if comeback.within is None:
        return WAITS + _describe_obstacle(plan, notebook)
    within = f"within about {round(comeback.within)} s"
    if plan is None or not plan.ahead:
        return (
            f"A cell waits, so the share comes back before all other work, {within}{_describe_leaving(plan, notebook)}."
        )
    older = _describe_older(plan.ahead, notebook)
    place = f"A cell waits. The share has place {plan.ahead + 1} in line and comes back {within}"
    return f"{place}: {older}{_describe_leaving(plan, notebook, ', and ')}."


def _describe_leaving(plan: Returning | None, notebook: Workload, joint: str = ": ") -> str:
    """Return the jobs that make room, as the rest of a sentence after `joint`; "" if there are none."""
    if plan is None or not plan.leaving:
        return ""
    gpu = gpu_noun(gang.held(notebook))
    if len(plan.leaving) == 1:
        return f"{joint}1 job that borrowed the {gpu} makes room"
    return f"{joint}{len(plan.leaving)} jobs that borrowed the {gpu} make room"


def _describe_older(ahead: int, notebook: Workload) -> str:
    """Return a clause about the notebooks that go before another one, such as "2 notebooks on the same GPU ..."."""
    gpu = gpu_noun(gang.held(notebook))
    if ahead == 1:
        return f"1 notebook on the same {gpu} whose server is older goes first"
    return f"{ahead} notebooks on the same {gpu} whose servers are older go first"


def _describe_obstacle(plan: Returning | None, notebook: Workload) -> str:
    """Return a further sentence about what keeps a share out; "" if that is told as trouble of the notebook."""
    if plan is None or plan.kept_out in (None, KeptOut.UNUSABLE):
        return ""
    several = gang.held(notebook) > ONE_GPU
    match plan.kept_out:
        case KeptOut.UNOBSERVED:
            return f" {UNOBSERVED}"
        case KeptOut.MISSING:
            gpu = "One of its GPUs" if several else "Its GPU"
            return f" {gpu} is not in the cluster at present: the share comes back once that GPU is there again."
        case KeptOut.WORK:
            why = "1 program that cannot be paused uses"
            if plan.blockers != 1:
                why = f"{plan.blockers} programs that cannot be paused use"
            why = f"{why} its {gpu_noun(gang.held(notebook))}"
        case KeptOut.OLDER:
            why = _describe_older(plan.ahead, notebook)
        case _:
            why = f"Something else is coming to its {gpu_noun(gang.held(notebook))}"
    return f" {why}: the share comes back once there is room."
