"""Workloads whose place was refused a moment ago: they are left out of decisions for a while, and say so."""

from collections.abc import Iterable
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import Explanation, Grant, PendingReason, Remedy
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.decision import Pending
from jupyter_gq.store.protocol import Record


def held_back(records: Iterable[Record], now: Instant) -> dict[str, Pending]:
    """Why each of them is not considered now, by its id."""
    found: dict[str, Pending] = {}
    for record in records:
        refusal = record.detail.refusal
        if refusal is None or record.workload.state is not State.PENDING or refusal.until <= now:
            continue
        pause = round(refusal.pause)
        # No countdown: every listener would be told each second.
        sentence = f"{refusal.sentence.rstrip('.')}. It is tried again after a pause of {pause} s."
        why = Explanation(
            reason=PendingReason.PLACE_REFUSED,
            sentence=sentence,
            numbers={"times": refusal.times, "seconds": pause},
            remedy=Remedy(grant=Grant.TIME, amount=pause),
        )
        found[record.workload.id] = Pending(workload=record.workload.id, position=1, why=why)
    return found


def without(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """The snapshot as if these workloads were not there."""
    gone = frozenset(names)
    if not gone:
        return snapshot
    return replace(snapshot, workloads=tuple(each for each in snapshot.workloads if each.id not in gone))
