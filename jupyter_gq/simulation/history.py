"""Histories of a replay: allocation and waiting by queue over time, and how long guarantees were kept waiting."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, MilliGpu

from .trace import TraceJob


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """An amount over time: from `times[i]` on it is `values[i]`; before the first it is 0."""

    times: tuple[float, ...]
    #: Milli-GPU.
    values: tuple[int, ...]

    def means(self, start: float, end: float, bins: int) -> list[float]:
        """Return the mean milli-GPU in each of `bins` equal parts of the time from `start` to `end`, which is later."""
        width = (end - start) / bins
        edges = [start + width * index for index in range(bins)] + [end]
        sums = [0.0] * bins
        bounds = [*self.times, max(end, self.times[-1]) if self.times else end]
        place = 0
        for index, value in enumerate(self.values):
            left, right = max(bounds[index], start), min(bounds[index + 1], end)
            while value and left < right:
                while edges[place + 1] <= left:
                    place += 1
                until = min(right, edges[place + 1])
                sums[place] += value * (until - left)
                left = until
        return [total / width for total in sums]

    def integral(self, start: float, end: float) -> float:
        """Return the milli-GPU-seconds between `start` and `end`; 0 if `end` is not later."""
        return self.means(start, end, 1)[0] * (end - start) if end > start else 0.0


class _Track:
    """An amount over time that is still being recorded."""

    def __init__(self) -> None:
        self.now = 0
        self._times: list[float] = []
        self._values: list[int] = []

    def note(self, now: Instant) -> None:
        """Record the present amount, if it has changed since the last record."""
        if self.now != (self._values[-1] if self._values else 0):
            self._times.append(now)
            self._values.append(self.now)

    def steps(self) -> Steps:
        """Return the recorded amounts over time."""
        return Steps(times=tuple(self._times), values=tuple(self._values))


class Timeline:
    """A listener that records what each queue holds, and how many GPUs are waited for in it, over time."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._allocated = {name: _Track() for name in queues}
        self._waiting = {name: _Track() for name in self._allocated}
        self._changed: set[str] = set()

    def queued(self, job: TraceJob, now: Instant) -> None:
        """Add the GPUs of a job that waits from now on, a new or a paused one, to what its queue waits for."""
        self._waiting[job.queue].now += job.milli
        self._changed.add(job.queue)

    def started(self, job: TraceJob, now: Instant) -> None:
        """Move the GPUs of a job that starts from what its queue waits for to what the queue holds."""
        self._waiting[job.queue].now -= job.milli
        self._allocated[job.queue].now += job.milli
        self._changed.add(job.queue)

    def stopped(self, job: TraceJob, now: Instant) -> None:
        """Subtract the GPUs of a job that has ended or was paused from what its queue holds."""
        self._allocated[job.queue].now -= job.milli
        self._changed.add(job.queue)

    def settled(self, now: Instant) -> None:
        """Record the amounts that have changed at this instant."""
        for name in self._changed:
            self._allocated[name].note(now)
            self._waiting[name].note(now)
        self._changed.clear()

    def allocated(self) -> dict[str, Steps]:
        """Return the milli-GPU that each queue held over time."""
        return {name: track.steps() for name, track in self._allocated.items()}

    def waiting(self) -> dict[str, Steps]:
        """Return the milli-GPU that jobs waited for in each queue over time."""
        return {name: track.steps() for name, track in self._waiting.items()}


class GuaranteeClock:
    """A listener that measures, for each start within a guarantee, how long the queue was kept waiting for it.

    The clock of a job runs while it waits and its queue has room for it below its guarantee, without a break; it is
    read when the job starts. Starts above the guarantee are not counted.
    """

    def __init__(self, quotas: Mapping[str, MilliGpu]) -> None:
        self._room: dict[str, int] = dict(quotas)
        self._waiting: dict[str, Counter[int]] = {name: Counter() for name in quotas}
        #: Since when there has been room for a job of that size.
        self._since: dict[str, dict[int, Instant]] = {name: {} for name in quotas}
        self._queued: dict[str, Instant] = {}
        self._changed: set[str] = set()
        #: Seconds of each start within the guarantee, by queue.
        self.delays: dict[str, list[float]] = {name: [] for name in quotas}

    def queued(self, job: TraceJob, now: Instant) -> None:
        """Add a job that waits from now on, a new or a paused one, to the waiting jobs of its queue."""
        self._queued[job.id] = now
        self._waiting[job.queue][job.milli] += 1
        self._changed.add(job.queue)

    def started(self, job: TraceJob, now: Instant) -> None:
        """Record for how many seconds a job's clock ran, if the job starts within the guarantee of its queue.

        The room below the guarantee shrinks by the job.
        """
        queued = self._queued.pop(job.id)
        if self._room[job.queue] >= job.milli:
            since = self._since[job.queue].get(job.milli, now)
            self.delays[job.queue].append(now - max(since, queued))
        self._room[job.queue] -= job.milli
        self._waiting[job.queue][job.milli] -= 1
        self._changed.add(job.queue)

    def stopped(self, job: TraceJob, now: Instant) -> None:
        """Add the GPUs of a job that has ended or was paused to the room below its queue's guarantee."""
        self._room[job.queue] += job.milli
        self._changed.add(job.queue)

    def settled(self, now: Instant) -> None:
        """Start the clocks of waiting jobs for which there is room now, and stop the others.

        Only queues that have changed since the last call are looked at.
        """
        for name in self._changed:
            room, since = self._room[name], self._since[name]
            for milli, number in self._waiting[name].items():
                if number and milli <= room:
                    since.setdefault(milli, now)
                else:
                    since.pop(milli, None)
        self._changed.clear()
