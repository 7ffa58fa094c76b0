"""Gang placement: places for the smallest gang of a workload, all or nothing.

Rules
-----
1. Gang. A workload starts with at least `min_members` tasks of each of its groups, or not at all. Large requests go
   first.
2. Required level. All tasks of that workload or group, with all groups inside it, stand in one domain of the level.
   Domains that cannot have room are left out by what is free in them. Of the others, pack tries the one with the least
   room first, spread the one with the most; ties go to the lowest values of the labels.
3. Preferred level. The same, in the narrowest domain that has room: the preferred level first, then wider ones, as far
   as the required one, or else anywhere.
4. Growth. What is added to running work keeps to the domains of the running tasks: the required ones always, the
   preferred ones as long as there is room.
5. Nesting. Groups inside a domain of their parent choose their own domains inside it. A group that asks for a wider
   level than its parent has it already.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.workload import Request, TaskGroup, TaskPlacement, TopologyConstraint, Workload
from jupyter_gq.scheduling.workloads.borrowers import may_borrow
from jupyter_gq.scheduling.workloads.gang import groups_of
from jupyter_gq.scheduling.workloads.replicas import Replica

from . import DeviceLedger, Domain, View, filter_of

Within = tuple[Domain, ...]


def place(ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> tuple[TaskPlacement, ...] | None:
    """Take places for the whole smallest gang in the ledger and return them.

    None means that there is no room for all of it; the ledger has not changed then.
    """
    assembly = _Assembly(ledger, pool, workload, view)
    if not workload.groups and workload.topology is None:
        return assembly.all_the_same() if may_fit(ledger, pool, workload, view) else None
    placed = assembly.alike() if assembly.simple else assembly.branch(assembly.root, ())
    return None if placed is None else tuple(placed)


def may_fit(ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> bool:
    """Return False if the smallest gang certainly has no place; True means that it may fit."""
    if not workload.groups and workload.topology is None:
        least = workload.min_members
        return ledger.slots(pool, workload.request, view, enough=least) >= least
    assembly = _Assembly(ledger, pool, workload, view)
    return assembly.possible(assembly.root, ())


def may_fit_within(ledger: DeviceLedger, pool: str, workload: Workload, view: View, domain: Domain) -> bool:
    """Return False if the smallest gang certainly has no place inside that domain; True means that it may have one."""
    assembly = _Assembly(ledger, pool, workload, view)
    return assembly.possible_inside(assembly.root, (domain,))


def required_domains(ledger: DeviceLedger, workload: Workload) -> list[Domain] | None:
    """Return the domains of which one must take the whole gang; None if no single domain is required.

    For a replica that is the domain of its running workload. The list is empty if there is no such domain.
    """
    groups = groups_of(workload)
    constraint = workload.topology
    if (constraint is None or constraint.required is None) and len(groups) == 1:
        constraint = groups[0].topology
    if constraint is None or constraint.required is None:
        return None
    near = _standing(workload)
    if near:
        there = ledger.domains.around(near[0].node, constraint.topology, constraint.required)
        return [] if there is None else [there]
    return ledger.domains.of(constraint.topology, constraint.required)


def leading_request(workload: Workload) -> Request:
    """Return the request of the task group that is hardest to place (see `largest_first`)."""
    if not workload.groups:
        return workload.request
    needed = [group for group in groups_of(workload) if group.min_members]
    return min(needed, key=largest_first).request if needed else workload.request


def _standing(workload: Workload) -> tuple[TaskPlacement, ...]:
    """Return the placement that a replica joins; empty for a workload that is placed as a whole."""
    return workload.whole.placement if isinstance(workload, Replica) else ()


def largest_first(group: TaskGroup) -> tuple[int, int, int, int]:
    """Return a sort key that puts the larger request first: by devices, milli-GPU of each, CPU, then memory."""
    request = group.request
    return (-request.devices, -request.milli_per_device, -request.cpu_milli, -request.memory)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Branch:
    """A workload, or a task group of it, with the task groups inside."""

    constraint: TopologyConstraint | None
    #: Groups whose tasks are the branch's own.
    own: tuple[TaskGroup, ...]
    inside: tuple["_Branch", ...]
    #: The groups with tasks of the whole branch, itself included.
    groups: tuple[TaskGroup, ...]
    #: Where tasks of the branch stand already.
    near: tuple[TaskPlacement, ...]


class _Assembly:
    """An attempt to place the smallest gang of one workload."""

    def __init__(self, ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> None:
        self.ledger = ledger
        self.pool = pool
        self.workload = workload
        self.view = view
        self.simple = workload.topology is None and not any(group.topology for group in workload.groups)
        self._root: _Branch | None = None

    @property
    def root(self) -> _Branch:
        """The branch of the workload, with the branches of its task groups."""
        if self._root is None:
            groups, there = self.workload.groups, _standing(self.workload)
            inside = tuple(self._branch_of(each, there) for each in groups if each.parent is None)
            own = () if groups else groups_of(self.workload)
            of_all = groups_of(self.workload)
            self._root = _Branch(constraint=self.workload.topology, own=own, inside=inside, groups=of_all, near=there)
        return self._root

    def _branch_of(self, group: TaskGroup, there: Sequence[TaskPlacement]) -> _Branch:
        """Return the branch of a task group with all task groups inside it.

        `there` are tasks that are placed already.
        """
        inside = tuple(self._branch_of(each, there) for each in self.workload.groups if each.parent == group.name)
        own = (group,) if group.tasks else ()
        groups = own + tuple(each for branch in inside for each in branch.groups)
        names = {group.name, *_names(inside)}
        near = tuple(task for task in there if task.group in names)
        return _Branch(constraint=group.topology, own=own, inside=inside, groups=groups, near=near)

    # --- taking places

    def all_the_same(self) -> tuple[TaskPlacement, ...] | None:
        """Take places for a workload without topology and task groups; None changes nothing. Call `may_fit` first."""
        mark = self.ledger.mark()
        placed = self._groups(groups_of(self.workload), ())
        if placed is None:
            self.ledger.rollback(mark)
            return None
        return tuple(placed)

    def alike(self) -> list[TaskPlacement] | None:
        """Take places for a workload without any topology, one task group after another; None changes nothing."""
        groups = groups_of(self.workload)
        if not self._enough(groups, ()):
            return None
        mark = self.ledger.mark()
        placed = self._groups(groups, ())
        if placed is None:
            self.ledger.rollback(mark)
        return placed

    def branch(self, branch: _Branch, within: Within) -> list[TaskPlacement] | None:
        """Take places for the smallest gang of a branch in one of its domains, and return them; None changes nothing.

        The domains lie inside `within`.
        """
        for domains in self._candidates(branch, within):
            mark = self.ledger.mark()
            placed = self._inside(branch, domains)
            if placed is not None:
                return placed
            self.ledger.rollback(mark)
        return None

    def _inside(self, branch: _Branch, within: Within) -> list[TaskPlacement] | None:
        """Take places for a branch inside these domains; on failure, return None and leave places taken so far."""
        if not self.possible_inside(branch, within):
            return None
        placed = self._groups(branch.own, within)
        for each in sorted(branch.inside, key=_hardest_first):
            more = None if placed is None else self.branch(each, within)
            if placed is None or more is None:
                return None
            placed += more
        return placed

    def _groups(self, groups: Sequence[TaskGroup], within: Within) -> list[TaskPlacement] | None:
        """Take places for the min replicas of each task group inside these domains, the largest requests first.

        On failure, return None and leave the places taken so far in the ledger.
        """
        placed: list[TaskPlacement] = []
        for group in sorted(groups, key=largest_first) if len(groups) > 1 else groups:
            for _ in range(group.min_members):
                task = self.ledger.place(
                    self.pool,
                    group.request,
                    self.view,
                    group=group.name,
                    within=within,
                    borrows=may_borrow(self.workload),
                )
                if task is None:
                    return None
                placed.append(task)
        return placed

    # --- domains

    def _candidates(self, branch: _Branch, within: Within) -> Iterator[Within]:
        """Yield the domains where the branch may go: first domains of the preferred level, then of wider ones.

        Each comes with the domains `within`. If no level is required, `within` alone comes last. Nothing is yielded if
        the required level does not exist.
        """
        constraint = branch.constraint
        if constraint is None:
            yield within
            return
        levels = self.ledger.domains.levels(constraint.topology)
        preferred = _position(levels, constraint.preferred)
        required = _position(levels, constraint.required)
        if constraint.required is not None and required is None:
            return  # there is no such level
        widest = -1 if required is None else required
        narrowest = widest if preferred is None else max(preferred, widest)
        for position in range(narrowest, max(widest, 0) - 1, -1):
            for domain in self._ranked(branch, constraint.topology, levels[position], within):
                yield (*within, domain)
        if required is None:
            yield within

    def _ranked(self, branch: _Branch, topology: str, level: str, within: Within) -> list[Domain]:
        """Return the domains of a level that may have room for the branch, in the order in which to try them.

        If tasks of the branch run already, return only the domain of these tasks, without a check for room. If their
        node is in no domain of the level, the list is empty.
        """
        if branch.near:
            there = self.ledger.domains.around(branch.near[0].node, topology, level)
            return [] if there is None else [there]
        found = []
        lead = min(branch.groups, key=largest_first).request if branch.groups else self.workload.request
        for domain in self.ledger.domains.of(topology, level):
            if _overlaps(domain, within) and self._enough(branch.groups, (*within, domain)):
                index = self.ledger.index(self.pool, lead, self.view, (*within, domain))
                found.append((index.slots(lead), index.total, domain.values, domain))
        if self.ledger.spreads:
            return [domain for *_, domain in sorted(found, key=lambda entry: (-entry[0], -entry[1], entry[2]))]
        return [domain for *_, domain in sorted(found, key=lambda entry: entry[:3])]

    # --- bounds

    def possible(self, branch: _Branch, within: Within) -> bool:
        """Return False if certainly no domain inside `within` has room for the branch; True means that one may."""
        constraint = branch.constraint
        if constraint is None or constraint.required is None:
            return self.possible_inside(branch, within)
        if constraint.required not in self.ledger.domains.levels(constraint.topology):
            return False
        domains = self._ranked(branch, constraint.topology, constraint.required, within)
        return any(self.possible_inside(branch, (*within, domain)) for domain in domains)

    def possible_inside(self, branch: _Branch, within: Within) -> bool:
        """Return False if these domains certainly have no room for the whole branch; True means that they may."""
        return self._enough(branch.groups, within) and all(self.possible(each, within) for each in branch.inside)

    def _enough(self, groups: Sequence[TaskGroup], within: Within) -> bool:
        """Return False if there is certainly too little for some request alone, or for all task groups in sum."""
        if len(groups) == 1:
            (group,) = groups
            least = group.min_members
            return self.ledger.slots(self.pool, group.request, self.view, within=within, enough=least) >= least
        tasks: dict[Request, int] = {}
        for group in groups:
            tasks[group.request] = tasks.get(group.request, 0) + group.min_members
        if any(self.ledger.slots(self.pool, r, self.view, within=within) < n for r, n in tasks.items()):
            return False
        milli = sum(request.milli * count for request, count in tasks.items())
        return not milli or self._total(within) >= milli

    def _total(self, within: Within) -> int:
        return self.ledger.scope(filter_of(self.pool, Request(devices=1), within)).index(self.view).total


def _position(levels: Sequence[str], level: str | None) -> int | None:
    return levels.index(level) if level is not None and level in levels else None


def _overlaps(domain: Domain, within: Within) -> bool:
    """Tell whether the domain lies in, or around, every domain of `within` that is of the same topology."""
    return all(
        all(mine == its for mine, its in zip(domain.values, other.values, strict=False))
        for other in within
        if other.topology == domain.topology
    )


def _names(branches: Iterable[_Branch]) -> Iterator[str]:
    return (group.name for branch in branches for group in branch.groups)


def _hardest_first(branch: _Branch) -> tuple[int, tuple[int, int, int, int]]:
    """Return a sort key that puts the branch first that asks for most."""
    milli = sum(group.request.milli * group.min_members for group in branch.groups)
    return (-milli, min((largest_first(group) for group in branch.groups), default=(0, 0, 0, 0)))
