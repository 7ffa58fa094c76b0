"""The pending workloads of one leaf queue by request class, and the position of one iteration over them.

Identical requests of a queue form a class. If one member cannot start, none can, and the whole class is skipped.
"""

import heapq

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

    __slots__ = ("at", "heads", "queue", "takes_part")

    def __init__(self, queue: PendingQueue, takes_part: WorkloadTest, promising: ClassTest) -> None:
        self.queue = queue
        self.takes_part = takes_part
        #: Index of the next member of each class.
        self.at: dict[ClassKey, int] = {}
        #: A heap of the next members of all classes, by seniority.
        self.heads: list[tuple[Seniority, ClassKey]] = []
        for key in queue.classes:
            self._push(key, 0, promising)

    def _push(self, key: ClassKey, start: int, promising: ClassTest) -> None:
        """Put the first member of a class that takes part, from index `start` on, on the heap.

        A class that is not promising is left out.
        """
        ranked, takes_part = self.queue.classes[key], self.takes_part
        members = ranked.members
        for index in range(start, len(members)):
            if takes_part(members[index]):
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


class FairQueueCursor:
    """A cursor like `QueueCursor` that prefers, among equals, the user who uses less of the queue (see `seniority`).

    Usage only grows during an iteration, so an entry of the heap that is out of date is noticed when it comes up.
    """

    __slots__ = ("at", "heads", "members", "skipped_classes", "used")

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
        self.heads = [(fair_seniority(members[0], self.used), key) for key, members in self.members.items()]
        heapq.heapify(self.heads)

    def head(self) -> Workload | None:
        """Return the workload to consider next, without moving on; None if none is left."""
        while self.heads:
            place, key = self.heads[0]
            workload = self.members[key][self.at[key]]
            now = fair_seniority(workload, self.used)
            if key[0] in self.skipped_classes:
                heapq.heappop(self.heads)
            elif place != now:
                heapq.heapreplace(self.heads, (now, key))
            else:
                return workload
        return None

    def advance(self) -> None:
        """Count the smallest gang of the present workload, in milli-GPU, as usage of its user, and remove the workload.

        The next one of the same class and user then competes with all others to be the head.
        """
        _, key = heapq.heappop(self.heads)
        members, index = self.members[key], self.at[key]
        self.used[key[1]] = self.used.get(key[1], 0) + gang.smallest(members[index])
        self.at[key] = index + 1
        if index + 1 < len(members):
            heapq.heappush(self.heads, (fair_seniority(members[index + 1], self.used), key))

    def skip_class(self) -> None:
        """Skip the present workload and its whole class, of all users, for the rest of the iteration."""
        self.skipped_classes.add(heapq.heappop(self.heads)[1][0])
