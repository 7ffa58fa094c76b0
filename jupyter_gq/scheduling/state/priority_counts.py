"""How many workloads have each priority, in all and by queue."""

from collections import Counter

from jupyter_gq.domain.workload import Workload


class PriorityCounts:
    """Counts of the workloads that are pending or hold devices, by priority."""

    def __init__(self) -> None:
        self._all: Counter[int] = Counter()
        self._by_queue: dict[str, Counter[int]] = {}

    def count(self, workload: Workload, sign: int) -> None:
        """Count the workload (`sign` 1) or discount it (-1)."""
        for counter in (self._all, self._by_queue.setdefault(workload.queue, Counter())):
            counter[workload.priority] += sign
            if not counter[workload.priority]:
                del counter[workload.priority]

    def differ(self) -> bool:
        """Tell whether there are workloads of more than one priority."""
        return len(self._all) > 1

    def any_lower(self, workload: Workload) -> bool:
        """Tell whether a workload of the same leaf queue has a lower priority."""
        return any(each < workload.priority for each in self._by_queue.get(workload.queue, ()))
