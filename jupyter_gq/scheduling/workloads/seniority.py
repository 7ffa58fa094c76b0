"""Job order: which workload of a queue goes first.

Higher priority goes first. Then a workload that has nothing yet goes before elastic work that could have one more
replica. Then, if the policy says so, the user who uses less of the queue (held, nominated, or granted on the way) goes
first. Then the older submission, and then the smaller id.

A priority counts only among the work of one queue. Between queues, the work that goes first in each is compared by the
rest of the order.

See docs/decisions/0105-compare-priorities-inside-a-queue-only.md.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from jupyter_gq.domain.workload import Workload

from . import gang
from .replicas import Replica

Age = tuple[int, float, str]
Seniority = tuple[int, int, float, str]
#: Milli-GPU of a queue that each user has, by user name.
UsageByUser = Mapping[str, int]


def seniority(workload: Workload) -> Seniority:
    """Return the sort key of a workload or replica inside its queue; the smallest key goes first.

    Keys compare the priority (higher first), then surplus replicas (after all other work), then the submission (older
    first), then the id.
    """
    return (-workload.priority, *age(workload))


def age(workload: Workload) -> Age:
    """Return the sort key of `seniority` without the priority, for work of different queues."""
    more = 1 + workload.index if isinstance(workload, Replica) and not workload.vital else 0
    return (more, *workload.submission)


def by_seniority(workloads: Iterable[Workload]) -> Iterator[Workload]:
    """Yield the workloads by `seniority` in each queue, and by `age` between queues."""
    queues: dict[str, list[Workload]] = {}
    for workload in workloads:
        queues.setdefault(workload.queue, []).append(workload)
    return heapq.merge(*(sorted(members, key=seniority) for members in queues.values()), key=age)


def longest_wait(workload: Workload) -> tuple[float, Age]:
    """Return a sort key that puts the longest wait first; ties go by age."""
    return (workload.waits_since, age(workload))


def fair_seniority(workload: Workload, used: UsageByUser) -> tuple[int, int, int, float, str]:
    """Return the sort key of `seniority`, but with the usage of the owner, the smaller first, before the submission."""
    priority, more, submitted, name = seniority(workload)
    return (priority, more, used.get(workload.owner, 0), submitted, name)


def in_fair_order(workloads: Iterable[Workload], used: UsageByUser) -> list[Workload]:
    """Return workloads of one queue, given by seniority, in the order in which they would start if all could.

    Users with less usage go first among equals; each start counts as usage. `used` does not change.
    """
    used, by_owner = dict(used), dict[str, deque[Workload]]()
    for workload in workloads:
        by_owner.setdefault(workload.owner, deque()).append(workload)
    heads = [(fair_seniority(members[0], used), owner) for owner, members in by_owner.items()]
    heapq.heapify(heads)
    found = []
    while heads:
        _, owner = heapq.heappop(heads)
        members = by_owner[owner]
        found.append(members.popleft())
        used[owner] = used.get(owner, 0) + gang.smallest(found[-1])
        if members:
            heapq.heappush(heads, (fair_seniority(members[0], used), owner))
    return found
