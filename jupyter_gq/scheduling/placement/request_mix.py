"""What is asked for at present: the kinds of request of all the work that is known, and how often each occurs."""

from typing import NamedTuple

from jupyter_gq.domain.workload import Request

#: No more kinds than that are looked at: the most frequent ones.
MOST = 128


class Asked(NamedTuple):
    """A kind of request, as far as it matters to what can still be used of a node."""

    pool: str
    devices: int
    milli: int
    cpu: int
    memory: int
    models: tuple[str, ...] = ()
    #: Least memory of a device.
    device_memory: int = 0

    @classmethod
    def by(cls, pool: str, request: Request) -> "Asked":
        """The kind of that request."""
        return cls(
            pool,
            request.devices,
            request.milli_per_device,
            request.cpu_milli,
            request.memory,
            request.models,
            request.device_memory or 0,
        )


class Mix:
    """How many tasks of each kind are known, waiting or running. Tasks without devices do not count."""

    __slots__ = ("_number", "counts", "kinds", "version")

    def __init__(self) -> None:
        #: Every kind that there ever was, and how many tasks of it there are now.
        self.kinds: list[Asked] = []
        self.counts: list[int] = []
        self._number: dict[Asked, int] = {}
        #: Another one after each change.
        self.version = 0

    def add(self, pool: str, request: Request, tasks: int) -> None:
        """So many more tasks of that request; a negative number takes them out again."""
        if not request.devices or not tasks:
            return
        kind = Asked.by(pool, request)
        number = self._number.get(kind)
        if number is None:
            number = self._number[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.counts.append(0)
        self.counts[number] += tasks
        self.version += 1

    def frequent(self) -> list[int]:
        """Numbers of the kinds to look at, in the order in which they came."""
        there = [number for number, count in enumerate(self.counts) if count]
        if len(there) <= MOST:
            return there
        return sorted(sorted(there, key=lambda number: (-self.counts[number], self.kinds[number]))[:MOST])
