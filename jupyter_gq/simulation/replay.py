"""The event loop of the replay: virtual time, one policy, and what happened to each job.

- One instant: the policy is told all submissions and ends of one instant together. Then it decides, again and again
  until nothing moves: a paused job is gone at once and its devices start another one.
- Pauses: a pause destroys `Costs.lost_per_pause` seconds of progress, but never more than the job has made.
- Between events: nothing happens, unless the policy asks to be woken.

See docs/decisions/0018-replay-traces-through-the-real-scheduler.md.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import DefectError

from .trace import TraceJob

_A_MINUTE = Seconds(60)
#: A policy that still moves after so many rounds at one instant will never come to rest.
_MOST_ROUNDS = 1000
#: A policy that was woken so often in an empty cluster will never start those who wait.
_MOST_IDLE = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A move: the job's devices are reserved and it runs from now on."""

    job: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A move: the job gives its devices back now and waits again."""

    job: str


Move = Start | Pause


class SchedulingPolicy(Protocol):
    """The policy that decides in a replay which jobs start and which are paused."""

    def submitted(self, job: TraceJob) -> None:
        """Add a job that waits from now on."""

    def ended(self, job: TraceJob) -> None:
        """Remove a job that has run to its end and holds nothing any more."""

    def decide(self, now: Instant) -> Sequence[Move]:
        """Return the next moves; the replay carries them out in this order and asks again after a pause."""

    def wake_at(self, now: Instant) -> Instant | None:
        """Return the next time at which a decision may change although nothing happens; None if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """The costs of disturbing work."""

    #: Progress that a pause destroys.
    lost_per_pause: Seconds = _A_MINUTE


_USUAL_COSTS = Costs()


@dataclass(kw_only=True, slots=True)
class Course:
    """The course of one job in a replay so far: its runs, and the progress that is left and that pauses destroyed."""

    job: TraceJob
    #: Starts and the ends of these runs, by turns.
    runs: list[tuple[Instant, Instant]] = field(default_factory=list)
    #: Start of the run that goes on; None while it waits.
    since: Instant | None = None
    #: Progress that is left to make.
    left: float = 0.0
    #: Progress destroyed by pauses.
    lost: float = 0.0

    @property
    def ended(self) -> Instant:
        """The end of the job's last run."""
        return self.runs[-1][1]

    @property
    def pauses(self) -> int:
        """The number of times that the job was paused."""
        return len(self.runs) - 1

    @property
    def waited(self) -> float:
        """The seconds between submission and end in which the job did not run."""
        return self.ended - self.job.submitted - sum(end - start for start, end in self.runs)


#: Told after each instant: how many jobs have ended, of how many.
Watch = Callable[[int, int], None]


class ReplayListener(Protocol):
    """An object whose methods a replay calls as things happen, in order."""

    def queued(self, job: TraceJob, now: Instant) -> None:
        """Receive that a job waits from now on: a new one or a paused one."""

    def started(self, job: TraceJob, now: Instant) -> None:
        """Receive that a job holds its devices from now on."""

    def stopped(self, job: TraceJob, now: Instant) -> None:
        """Receive that a job has ended or was paused, so that its devices are free."""

    def settled(self, now: Instant) -> None:
        """Receive that nothing more happens at this instant."""


class DoesNotEnd(DefectError, RuntimeError):
    """A defect of the policy: it leaves jobs that never run, or moves jobs for ever."""


def replay(
    jobs: Iterable[TraceJob],
    policy: SchedulingPolicy,
    costs: Costs = _USUAL_COSTS,
    listeners: Sequence[ReplayListener] = (),
    watch: Watch | None = None,
) -> list[Course]:
    """Run all jobs to their end under the policy and return their courses, in order of submission.

    Raises `DoesNotEnd` if the policy leaves jobs waiting for ever or moves jobs for ever. `watch` is called after each
    instant.
    """
    return _Replay(jobs, policy, costs, listeners).play(watch)


