"""Workloads kept in order over many cycles: adding or removing one does not sort the others again."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from jupyter_gq.domain.workload import Workload

#: A sort key that ends with the id of the workload, so that no two are the same.
Key = TypeVar("Key", bound=tuple[object, ...])


class SortedWorkloads(Generic[Key]):
    """A sorted list of workloads. Members that are added before the first read are sorted together at that read."""

    __slots__ = ("_frozen", "_key", "_keys", "_members", "_sorted")

    def __init__(self, key: Callable[[Workload], Key]) -> None:
        self._key = key
        self._keys: list[Key] = []
        self._members: list[Workload] = []
        self._sorted = False
        self._frozen: tuple[Workload, ...] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Workload]:
        return iter(self.members)

    @property
    def members(self) -> list[Workload]:
        """The members in order. The caller must not change the list."""
        if not self._sorted:
            self._members.sort(key=self._key)
            self._keys = [self._key(member) for member in self._members]
            self._sorted = True
        return self._members

    def key_of(self, index: int) -> Key:
        """Return the sort key of the member at that index; `members` must have been read before."""
        return self._keys[index]

    def frozen(self) -> tuple[Workload, ...]:
        """Return all members in order, as the same tuple until one is added or removed."""
        if self._frozen is None:
            self._frozen = tuple(self.members)
        return self._frozen

    def add(self, workload: Workload) -> None:
        """Insert a workload in the order of the sort key."""
        self._frozen = None
        if not self._sorted:
            self._members.append(workload)
            return
        key = self._key(workload)
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._members.insert(index, workload)

    def remove(self, workload: Workload) -> None:
        """Remove a workload, given as it was when it was added."""
        self._frozen = None
        members = self.members
        index = bisect_left(self._keys, self._key(workload))
        assert members[index].id == workload.id
        del self._keys[index], members[index]
