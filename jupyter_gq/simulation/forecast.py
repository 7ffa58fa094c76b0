"""Forecasts of starts: the real scheduler, run forward under expected durations.

A forecast knows nothing of jobs that have not been sent yet, and durations are only expected. `calibration` makes a
range of the expected wait, from how earlier forecasts turned out.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.decision import Admit, Evict, Grow, Instruction, Reserve, Resume, Shrink
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.workloads.replicas import without

#: How long a workload is expected to run in all, given how long it has run.
ExpectedDuration = Callable[[Workload, Seconds], Seconds]


@dataclass(frozen=True, kw_only=True, slots=True)
class Horizon:
    """The bounds of a forecast."""

    #: Seconds from now.
    within: Seconds = Seconds(7 * 24 * 3600)  # noqa: RUF009 (a number)
    #: Ends of runs; this bounds the time that a forecast takes.
    ends: int = 100_000


FAR = Horizon()
#: No run is expected to end sooner than so many seconds from now.
_SOON = 1.0
_CARRIED_OUT = Admit | Evict | Grow | Reserve | Resume | Shrink


def forecast(
    snapshot: Snapshot,
    policy: Policy,
    now: Instant,
    expected_duration: ExpectedDuration,
    *,
    of: Iterable[str] | None = None,
    horizon: Horizon = FAR,
) -> dict[str, Seconds | None]:
    """Return the seconds that each pending workload (of those in `of`) is expected to wait.

    None means that no start is expected within the horizon, or that the workload is held. The real scheduler runs
    forward in virtual time.
    """
    future = _Future(snapshot, policy, now, expected_duration)
    pending = {w.id for w in snapshot.workloads if w.state is State.PENDING}
    wanted = pending if of is None else pending & set(of)
    released = {w.id for w in snapshot.workloads if w.id in wanted and w.hold is None}
    future.run(released, Instant(now + horizon.within), horizon.ends)
    return {name: _wait(future.started.get(name), now) for name in sorted(wanted)}


def _wait(start: Instant | None, now: Instant) -> Seconds | None:
    """Return the seconds until the start; None = no start."""
    return None if start is None else Seconds(start - now)


class _Future:
    """The cluster from now on, if all work takes as long as expected."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: Instant, expected_duration: ExpectedDuration) -> None:
        self._expected_duration = expected_duration
        # Every backend is expected to be observed again, and to launch whatever is admitted.
        cluster = replace(snapshot, workloads=(), unobserved=(), launch_capacity={})
        self._scheduler = Scheduler(cluster, policy)
        self._workloads: dict[str, Workload] = {}
        #: What has been run of each before its present run.
        self._done: dict[str, float] = {}
        #: (time, run number of that workload here, id): when runs end.
        self._ends: list[tuple[float, int, str]] = []
        self._runs: dict[str, int] = {}
        self._now = now
        self.started: dict[str, Instant] = {}
        for workload in snapshot.workloads:
            self._add_at_start(workload)

    def run(self, wanted: set[str], until: Instant, most_ends: int) -> None:
        """Go from one expected end of a run to the next, deciding at each, until all of `wanted` have started.

        Stops earlier if no more end is expected before `until`, or after `most_ends` steps. Starts are in `started`.
        """
        self._decide_until_stable()
        for _ in range(most_ends):
            if wanted <= self.started.keys() or not self._ends or self._ends[0][0] > until:
                return
            self._now = Instant(self._ends[0][0])
            while self._ends and self._ends[0][0] <= self._now:
                _, run, name = heapq.heappop(self._ends)
                if self._runs.get(name) == run and name in self._workloads:
                    self._remove(name)
            self._decide_until_stable()

    def _add_at_start(self, workload: Workload) -> None:
        """Add a workload of the snapshot, with its expected end if it runs and the end of its back-off.

        Stopping work is added as pending if it comes back, and left out otherwise.
        """
        if workload.state is State.STOPPING:  # gone in a moment
            if workload.stop is not None and not workload.stop.requeue:
                return
            workload = _queued(workload)
        self._put(workload)
        if workload.kind is Kind.TRAINING and workload.holds:
            started = workload.started_at if workload.started_at is not None else self._now
            elapsed = Seconds(max(0.0, self._now - started))
            self._expect_end(workload, self._expected_duration(workload, elapsed) - elapsed)
        if workload.backoff is not None and workload.is_backing_off(self._now):
            # Run 0 ends nothing: at that time it is only decided anew.
            heapq.heappush(self._ends, (workload.backoff.until, 0, workload.id))

    def _expect_end(self, workload: Workload, rest: float) -> None:
        """Expect the present run of a workload to end in `rest` seconds; its earlier expected end no longer counts."""
        run = self._runs[workload.id] = self._runs.get(workload.id, 0) + 1
        heapq.heappush(self._ends, (self._now + max(_SOON, rest), run, workload.id))

    def _decide_until_stable(self) -> None:
        """Run cycles and carry their decisions out until a cycle stops nothing; stopped work is gone at once."""
        for _ in range(len(self._workloads) + 1):
            decision = self._scheduler.decide(self._now, explain=False)
            acts = [each for each in decision.instructions if isinstance(each, _CARRIED_OUT)]
            for instruction in acts:
                self._carry_out(instruction)
            if not any(isinstance(each, Evict | Shrink) for each in acts):
                return

    def _put(self, workload: Workload) -> None:
        self._workloads[workload.id] = workload
        self._scheduler.put(workload)

    def _remove(self, name: str) -> None:
        del self._workloads[name]
        self._scheduler.remove(name)

    def _carry_out(self, instruction: Instruction) -> None:
        """Apply one instruction of a cycle to the workload that it names."""
        workload = self._workloads[instruction.workload]
        match instruction:
            case Admit(placement=placement) | Resume(placement=placement):
                started = replace(workload, state=State.RUNNING, placement=placement, started_at=self._now)
                self._start(replace(started, reserved=(), nominated=False))
            case Evict():
                self._stop(workload)
            case Reserve(placement=place, nominated=nominated):
                self._put(replace(workload, reserved=place, nominated=nominated))
            case Grow(placement=more):
                self._put(replace(workload, placement=(*workload.placement, *more)))
            case Shrink(placement=less):
                self._put(without(workload, less))

    def _start(self, workload: Workload) -> None:
        """Let a workload run from now on; if it is training work, expect its end."""
        self._put(workload)
        self.started.setdefault(workload.id, self._now)
        if workload.kind is Kind.TRAINING:
            done = Seconds(self._done.get(workload.id, 0.0))
            self._expect_end(workload, self._expected_duration(workload, done) - done)

    def _stop(self, workload: Workload) -> None:
        """Stop a workload: training work goes back to its queue with what it has done; a notebook is removed."""
        self._runs[workload.id] = self._runs.get(workload.id, 0) + 1
        if workload.kind is Kind.NOTEBOOK:
            self._remove(workload.id)
            return
        if workload.started_at is not None:
            self._done[workload.id] = self._done.get(workload.id, 0.0) + max(0.0, self._now - workload.started_at)
        self._put(replace(_queued(workload), requeued_at=self._now))


def _queued(workload: Workload) -> Workload:
    """Return the workload as it waits in its queue: pending, without devices, start or stop."""
    return replace(
        workload, state=State.PENDING, placement=(), leaving=(), started_at=None, stop=None, stale_since=None
    )
