"""The use of the devices of a run: over time in a bounded number of points, and the finding that there is none. Pure.

Rules
-----
- Whole run: the points cover the run from its first sample on. If they would be too many, two neighbours become one.
- Unknown is no point: a time without a sample has no point, and a figure that is not known in a point is None.
- In memory only: after a restart of the service the series begins anew.

See docs/decisions/0152-keep-the-use-of-jobs-in-memory-and-fold-it.md.
"""

from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, MiB, Seconds

#: Most points of a series, and the time that each of them covers at first.
MOST_POINTS = 120
FIRST_WIDTH = Seconds(15)


@dataclass(frozen=True, kw_only=True, slots=True)
class UsePoint:
    """The use of the devices in one interval; None = the figure was not known in any sample."""

    #: Beginning of the interval.
    at: Instant
    #: Mean and highest utilisation of the samples, 0 to 100.
    mean: float | None
    highest: int | None
    #: Highest memory of the samples.
    memory: MiB | None


@dataclass(slots=True)
class _Slot:
    """The samples of one interval, added up."""

    uses: int = 0
    total: int = 0
    highest: int | None = None
    memory: MiB | None = None

    def add(self, use: int | None, memory: MiB | None) -> None:
        """Add one sample."""
        if use is not None:
            self.uses += 1
            self.total += use
        self._raise_to(use, memory)

    def merge(self, other: "_Slot") -> None:
        """Add all samples of another slot."""
        self.uses += other.uses
        self.total += other.total
        self._raise_to(other.highest, other.memory)

    def _raise_to(self, use: int | None, memory: MiB | None) -> None:
        self.highest = max((each for each in (self.highest, use) if each is not None), default=None)
        self.memory = max((each for each in (self.memory, memory) if each is not None), default=None)


class UseSeries:
    """The use of the devices of one run, from its first sample to the last one."""

    def __init__(self, start: Instant) -> None:
        """Create an empty series that begins at `start`."""
        self.start = start
        #: Seconds that each point covers.
        self.width = FIRST_WIDTH
        #: The intervals with samples, by number.
        self._slots: dict[int, _Slot] = {}

    def add(self, at: Instant, use: int | None, memory: MiB | None) -> None:
        """Add a sample of the utilisation in per cent and of the memory; None = unknown.

        A sample from before the start, or without any known figure, is left out.
        """
        if at < self.start or (use is None and memory is None):
            return
        while at >= self.start + self.width * MOST_POINTS:
            self._fold()
        self._slots.setdefault(int((at - self.start) // self.width), _Slot()).add(use, memory)

    def points(self) -> list[UsePoint]:
        """Return the points in the order of time; intervals without samples are left out."""
        return [
            UsePoint(
                at=Instant(self.start + number * self.width),
                mean=slot.total / slot.uses if slot.uses else None,
                highest=slot.highest,
                memory=slot.memory,
            )
            for number, slot in sorted(self._slots.items())
        ]

    def _fold(self) -> None:
        """Let each point cover twice the time, so that two neighbours become one."""
        before, self._slots = self._slots, {}
        self.width = Seconds(2 * self.width)
        for number, slot in before.items():
            self._slots.setdefault(number // 2, _Slot()).merge(slot)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnusedGpu:
    """The time for which all samples of a run show no use of its devices."""

    #: The first of these samples.
    since: Instant
    #: The last one.
    known_at: Instant

    @property
    def seconds(self) -> Seconds:
        """The time between the two samples."""
        return Seconds(self.known_at - self.since)
