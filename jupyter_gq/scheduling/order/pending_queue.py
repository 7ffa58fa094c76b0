"""The line of a leaf queue: those who wait in it, by class, and how far one iteration has come along it.

Identical requests of a queue form a class: when one of them cannot be helped, none of them can, and they are passed
over together.
"""

import heapq

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey, ClassTest, Test, any_class, request_class
from jupyter_gq.scheduling.workloads.seniority import Seniority, Shares, fair_seniority, seniority

from .sorted_workloads import Ranked


class Line:
    """Those who wait in one leaf queue, by class. It lasts from cycle to cycle."""

    __slots__ = ("_keys", "_known", "classes")

    def __init__(self, known: dict[ClassKey, ClassKey] | None = None) -> None:
        """`known`: shared by lines, so that like requests of several queues have one key, which compares at once."""
        self._known = {} if known is None else known
        #: Never one without members.
        self.classes: dict[ClassKey, Ranked[Seniority]] = {}
        #: Of each member.
        self._keys: dict[str, ClassKey] = {}

    def class_of(self, workload: Workload) -> ClassKey:
        """The class of one who waits here, or did."""
        return self._keys.get(workload.id) or request_class(workload)

    def add(self, workload: Workload) -> None:
        """It waits from now on."""
        key = request_class(workload)
        key = self._keys[workload.id] = self._known.setdefault(key, key)
        if key not in self.classes:
            self.classes[key] = Ranked(seniority)
        self.classes[key].add(workload)

    def remove(self, workload: Workload) -> None:
        """It waits no more; it is the same as when it was added."""
        key = self._keys.pop(workload.id)
        self.classes[key].remove(workload)
        if not self.classes[key]:
            del self.classes[key]


class Leaf:
    """Where each class of a line stands in one iteration."""

    __slots__ = ("at", "heads", "line", "takes_part")

    def __init__(self, line: Line, takes_part: Test, promising: ClassTest) -> None:
        self.line = line
        self.takes_part = takes_part
        self.at: dict[ClassKey, int] = {}
        self.heads: list[tuple[Seniority, ClassKey]] = []
        for key in line.classes:
            self._push(key, 0, promising)

    def _push(self, key: ClassKey, start: int, promising: ClassTest) -> None:
        """The first of that class from `start` on who takes part follows, if the class is promising."""
        ranked, takes_part = self.line.classes[key], self.takes_part
        members = ranked.members
        for index in range(start, len(members)):
            if takes_part(members[index]):
                if promising(key, members[index]):
                    self.at[key] = index
                    heapq.heappush(self.heads, (ranked.key_of(index), key))
                return

    def head(self) -> Workload | None:
        """Who is the first one now; None when nobody is left."""
        if not self.heads:
            return None
        key = self.heads[0][1]
        return self.line.classes[key].members[self.at[key]]

    def advance(self) -> None:
        """The first one is done; the next of its class follows."""
        _, key = heapq.heappop(self.heads)
        self._push(key, self.at[key] + 1, any_class)

    def pass_over(self) -> None:
        """The first one cannot be helped, nor any of its class."""
        heapq.heappop(self.heads)


class FairLeaf:
    """As `Leaf`, where among equals the user with less of the queue goes first (see `seniority`).

    What a user has only grows on the way, so a place in the heap that is out of date is found out when it comes up.
    """

    __slots__ = ("at", "heads", "hopeless", "members", "used")

    def __init__(self, line: Line, takes_part: Test, promising: ClassTest, used: Shares) -> None:
        self.used = dict(used)
        self.members: dict[tuple[ClassKey, str], list[Workload]] = {}
        for key, ranked in line.classes.items():
            waiting = [workload for workload in ranked.members if takes_part(workload)]
            if waiting and promising(key, waiting[0]):
                for workload in waiting:
                    self.members.setdefault((key, workload.owner), []).append(workload)
        self.at = dict.fromkeys(self.members, 0)
        self.hopeless: set[ClassKey] = set()
        self.heads = [(fair_seniority(members[0], self.used), key) for key, members in self.members.items()]
        heapq.heapify(self.heads)

    def head(self) -> Workload | None:
        """Who is the first one now; None when nobody is left."""
        while self.heads:
            place, key = self.heads[0]
            workload = self.members[key][self.at[key]]
            now = fair_seniority(workload, self.used)
            if key[0] in self.hopeless:
                heapq.heappop(self.heads)
            elif place != now:
                heapq.heapreplace(self.heads, (now, key))
            else:
                return workload
        return None

    def advance(self) -> None:
        """The first one is done; the next of its class and user follows."""
        _, key = heapq.heappop(self.heads)
        members, index = self.members[key], self.at[key]
        self.used[key[1]] = self.used.get(key[1], 0) + gang.smallest(members[index])
        self.at[key] = index + 1
        if index + 1 < len(members):
            heapq.heappush(self.heads, (fair_seniority(members[index + 1], self.used), key))

    def pass_over(self) -> None:
        """The first one cannot be helped, nor any of its class, whoever it belongs to."""
        self.hopeless.add(heapq.heappop(self.heads)[1][0])
