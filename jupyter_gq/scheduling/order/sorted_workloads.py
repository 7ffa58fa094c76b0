"""Workloads kept in an order, for many cycles: one comes or goes without the others being sorted again."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from jupyter_gq.domain.workload import Workload

#: A sort key that ends with the id of the workload, so that no two are the same.
Key = TypeVar("Key", bound=tuple[Any, ...])


class Ranked(Generic[Key]):
    """A sorted list of workloads. Those added before the first question are sorted together, when it is asked."""

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
        """All of them in their order; not to be changed."""
        if not self._sorted:
            self._members.sort(key=self._key)
            self._keys = [self._key(member) for member in self._members]
            self._sorted = True
        return self._members

    def key_of(self, index: int) -> Key:
        """The sort key of the member there; `members` has been asked for before."""
        return self._keys[index]

    def frozen(self) -> tuple[Workload, ...]:
        """All of them in their order; the same tuple until somebody comes or goes."""
        if self._frozen is None:
            self._frozen = tuple(self.members)
        return self._frozen

    def add(self, workload: Workload) -> None:
        """It comes."""
        self._frozen = None
        if not self._sorted:
            self._members.append(workload)
            return
        key = self._key(workload)
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._members.insert(index, workload)

    def remove(self, workload: Workload) -> None:
        """It goes; it is the same as when it came."""
        self._frozen = None
        members = self.members
        index = bisect_left(self._keys, self._key(workload))
        assert members[index].id == workload.id
        del self._keys[index], members[index]
