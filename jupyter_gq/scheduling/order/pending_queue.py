"""The pending workloads of one leaf queue by request class, and the position of one iteration over them.

Like requests of a queue form a class. If one member cannot start, none can, and the whole class is skipped; where
reservations are in the way, members that are expected to end sooner may still start.
"""

import heapq

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey, ClassTest, WorkloadTest, any_class, request_class
from jupyter_gq.scheduling.workloads.seniority import Seniority, UsageByUser, fair_seniority, seniority

from .sorted_workloads import SortedWorkloads


class PendingQueue:
    """The pending workloads of one leaf queue, by request class; kept from cycle to cycle."""

    __slots__ = ("_keys", "_known", "classes")

    def __init__(self, known: dict[ClassKey, ClassKey] | None = None) -> None:
        """Make an empty queue.

        `known` holds one key for each class. Queues that share it have one key object for like requests, so comparing
        them takes no time.
        """
        self._known = {} if known is None else known
        #: A class without members is removed.
        self.classes: dict[ClassKey, SortedWorkloads[Seniority]] = {}
        #: The class of each member.
        self._keys: dict[str, ClassKey] = {}

    def class_of(self, workload: Workload) -> ClassKey:
        """Return the class of a workload that waits in this queue, or waited there before."""
        return self._keys.get(workload.id) or request_class(workload)

    def add(self, workload: Workload) -> None:
        """Add a pending workload to its class; a new class is made if there is none."""
        key = request_class(workload)
        key = self._keys[workload.id] = self._known.setdefault(key, key)
        if key not in self.classes:
            self.classes[key] = SortedWorkloads(seniority)
        self.classes[key].add(workload)

    def remove(self, workload: Workload) -> None:
        """Remove a workload, given as it was when it was added, and its class if that is empty then."""
        key = self._keys.pop(workload.id)
        self.classes[key].remove(workload)
        if not self.classes[key]:
            del self.classes[key]


class QueueCursor:
    """A cursor over the classes of a pending queue: the next workload of each class that takes part."""

    __slots__ = ("at", "heads", "queue", "shorter_than", "takes_part")

    def __init__(self, queue: PendingQueue, takes_part: WorkloadTest, promising: ClassTest) -> None:
        self.queue = queue
        self.takes_part = takes_part
        #: Index of the next member of each class.
        self.at: dict[ClassKey, int] = {}
        #: Estimates that members still to come must not reach, for the classes of which longer ones are skipped.
        self.shorter_than: dict[ClassKey, Seconds] = {}
        #: A heap of the next members of all classes, by seniority.
        self.heads: list[tuple[Seniority, ClassKey]] = []
        for key in queue.classes:
            self._push(key, 0, promising)

    def _push(self, key: ClassKey, start: int, promising: ClassTest) -> None:
        """Put the first member of a class that takes part, from index `start` on, on the heap.

        A class that is not promising is left out.
        """
        ranked, takes_part = self.queue.classes[key], self.takes_part
        members, bound = ranked.members, self.shorter_than.get(key)
        for index in range(start, len(members)):
            if takes_part(members[index]) and (bound is None or is_shorter(members[index], bound)):
                if promising(key, members[index]):
                    self.at[key] = index
                    heapq.heappush(self.heads, (ranked.key_of(index), key))
                return

    def head(self) -> Workload | None:
        """Return the workload to consider next, without moving on; None if none is left."""
        if not self.heads:
            return None
        key = self.heads[0][1]
        return self.queue.classes[key].members[self.at[key]]

    def advance(self) -> None:
        """Move on from the present workload, which has been served, to the next member of its class."""
        _, key = heapq.heappop(self.heads)
        self._push(key, self.at[key] + 1, any_class)

    def skip_class(self) -> None:
        """Skip the present workload and its whole class for the rest of the iteration."""
        heapq.heappop(self.heads)

    def skip_longer(self) -> None:
        """Skip the present workload and those of its class that are not expected to end sooner."""
        _, key = heapq.heappop(self.heads)
        estimate = self.queue.classes[key].members[self.at[key]].estimate
        if estimate is not None:
            self.shorter_than[key] = estimate
            self._push(key, self.at[key] + 1, any_class)


class FairQueueCursor:
    """A cursor like `QueueCursor` that prefers, among equals, the user who uses less of the queue (see `seniority`).

    Usage only grows during an iteration, so an entry of the heap that is out of date is noticed when it comes up.
    """

    __slots__ = ("at", "heads", "members", "shorter_than", "skipped_classes", "used")

    def __init__(self, queue: PendingQueue, takes_part: WorkloadTest, promising: ClassTest, used: UsageByUser) -> None:
        #: Usage of each user in milli-GPU, with the workloads that were served in this iteration.
        self.used = dict(used)
        #: The workloads that take part, by class and owner.
        self.members: dict[tuple[ClassKey, str], list[Workload]] = {}
        for key, ranked in queue.classes.items():
            waiting = [workload for workload in ranked.members if takes_part(workload)]
            if waiting and promising(key, waiting[0]):
                for workload in waiting:
                    self.members.setdefault((key, workload.owner), []).append(workload)
        #: Index of the next workload of each class and owner.
        self.at = dict.fromkeys(self.members, 0)
        self.skipped_classes: set[ClassKey] = set()
        #: As in `QueueCursor`.
        self.shorter_than: dict[ClassKey, Seconds] = {}
        self.heads = [(fair_seniority(members[0], self.used), key) for key, members in self.members.items()]
        heapq.heapify(self.heads)

    def head(self) -> Workload | None:
        """Return the workload to consider next, without moving on; None if none is left."""
        while self.heads:
            place, key = self.heads[0]
            workload = self.members[key][self.at[key]]
            now = fair_seniority(workload, self.used)
            bound = self.shorter_than.get(key[0])
            if key[0] in self.skipped_classes:
                heapq.heappop(self.heads)
            elif bound is not None and not is_shorter(workload, bound):
                self._next_of(key)
            elif place != now:
                heapq.heapreplace(self.heads, (now, key))
            else:
                return workload
        return None

    def advance(self) -> None:
        """Count the smallest gang of the present workload, in milli-GPU, as usage of its user, and remove the workload.

        The next one of the same class and user then competes with all others to be the head.
        """
        key = self.heads[0][1]
        workload = self.members[key][self.at[key]]
        self.used[key[1]] = self.used.get(key[1], 0) + gang.smallest(workload)
        self._next_of(key)

    def _next_of(self, key: tuple[ClassKey, str]) -> None:
        """Put the next workload of the class and user of the head, given as `key`, in the head's place."""
        heapq.heappop(self.heads)
        members = self.members[key]
        self.at[key] += 1
        if self.at[key] < len(members):
            heapq.heappush(self.heads, (fair_seniority(members[self.at[key]], self.used), key))

    def skip_class(self) -> None:
        """Skip the present workload and its whole class, of all users, for the rest of the iteration."""
        self.skipped_classes.add(heapq.heappop(self.heads)[1][0])

    def skip_longer(self) -> None:
        """Skip the present workload and those of its class, of all users, that are not expected to end sooner."""
        key = self.heads[0][1]
        estimate = self.members[key][self.at[key]].estimate
        if estimate is None:
            self.skip_class()
        else:
            self.shorter_than[key[0]] = estimate


def is_shorter(workload: Workload, bound: Seconds) -> bool:
    """Tell whether the workload has an estimate below `bound`."""
    return workload.estimate is not None and workload.estimate < bound
