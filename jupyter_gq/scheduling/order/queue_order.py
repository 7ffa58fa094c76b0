"""Whose turn it is: between queues by what they use of what is theirs, inside a queue by priority and seniority.

Rules
-----
1. Inside a queue: by seniority (see `seniority`).
2. Between sibling queues, with the workload each would start next: who is not above its fair share; who stays within
   its deserved quota with it; who stays within its fair share with it; higher queue priority; the smaller part of its
   share used with it; the smaller part used before; the smaller share; the name.
3. Who takes something back (reclaim) ranks before the one it was taken from: that is what rule 2's second and third
   parts are for. Otherwise the two would take turns for ever.
4. After each step only the queues on the way from that leaf to the root are compared anew.
5. Like requests of a queue are passed over together (see `lines`).
"""

import heapq
from collections.abc import Mapping

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.accounts import Account, Accounts
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassTest, Test, always, once_for_each_class
from jupyter_gq.scheduling.workloads.seniority import Shares

from .pending_queue import FairLeaf, Leaf, Line

_Key = tuple[bool, bool, bool, int, float, float, int, str]


class Turn:
    """An iterator over waiting workloads in their order, which changes with what is decided on the way.

    Of those in `lines` those are left out who do not take part, and the classes that are not promising: for which it is
    certain from the beginning that they would be passed over. Call `done` or `pass_over` for the workload that
    `next` returned before asking for another; call `touch` for a queue whose accounts were changed by something else.
    """

    def __init__(
        self,
        accounts: Accounts,
        lines: Mapping[str, Line],
        takes_part: Test,
        promising: Test = always,
        shares: Mapping[str, Shares] | None = None,
        *,
        by_pool: bool = False,
    ) -> None:
        """`shares`: what each user has of each leaf queue; None = that does not matter.

        `by_pool`: `promising` says the same of all of a class whose queues have the same pool, so it is asked once.
        """
        self._accounts = accounts
        found: dict[str, Leaf | FairLeaf] = {}
        tests: dict[str, ClassTest] = {}
        for name, line in lines.items():
            pool = accounts.of(name).queue.pool if by_pool else name
            if pool not in tests:
                tests[pool] = once_for_each_class(promising)
            if shares is None:
                found[name] = Leaf(line, takes_part, tests[pool])
            else:
                found[name] = FairLeaf(line, takes_part, tests[pool], shares.get(name, {}))
        self._leaves = {name: leaf for name, leaf in found.items() if leaf.heads}
        self._version: dict[str, int] = {}
        #: For each queue (and for the top, ""), its children that have somebody waiting: (key, version, name).
        self._heaps: dict[str, list[tuple[_Key, int, str]]] = {}
        self._current = ""
        for name in sorted(self._leaves):
            self.touch(accounts.of(name))

    def next(self) -> Workload | None:
        """Whose turn it is; None when nobody is left."""
        name = self._best("")
        while name is not None and name not in self._leaves:
            name = self._best(name)
        if name is None:
            return None
        self._current = name
        return self._leaves[name].head()

    def done(self) -> None:
        """It has been served."""
        self._leaves[self._current].advance()
        self.touch(self._accounts.of(self._current))

    def pass_over(self) -> None:
        """It cannot be helped in this round, nor can those like it in its queue."""
        self._leaves[self._current].pass_over()
        self.touch(self._accounts.of(self._current))

    def touch(self, account: Account) -> None:
        """Its books have changed: compare it and its ancestors anew."""
        for each in account.chain:
            name = each.queue.name
            version = self._version.get(name, 0) + 1
            self._version[name] = version
            head = self._head(name)
            if head is not None:
                parent = "" if each.parent is None else each.parent.queue.name
                heapq.heappush(self._heaps.setdefault(parent, []), (_key(each, head), version, name))

    def _head(self, name: str) -> Workload | None:
        """The workload that this queue would start next."""
        while name not in self._leaves:
            best = self._best(name)
            if best is None:
                return None
            name = best
        return self._leaves[name].head()

    def _best(self, parent: str) -> str | None:
        heap = self._heaps.get(parent, [])
        while heap and self._version[heap[0][2]] != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][2] if heap else None


def _key(account: Account, head: Workload) -> _Key:
    """Rule 2; smaller goes first."""
    milli = gang.smallest(head)
    using = account.lasting
    share = max(account.queue.quota, account.fair_share)
    return (
        using > account.fair_share,
        using + milli > account.queue.quota,
        using + milli > account.fair_share,
        -account.queue.priority,
        _part(using + milli, share),
        _part(using, share),
        share,
        account.queue.name,
    )


def _part(using: int, share: int) -> float:
    return using / share if share else (float("inf") if using else 0.0)
