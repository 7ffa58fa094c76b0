"""Who goes first inside a queue.

Higher priority first; then who has nothing yet before elastic work that could have more, which gets one task at a time;
then, if the policy says so, the user who has less of the queue (what he holds, was promised, or gets on the way); then
the older submission, then the id.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping

from jupyter_gq.domain.workload import Workload

from . import gang
from .replicas import Replica

Seniority = tuple[int, int, float, str]
#: What each user has of a queue, in milli-GPU.
Shares = Mapping[str, int]


def seniority(workload: Workload) -> Seniority:
    """Sort key inside a queue."""
    more = 1 + workload.index if isinstance(workload, Replica) and not workload.vital else 0
    return (-workload.priority, more, workload.submitted_at, workload.id)


def longest_wait(workload: Workload) -> tuple[float, Seniority]:
    """Sort key: those first who have waited longest."""
    return (workload.waits_since, seniority(workload))


def fair_seniority(workload: Workload, used: Shares) -> tuple[int, int, int, float, str]:
    """Sort key inside a queue where among equals the user with less of it goes first."""
    priority, more, submitted, name = seniority(workload)
    return (priority, more, used.get(workload.owner, 0), submitted, name)


def in_fair_order(workloads: Iterable[Workload], used: Shares) -> list[Workload]:
    """Those of a queue, given by seniority, in the order in which they would start if all could."""
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
