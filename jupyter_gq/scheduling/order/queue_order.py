"""Queue order: between queues by usage against quota and fair share, inside a queue by job order.

Rules
-----
1. Job order. Inside a queue workloads follow their seniority (see `seniority`).
2. Queue order. Sibling queues are compared with the workload that each would start next: first the queue that is not
   above its fair share; then the queue that stays within its deserved quota with it; then within its fair share with
   it; then the higher queue priority; then the smaller part of its entitlement used with it; then the smaller part used
   before; then the smaller entitlement; then the name. The entitlement is the larger of quota and fair share.
   Work that needs no GPU is within a quota only if there is one of CPU or memory.
3. No ping-pong. A queue that reclaims ranks before the queue that it reclaims from: the second and third comparison of
   the queue order see to that. Otherwise the two queues would take devices from each other without end.
4. Local change. After each step only the queues from that leaf up to the root are compared again.
5. Classes. Like requests of a queue are skipped together (see `pending_queue`).

See docs/decisions/0074-cpu-only-work-takes-its-turn.md.
"""

import heapq
from collections.abc import Mapping

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.accounts import Account, Accounts
from jupyter_gq.scheduling.quota.reclaim_rights import is_within_quota
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassTest, WorkloadTest, any_workload, once_for_each_class
from jupyter_gq.scheduling.workloads.seniority import UsageByUser

from .pending_queue import FairQueueCursor, PendingQueue, QueueCursor

_Key = tuple[bool, bool, bool, int, float, float, int, str]


class JobOrder:
    """The pending workloads in the order in which to consider them, which changes with each decision on the way.

    Workloads that do not take part are left out, and so are classes that are not promising: members of such a class are
    certain to be skipped. After `next`, call `done`, `skip_class` or `skip_longer` before asking for another workload.
    If any other code changes the account of a queue, call `touch`.
    """

    def __init__(
        self,
        accounts: Accounts,
        queues: Mapping[str, PendingQueue],
        takes_part: WorkloadTest,
        promising: WorkloadTest = any_workload,
        used: Mapping[str, UsageByUser] | None = None,
        *,
        by_pool: bool = False,
    ) -> None:
        """Begin with the pending workloads of `queues`, by name of the leaf queue.

        `used` has, for each leaf queue, its use by user; None if that does not matter. With `by_pool`, `promising` has
        one answer for all members of a class whose queues have the same pool, so it is asked once for each pool.
        """
        self._accounts = accounts
        found: dict[str, QueueCursor | FairQueueCursor] = {}
        tests: dict[str, ClassTest] = {}
        for name, queue in queues.items():
            pool = accounts.of(name).queue.pool if by_pool else name
            if pool not in tests:
                tests[pool] = once_for_each_class(promising)
            if used is None:
                found[name] = QueueCursor(queue, takes_part, tests[pool])
            else:
                found[name] = FairQueueCursor(queue, takes_part, tests[pool], used.get(name, {}))
        self._leaves = {name: leaf for name, leaf in found.items() if leaf.heads}
        self._version: dict[str, int] = {}
        #: For each queue, and for the top (""), its children with pending workloads: (key, version, name).
        self._heaps: dict[str, list[tuple[_Key, int, str]]] = {}
        self._current = ""
        for name in sorted(self._leaves):
            self.touch(accounts.of(name))

    def next(self) -> Workload | None:
        """Return the workload to consider next; None if none is left.

        Call `done`, `skip_class` or `skip_longer` before the next call.
        """
        name = self._best("")
        while name is not None and name not in self._leaves:
            name = self._best(name)
        if name is None:
            return None
        self._current = name
        return self._leaves[name].head()

    def done(self) -> None:
        """Move on from the workload that `next` returned, which has been served, and compare its queue again."""
        self._leaves[self._current].advance()
        self.touch(self._accounts.of(self._current))

    def skip_class(self) -> None:
        """Skip the workload that `next` returned and all of its class in this queue for the rest of the iteration."""
        self._leaves[self._current].skip_class()
        self.touch(self._accounts.of(self._current))

    def skip_longer(self) -> None:
        """Skip what `next` returned and all of its class in this queue that are not expected to end sooner."""
        self._leaves[self._current].skip_longer()
        self.touch(self._accounts.of(self._current))

    def touch(self, account: Account) -> None:
        """Compare a queue and its ancestors with their siblings again, because the account of the queue has changed."""
        for each in account.chain:
            name = each.queue.name
            version = self._version.get(name, 0) + 1
            self._version[name] = version
            head = self._head(name)
            if head is not None:
                parent = "" if each.parent is None else each.parent.queue.name
                heapq.heappush(self._heaps.setdefault(parent, []), (_key(each, head), version, name))

    def _head(self, name: str) -> Workload | None:
        """Return the workload that would start next of all in this queue and below it; None if there is none."""
        while name not in self._leaves:
            best = self._best(name)
            if best is None:
                return None
            name = best
        return self._leaves[name].head()

    def _best(self, parent: str) -> str | None:
        """Return the name of the child queue that goes first, after dropping outdated entries.

        Returns None if there is none.
        """
        heap = self._heaps.get(parent, [])
        while heap and self._version[heap[0][2]] != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][2] if heap else None


def _key(account: Account, head: Workload) -> _Key:
    """Return the sort key of a queue whose next workload is `head`, by the queue-order rule; smaller goes first."""
    milli = gang.smallest(head)
    using = account.lasting
    entitlement = max(account.queue.quota, account.fair_share)
    return (
        using > account.fair_share,
        not is_within_quota(account, head),
        using + milli > account.fair_share,
        -account.queue.priority,
        _used_part(using + milli, entitlement),
        _used_part(using, entitlement),
        entitlement,
        account.queue.name,
    )


def _used_part(using: int, entitlement: int) -> float:
    return using / entitlement if entitlement else (float("inf") if using else 0.0)
