"""Whose turn it is: between queues by what they use of what is theirs, inside a queue by priority and seniority.

Rules
-----
1. Inside a queue: higher priority first; then who has nothing yet before elastic work that could have more, which gets
   one task at a time; then, if the policy says so, the user who has less of the queue (what he holds, was promised, or
   gets on the way); then the older submission, then the id.
2. Between sibling queues, with the workload each would start next: who is not above its fair share; who stays within
   its deserved quota with it; who stays within its fair share with it; higher queue priority; the smaller part of its
   share used with it; the smaller part used before; the smaller share; the name.
3. Who takes something back (reclaim) ranks before the one it was taken from: that is what rule 2's second and third
   parts are for. Otherwise the two would take turns for ever.
4. After each step only the queues on the way from that leaf to the root are compared anew.
5. Identical requests of a queue form a class: when one of them cannot be helped, none of them can, and they are
   passed over together.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint, Workload

from . import gang
from .parts import Part, is_growth
from .quota import Account, Accounts
from .ranked import Ranked

Seniority = tuple[int, int, float, str]
_Key = tuple[bool, bool, bool, int, float, float, int, str]


def seniority(workload: Workload) -> Seniority:
    """Sort key inside a queue."""
    more = 1 + workload.index if isinstance(workload, Part) and not workload.vital else 0
    return (-workload.priority, more, workload.submitted_at, workload.id)


def longest_wait(workload: Workload) -> tuple[float, Seniority]:
    """Sort key: those first who have waited longest."""
    return (workload.waits_since, seniority(workload))


class ClassKey:
    """What makes requests alike. It is looked up again and again, so its hash is kept."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Request | bool | int | str | tuple[TaskGroup, ...] | TopologyConstraint | None) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ClassKey) and self._parts == other._parts)


def request_class(workload: Workload) -> ClassKey:
    """Those that agree in this are the same to every rule, but for their seniority."""
    return ClassKey(
        workload.request,
        workload.tasks,
        workload.min_members,
        workload.preemptible,
        workload.priority,
        workload.kind,
        is_growth(workload),
        workload.elastic,
        workload.groups,
        workload.topology,
        _standing(workload),
        # What is expected to be short may go where a longer one must not (see `reservations`).
        0 if workload.estimate is None else 1 + int(workload.estimate).bit_length(),
    )


def _standing(workload: Workload) -> str:
    """The workload beside whose tasks it has to stand; "" where it may be anywhere."""
    if not isinstance(workload, Part):
        return ""
    bound = workload.topology is not None or any(group.topology is not None for group in workload.groups)
    return workload.whole.id if bound else ""


#: A question about a workload.
Test = Callable[[Workload], bool]


#: A question about a class, asked with one of it.
ClassTest = Callable[[ClassKey, Workload], bool]


def always(_: Workload) -> bool:
    return True


def _any_class(_: ClassKey, __: Workload) -> bool:
    return True


def _once_for_each_class(test: Test) -> ClassTest:
    """The same question, asked once for all of a class."""
    known: dict[ClassKey, bool] = {}

    def ask(key: ClassKey, workload: Workload) -> bool:
        answer = known.get(key)
        if answer is None:
            answer = known[key] = test(workload)
        return answer

    return ask


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


class _Leaf:
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
        if not self.heads:
            return None
        key = self.heads[0][1]
        return self.line.classes[key].members[self.at[key]]

    def advance(self) -> None:
        """The first one is done; the next of its class follows."""
        _, key = heapq.heappop(self.heads)
        self._push(key, self.at[key] + 1, _any_class)

    def pass_over(self) -> None:
        """The first one cannot be helped, nor any of its class."""
        heapq.heappop(self.heads)


#: What each user has of a queue, in milli-GPU.
Shares = Mapping[str, int]


class _FairLeaf:
    """As `_Leaf`, where among equals the user with less of the queue goes first (rule 1).

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
        self.heads = [(_fair_seniority(members[0], self.used), key) for key, members in self.members.items()]
        heapq.heapify(self.heads)

    def head(self) -> Workload | None:
        while self.heads:
            place, key = self.heads[0]
            workload = self.members[key][self.at[key]]
            now = _fair_seniority(workload, self.used)
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
            heapq.heappush(self.heads, (_fair_seniority(members[index + 1], self.used), key))

    def pass_over(self) -> None:
        """The first one cannot be helped, nor any of its class, whoever it belongs to."""
        self.hopeless.add(heapq.heappop(self.heads)[1][0])


def _fair_seniority(workload: Workload, used: Shares) -> tuple[int, int, int, float, str]:
    priority, more, submitted, name = seniority(workload)
    return (priority, more, used.get(workload.owner, 0), submitted, name)


def in_fair_order(workloads: Iterable[Workload], used: Shares) -> list[Workload]:
    """Those of a queue, given by seniority, in the order in which they would start if all could."""
    used, by_owner = dict(used), dict[str, deque[Workload]]()
    for workload in workloads:
        by_owner.setdefault(workload.owner, deque()).append(workload)
    heads = [(_fair_seniority(members[0], used), owner) for owner, members in by_owner.items()]
    heapq.heapify(heads)
    found = []
    while heads:
        _, owner = heapq.heappop(heads)
        members = by_owner[owner]
        found.append(members.popleft())
        used[owner] = used.get(owner, 0) + gang.smallest(found[-1])
        if members:
            heapq.heappush(heads, (_fair_seniority(members[0], used), owner))
    return found


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
        found: dict[str, _Leaf | _FairLeaf] = {}
        tests: dict[str, ClassTest] = {}
        for name, line in lines.items():
            pool = accounts.of(name).queue.pool if by_pool else name
            if pool not in tests:
                tests[pool] = _once_for_each_class(promising)
            if shares is None:
                found[name] = _Leaf(line, takes_part, tests[pool])
            else:
                found[name] = _FairLeaf(line, takes_part, tests[pool], shares.get(name, {}))
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
