"""What is decided and not done now: the next decision, with another look, says it again if it still holds."""

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from jupyter_gq.controller.records.records import Records
from jupyter_gq.domain.reasons import Explanation
from jupyter_gq.scheduling.decision import Admit, Decision, Pending


def put_aside(decision: Decision, names: Set[str], why: Explanation, records: Records) -> Decision:
    """The decision without what is about these workloads; who of them would have started waits, and is told why."""
    if not names:
        return decision
    # In each queue they stand before those who wait.
    ahead: Counter[str | None] = Counter()
    starting = []
    for name in (each.workload for each in decision.instructions if isinstance(each, Admit)):
        if name in names:
            queue = _queue_of(records, name)
            ahead[queue] += 1
            starting.append(Pending(workload=name, position=ahead[queue], why=why))
    behind = [
        Pending(workload=entry.workload, position=entry.position + before, why=entry.why) if before else entry
        for entry in decision.pending
        for before in (ahead[_queue_of(records, entry.workload)],)
    ]
    left = tuple(each for each in decision.instructions if each.workload not in names)
    return replace(decision, instructions=left, pending=(*behind, *starting))


def _queue_of(records: Records, workload: str) -> str | None:
    record = records.alive(workload)
    return None if record is None else record.workload.queue
