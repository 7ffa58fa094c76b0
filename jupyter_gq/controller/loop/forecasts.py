"""Forecasts of when waiting jobs start, which learn from finished jobs and from how earlier forecasts turned out.

Rules
-----
Beside the loop: a forecast is made in a thread on a frozen snapshot, so that no step waits for it. Only durations that
are learnt meanwhile count at once. A forecast is bounded, and made again at most every `EVERY` seconds while a job
waits.

Calm moments: while much happens, a forecast would be old before it is made. So it is made in a calm moment, but
not much later.

Previews: a forecast for a job that has not been sent is bounded more tightly, since its owner waits for the answer. No
start is compared with it.

Outcomes: the first forecast of each wait is compared with the start that follows. The outcomes outlive a restart. A
jump of the clock is no part of a wait.

Durations: only jobs that succeeded in one run say how long jobs run. No job runs longer than its maximum running time.

See docs/decisions/0053-no-start-time-for-notebooks.md.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from jupyter_gq.client.models import ExpectedStart
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.run_time_limits import find_run_time_limit
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.simulation.calibration import WaitRange
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.simulation.forecast import Horizon, forecast
from jupyter_gq.simulation.forecaster import Forecaster
from jupyter_gq.store.protocol import PageSize

from .beside import run_every

EVERY = Seconds(10)
#: The longest time for which a forecast waits for a step in which nothing begins or ends.
LONGEST_DELAY = Seconds(30)
#: Number of jobs that get a forecast, the oldest first; a forecast for more would be a guess.
FORESEEN = 50
#: The bound of a forecast.
AHEAD = Horizon(ends=500)
#: The bound of a forecast for a preview.
_AHEAD_OF_PREVIEW = Horizon(ends=100)
#: Number of finished jobs whose durations are read at the start.
HISTORY = 500
#: Name of the stored document with the outcomes of forecasts.
_SETTING = "forecast_outcomes"
#: Listeners are told of a forecast that moved by more than a minute and by more than a fifth of the time that is left.
_MINUTE, _PART = 60.0, 0.2


class Forecasts:
    """The forecasts and durations that requests read from `Context.expected_starts` and `Context.durations`."""

    def __init__(self, context: Context, announce: Callable[[str], None]) -> None:
        """Read the durations of finished jobs and the outcomes of earlier forecasts from the store.

        `announce` tells the listeners of a job that its view has changed.
        """
        self._context, self._announce = context, announce
        #: Jobs that held devices at the last update.
        self._holding: set[str] = set()
        #: Revision of the records at the last update.
        self._revision = -1
        #: When a change since the last forecast was first seen, in seconds awake; None = nothing has changed.
        self._due_since: float | None = None
        self._due = asyncio.Event()
        remembered = context.store.setting(_SETTING) or {}
        self._forecaster = Forecaster((float(a), float(b)) for a, b in remembered.get("outcomes", []))
        for record in reversed(context.store.list(PageSize(entries=HISTORY), kind=Kind.TRAINING)):
            self._learn_duration(record.workload)

    async def run(self) -> None:
        """Make forecasts whenever they are due, at most every `EVERY` seconds, until cancelled."""
        await run_every(EVERY, "the making of forecasts", self._make_due, self._context.failures)

    async def _make_due(self) -> None:
        """Wait until a forecast is due, and make it. A forecast that fails stays due."""
        await self._due.wait()
        try:
            await self.make()
        except Exception:
            self._due.set()  # also if nothing changes that would make the next forecast due
            raise

    def update(self, *, calm: bool) -> None:
        """Learn from records that changed; make a wanted forecast due in a calm moment, or after `LONGEST_DELAY`.

        A forecast is wanted after a change, and as long as a job has one. `calm` says that nothing happened in this
        step, and that nothing is about to happen.
        """
        changed, now = self._context.records.revision != self._revision, self._context.clock.awake()
        if changed:
            self._learn()
        if self._due_since is None and (changed or self._forecaster.stated):
            self._due_since = now
        if self._due_since is not None and (calm or now >= self._due_since + LONGEST_DELAY):
            self._due.set()

    async def make(self) -> None:
        """Forecast when the `FORESEEN` oldest pending jobs start, and publish the forecasts of those that still wait.

        The computation runs in a thread. Does nothing if no job waits.
        """
        context, now = self._context, self._context.clock.now()
        self._due_since = None
        self._due.clear()
        snapshot = context.snapshot()
        jobs = (workload for workload in snapshot.workloads if workload.kind is Kind.TRAINING)
        waiting = sorted(filter(_waits, jobs), key=lambda w: w.submission)
        if not waiting:
            return
        expected = await asyncio.to_thread(
            forecast,
            snapshot,
            context.settings.policy,
            now,
            partial(_expect_duration, context.durations, context.settings),
            of=[workload.id for workload in waiting[:FORESEEN]],
            horizon=AHEAD,
        )
        still = [workload.id for workload in waiting[:FORESEEN] if self._still_waits(workload)]
        self._publish(self._forecaster.state_ranges({name: expected[name] for name in still}, now), now)

    async def foresee(self, workload: Workload) -> ExpectedStart | None:
        """Return when a workload that has not been sent would probably start; None if that cannot be foreseen.

        The computation runs in a thread.
        """
        context, now = self._context, self._context.clock.now()
        snapshot, workload = context.snapshot(), context.with_elasticity(workload)
        expected = await asyncio.to_thread(
            forecast,
            replace(snapshot, workloads=(*snapshot.workloads, workload)),
            context.settings.policy,
            now,
            partial(_expect_duration, context.durations, context.settings),
            of=[workload.id],
            horizon=_AHEAD_OF_PREVIEW,
        )
        wait = expected[workload.id]
        return None if wait is None else _make_expected_start(self._forecaster.range_of(wait, now), now)

    def _still_waits(self, workload: Workload) -> bool:
        """Return whether the workload is still pending, without a run since `workload` was read."""
        record = self._context.records.find_unfinished(workload.id)
        return record is not None and _waits(record.workload) and record.workload.run == workload.run

    def _publish(self, ranges: Mapping[str, WaitRange], now: Instant) -> None:
        """Replace all expected starts by these ranges after `now`, and announce jobs whose expected start has moved."""
        before = self._context.expected_starts
        after = {name: _make_expected_start(found, now) for name, found in ranges.items()}
        self._context.expected_starts = after
        for name in before.keys() | after.keys():
            if _moved(before.get(name), after.get(name), now):
                self._announce(name)

    # --- learning

    def move(self, seconds: float) -> None:
        """Move what is remembered of waits that last, and what was told of them, by a jump of the clock."""
        self._forecaster.move(seconds)
        told = self._context.expected_starts
        self._context.expected_starts = {
            name: each.model_copy(update={"p50": each.p50 + seconds, "p90": each.p90 + seconds})
            for name, each in told.items()
        }

    def _learn(self) -> None:
        """Learn durations from jobs that ended and outcomes from jobs that started; store new outcomes.

        The forecasts of jobs that wait no more are dropped.
        """
        context = self._context
        self._revision = context.records.revision
        before = self._holding
        holding = (record.workload for record in context.records.holding())
        self._holding = {workload.id for workload in holding if workload.kind is Kind.TRAINING}
        for name in before - self._holding:
            record = context.records.get(name)
            if record is not None:
                self._learn_duration(record.workload)
        if any([self._learn_start(name) for name in tuple(self._forecaster.stated)]):
            context.store.put_setting(_SETTING, {"outcomes": self._forecaster.outcomes})

    def _learn_duration(self, workload: Workload) -> None:
        """Add the duration of a job to the known ones, if the job succeeded in its first run."""
        if workload.state is not State.SUCCEEDED or workload.run != 1:
            return
        if workload.started_at is not None and workload.finished_at is not None:
            self._context.durations.add(workload, Seconds(workload.finished_at - workload.started_at))

    def _learn_start(self, name: str) -> bool:
        """Compare the first forecast of a wait with the start that ended it; return True if there was a start.

        Returns False if the job still waits, or if it ended without a start; in the second case its forecast is
        dropped.
        """
        record = self._context.records.find_unfinished(name)
        workload = None if record is None else record.workload
        if workload is not None and _waits(workload):
            return False
        self._context.expected_starts.pop(name, None)
        if workload is None or workload.started_at is None:
            self._forecaster.forget_withdrawn(name)
            return False
        self._forecaster.record_start(name, workload.started_at)
        return True


def _expect_duration(durations: Durations, settings: Settings, workload: Workload, elapsed: Seconds) -> Seconds:
    """Return the seconds that a run will probably last in all, at most those that its job may still run."""
    expected, limit = durations.expected(workload, elapsed), find_run_time_limit(settings, workload)
    return expected if limit is None else Seconds(min(expected, max(0.0, limit.seconds - workload.ran)))


def _make_expected_start(found: WaitRange, now: Instant) -> ExpectedStart:
    """Return the wire form of the range of a wait from `now` on."""
    return ExpectedStart(p50=now + found.p50, p90=now + found.p90, outcomes=found.outcomes)


def _waits(workload: Workload) -> bool:
    return workload.state is State.PENDING


def _moved(before: ExpectedStart | None, after: ExpectedStart | None, now: Instant) -> bool:
    """Return whether an expected start has appeared, gone, or moved enough to be announced.

    Enough is more than a minute, and more than a fifth of the time that is left; the later end of the range (p90)
    counts.
    """
    if before is None or after is None:
        return before is not after
    return abs(after.p90 - before.p90) > max(_MINUTE, _PART * (after.p90 - now))
