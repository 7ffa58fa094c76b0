"""The request mix: the kinds of request of all known work, and how often each occurs."""

from typing import NamedTuple

from jupyter_gq.domain.workload import Request

#: The most kinds that are looked at; the most frequent ones count.
MOST = 128


class RequestKind(NamedTuple):
    """The part of a request that decides what can still be used of a node."""

    pool: str
    devices: int
    milli: int
    cpu: int
    memory: int
    models: tuple[str, ...] = ()
    #: Least memory of a device.
    device_memory: int = 0

    @classmethod
    def by(cls, pool: str, request: Request) -> "RequestKind":
        """Return the kind of a request of work in that pool."""
        return cls(
            pool,
            request.devices,
            request.milli_per_device,
            request.cpu_milli,
            request.memory,
            request.models,
            request.device_memory or 0,
        )


class RequestMix:
    """The number of tasks of each kind, pending or running. Tasks without devices do not count."""

    __slots__ = ("_number", "counts", "kinds", "version")

    def __init__(self) -> None:
        #: Every kind that there ever was, and the number of its tasks now.
        self.kinds: list[RequestKind] = []
        self.counts: list[int] = []
        self._number: dict[RequestKind, int] = {}
        #: Grows with each change.
        self.version = 0

    def add(self, pool: str, request: Request, tasks: int) -> None:
        """Add `tasks` tasks of a request to its kind; a negative number removes them.

        Requests without devices are ignored.
        """
        if not request.devices or not tasks:
            return
        kind = RequestKind.by(pool, request)
        number = self._number.get(kind)
        if number is None:
            number = self._number[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.counts.append(0)
        self.counts[number] += tasks
        self.version += 1

    def frequent(self) -> list[int]:
        """Return the numbers of the kinds that have tasks, ascending; at most the `MOST` most frequent kinds."""
        there = [number for number, count in enumerate(self.counts) if count]
        if len(there) <= MOST:
            return there
        return sorted(sorted(there, key=lambda number: (-self.counts[number], self.kinds[number]))[:MOST])
