"""While a backend cannot be observed, nothing is started, moved or ended there: what it would show may say otherwise.

What was decided about its workloads is put aside; the next decision, with a look, says it again if it still holds. So
nobody reads that he has to stop while nobody tells him so, and no grace passes before he has heard of it.
"""

from collections.abc import Set
from dataclasses import replace

from jupyter_gq.controller.records.records import Records
from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Decision, Evict

from .deferred import put_aside

#: For everybody; what exactly failed stands in the log.
BLIND = "What runs cannot be seen at present, so nothing is started or ended; what runs goes on."


def only_seen(decision: Decision, records: Records, unseen: Set[Kind]) -> Decision:
    """The decision without what is about these kinds of workload; who would have started is told why he does not."""
    if not unseen:
        return decision
    aside = [each for each in decision.instructions if _kind_of(records, each.workload) in unseen]
    if not aside:
        return decision
    why = Explanation(reason=PendingReason.OUT_OF_SIGHT, sentence=f"Waiting: {BLIND[0].lower()}{BLIND[1:]}")
    # Nobody gives way to them for now.
    served = {each.by for each in aside if isinstance(each, Evict)}
    told = [replace(entry, why=why) if entry.workload in served else entry for entry in decision.pending]
    return put_aside(replace(decision, pending=told), {each.workload for each in aside}, why, records)


def _kind_of(records: Records, workload: str) -> Kind | None:
    record = records.alive(workload)
    return None if record is None else record.workload.kind