class _Replay:
    """A replay under way: the virtual time, the events to come, and the courses of all jobs."""

    def __init__(
        self, jobs: Iterable[TraceJob], policy: SchedulingPolicy, costs: Costs, listeners: Sequence[ReplayListener]
    ) -> None:
        self._policy = policy
        self._costs = costs
        self._listeners = listeners
        ordered = sorted(jobs, key=lambda job: (job.submitted, job.id))
        self._courses = {job.id: Course(job=job, left=job.duration) for job in ordered}
        self._arrivals = ordered
        self._arrived = 0
        self._done = 0
        #: (when, job, number of the run): an end counts only for the run that is on.
        self._ends: list[tuple[Instant, str, int]] = []
        self._run_of: dict[str, int] = {}
        #: Moments in a row at which nothing ran and nobody came any more.
        self._idle = 0

    def play(self, watch: Watch | None) -> list[Course]:
        """Run all jobs to their end and return their courses; `watch` is called after each instant.

        Raises `DoesNotEnd` if that never happens.
        """
        now = Instant(0.0)
        while self._done < len(self._courses):
            now = self._next(now)
            self._take_events(now)
            self._settle(now)
            if watch is not None:
                watch(self._done, len(self._courses))
        return list(self._courses.values())

    def _next(self, now: Instant) -> Instant:
        """Return the next instant at which something happens; raise `DoesNotEnd` if there is none.

        The same error is raised if nothing runs or arrives any more, and the policy has been woken `_MOST_IDLE` times
        in a row.
        """
        moments: list[Instant] = []
        if self._arrived < len(self._arrivals):
            moments.append(self._arrivals[self._arrived].submitted)
        if self._ends:
            moments.append(self._ends[0][0])
        woken = self._policy.wake_at(now)
        self._idle = 0 if moments else self._idle + 1
        if woken is not None and self._idle <= _MOST_IDLE:
            moments.append(woken)
        if not moments:
            waiting = [name for name, course in self._courses.items() if not course.runs and course.since is None]
            raise DoesNotEnd(f"nothing runs and {len(waiting)} jobs never start, the first of them {waiting[:1]}")
        return min(moments)

    def _take_events(self, now: Instant) -> None:
        """Record the ends and then the submissions up to this instant, and tell the policy and the listeners."""
        while self._ends and self._ends[0][0] <= now:
            _, name, run = heapq.heappop(self._ends)
            if self._run_of.get(name) == run:
                self._end(self._courses[name], now)
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].submitted <= now:
            job = self._arrivals[self._arrived]
            self._arrived += 1
            self._policy.submitted(job)
            for listener in self._listeners:
                listener.queued(job, now)

    def _settle(self, now: Instant) -> None:
        """Carry out the moves of the policy, asking again after each pause, and then call `settled` of the listeners.

        Raises `DoesNotEnd` if the policy still pauses jobs after `_MOST_ROUNDS` rounds.
        """
        for _ in range(_MOST_ROUNDS):
            moves = self._policy.decide(now)
            for move in moves:
                course = self._courses[move.job]
                if isinstance(move, Start):
                    self._start(course, now)
                else:
                    self._pause(course, now)
            if not any(isinstance(move, Pause) for move in moves):
                for listener in self._listeners:
                    listener.settled(now)
                return
        raise DoesNotEnd(f"the policy still moves after {_MOST_ROUNDS} rounds at {now:g} s")

    def _start(self, course: Course, now: Instant) -> None:
        """Begin a run of the job, expect its end after the progress that is left, and tell the listeners."""
        course.since = now
        name = course.job.id
        run = self._run_of[name] = self._run_of.get(name, 0) + 1
        heapq.heappush(self._ends, (Instant(now + course.left), name, run))
        for listener in self._listeners:
            listener.started(course.job, now)

    def _pause(self, course: Course, now: Instant) -> None:
        """End the run of a job and let it wait again, less the progress that the pause destroys; tell the listeners."""
        ran = self._stop(course, now)
        progress = course.job.duration - course.left + ran
        lost = min(float(self._costs.lost_per_pause), progress)
        course.left -= ran - lost
        course.lost += lost
        self._run_of[course.job.id] += 1
        for listener in self._listeners:
            listener.queued(course.job, now)

    def _end(self, course: Course, now: Instant) -> None:
        """Record the end of a job, and tell the policy."""
        self._stop(course, now)
        course.left = 0.0
        self._done += 1
        self._policy.ended(course.job)

    def _stop(self, course: Course, now: Instant) -> float:
        """Record the end of a job's run, tell the listeners, and return for how many seconds the job ran."""
        assert course.since is not None
        ran = now - course.since
        course.runs.append((course.since, now))
        course.since = None
        for listener in self._listeners:
            listener.stopped(course.job, now)
        return ran
