"""While a backend cannot be observed, nothing is started, moved or ended there: what it would show may say otherwise.

What was decided about its workloads is put aside; the next decision, with a look, says it again if it still holds. So
nobody reads that he has to stop while nobody tells him so, and no grace passes before he has heard of it.
"""

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Pending

from .records import Records

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
    # In each queue they stand before those who wait.
    ahead: Counter[str | None] = Counter()
    starting = []
    for name in (each.workload for each in aside if isinstance(each, Admit)):
        queue = _queue_of(records, name)
        ahead[queue] += 1
        starting.append(Pending(workload=name, position=ahead[queue], why=why))
    # Nobody gives way to them for now.
    served = {each.by for each in aside if isinstance(each, Evict)}
    waiting = [replace(entry, why=why) if entry.workload in served else entry for entry in decision.pending]
    behind = [replace(entry, position=entry.position + ahead[_queue_of(records, entry.workload)]) for entry in waiting]
    names = {each.workload for each in aside}
    left = tuple(each for each in decision.instructions if each.workload not in names)
    return replace(decision, instructions=left, pending=(*behind, *starting))


def _kind_of(records: Records, workload: str) -> Kind | None:
    record = records.alive(workload)
    return None if record is None else record.workload.kind


def _queue_of(records: Records, workload: str) -> str | None:
    record = records.alive(workload)
    return None if record is None else record.workload.queue
