"""Differences between two decisions on the same workloads."""

from dataclasses import dataclass

from jupyter_gq.domain.amount import format_gpus
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Grow, Resume, Shrink, Suspend


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A workload to which something else happens after the change: a sentence for before and one for after."""

    workload: str
    before: str
    after: str


def differences(snapshot: Snapshot, before: Decision, after: Decision) -> list[Difference]:
    """Return a `Difference` for each workload to which `after` does something else than `before`, by submission."""
    old, new = _outcomes(before), _outcomes(after)
    ordered = sorted(snapshot.workloads, key=lambda workload: workload.submission)
    found = [
        Difference(workload=w.id, before=old.get(w.id, "goes on"), after=new.get(w.id, "goes on")) for w in ordered
    ]
    return [each for each in found if each.before != each.after]


def _outcomes(decision: Decision) -> dict[str, str]:
    """Return what the decision does with each workload, as a phrase or sentence, by id; other workloads are absent."""
    outcomes = {entry.workload: entry.why.sentence for entry in decision.pending}
    for instruction in decision.instructions:
        match instruction:
            case Admit(workload=name, over_quota=over):
                outcomes[name] = f"starts now, {format_gpus(over)} over quota" if over else "starts now"
            case Resume(workload=name):
                outcomes[name] = "goes on after its suspension"
            case Grow(workload=name, placement=more):
                outcomes[name] = f"gets {len(more)} more tasks"
            case Evict(workload=name, sentence=sentence) | Shrink(workload=name, sentence=sentence):
                outcomes[name] = sentence
            case Suspend(workload=name, sentence=sentence):
                outcomes[name] = sentence
    return outcomes
