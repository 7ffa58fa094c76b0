"""The figures of a replay: how much of the GPUs was used, how long jobs waited, what pauses destroyed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .history import Steps
from .replay import Course

_HOUR = 3_600_000  # milli-GPU-seconds of a GPU-hour


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of the jobs of one queue, or of all jobs."""

    jobs: int
    #: Seconds that a job was there and did not run, before its first start and while paused.
    mean_wait: float
    median_wait: float
    p95_wait: float
    #: Seconds from submission to end.
    mean_completion: float
    preemptions: int
    #: All that was held, also what was lost.
    used_gpu_hours: float
    #: Destroyed by pauses.
    lost_gpu_hours: float
    #: Starts within the guarantee, and the longest that 99 of 100 of them were kept waiting, in seconds.
    guaranteed_starts: int
    guarantee_p99: float

    @property
    def lost_percent(self) -> float:
        """The lost part of everything that was held, in per cent."""
        return 100 * self.lost_gpu_hours / self.used_gpu_hours if self.used_gpu_hours else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayResult:
    """The figures of a replay, in total and by queue, with allocation and waiting over time."""

    #: GPUs that there were.
    milli: int
    #: From the first submission to the moment at which the last job would have ended if none had waited: the same for
    #: every policy on the same jobs.
    start: float
    end: float
    #: Of the GPUs between `start` and `end`.
    used_percent: float
    total: Figures
    by_queue: Mapping[str, Figures]
    #: What each queue held, and what waited in it.
    allocated: Mapping[str, Steps]
    waiting: Mapping[str, Steps]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` per cent of the values do not exceed; 0 for no values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def compute_figures(courses: Sequence[Course], delays: Sequence[float] = ()) -> Figures:
    """Return the figures of these jobs.

    `delays` are the seconds that their starts within the guarantee were kept waiting.
    """
    waits = [course.waited for course in courses]
    completions = [course.ended - course.job.submitted for course in courses]
    return Figures(
        jobs=len(courses),
        mean_wait=_mean(waits),
        median_wait=percentile(waits, 50),
        p95_wait=percentile(waits, 95),
        mean_completion=_mean(completions),
        preemptions=sum(course.pauses for course in courses),
        used_gpu_hours=math.fsum(c.job.milli * (end - start) for c in courses for start, end in c.runs) / _HOUR,
        lost_gpu_hours=math.fsum(course.job.milli * course.lost for course in courses) / _HOUR,
        guaranteed_starts=len(delays),
        guarantee_p99=percentile(delays, 99),
    )


def summarize(
    courses: Sequence[Course],
    milli: int,
    delays: Mapping[str, Sequence[float]],
    allocated: Mapping[str, Steps],
    waiting: Mapping[str, Steps],
) -> ReplayResult:
    """Return the result of a replay: the figures of all jobs and of each queue, with the histories given.

    `milli` are the milli-GPU of the pool; `delays` are seconds by queue.
    """
    start = min((course.job.submitted for course in courses), default=0.0)
    end = max((course.job.submitted + course.job.duration for course in courses), default=0.0)
    by_queue: dict[str, list[Course]] = {name: [] for name in allocated}
    for course in courses:
        by_queue[course.job.queue].append(course)
    used = math.fsum(steps.integral(start, end) for steps in allocated.values())
    return ReplayResult(
        milli=milli,
        start=start,
        end=end,
        used_percent=100 * used / (milli * (end - start)) if milli and end > start else 0.0,
        total=compute_figures(courses, [delay for found in delays.values() for delay in found]),
        by_queue={name: compute_figures(found, delays.get(name, ())) for name, found in by_queue.items()},
        allocated=allocated,
        waiting=waiting,
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean; 0 for no values."""
    return math.fsum(values) / len(values) if values else 0.0
