"""When will a waiting job start? Learns from what ran and from how its own forecasts turned out.

Rules
-----
1. A forecast is made in a thread on a frozen snapshot, so that nobody waits for it; it is bounded, and made anew only
   when something changed and not more often than `EVERY`.
2. The first forecast of each wait is held against the start that follows; what comes out of it outlives a restart.
3. Only jobs that ran through in one run and succeeded say how long jobs run.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gq.client.models import ExpectedStart
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.simulation.calibration import Calibration
from jupyter_gq.simulation.forecast import Horizon, forecast

from .context import Context

EVERY = Seconds(10)
#: The oldest waiting jobs get a forecast; looking further ahead would be guessing.
FORESEEN = 50
AHEAD = Horizon(ends=500)
#: Finished jobs that are read at the start.
HISTORY = 500
_SETTING = "forecast_outcomes"
#: Listeners hear of a forecast that moved by more than a minute and a fifth of what is left.
_MINUTE, _PART = 60.0, 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """The first forecast of one wait."""

    at: Instant
    expected: Seconds
    run: int


class Forecasts:
    """Keeps `Context.expected_starts` and `Context.durations`."""

    def __init__(self, context: Context, mention: Callable[[str], None]) -> None:
        self._context, self._mention = context, mention
        self._calibration = Calibration()
        self._told: dict[str, _Told] = {}
        self._jobs: dict[str, Workload] = {}
        self._looked_at, self._revision = Instant(float("-inf")), -1
        remembered = context.store.setting(_SETTING) or {}
        self._calibration.remember((float(a), float(b)) for a, b in remembered.get("outcomes", []))
        for record in reversed(context.store.list(kind=Kind.TRAINING, limit=HISTORY)):
            self._learn_duration(record.workload)

    async def look(self) -> None:
        """Learn from what changed; make forecasts anew when it is time."""
        context, now = self._context, self._context.clock.now()
        if context.records.revision == self._revision and not self._told:
            return
        self._learn(now)
        waiting = sorted((w for w in self._jobs.values() if _waits(w)), key=lambda w: (w.submitted_at, w.id))
        if not waiting or now < self._looked_at + EVERY:
            return
        self._looked_at = now
        expected = await asyncio.to_thread(
            forecast,
            context.snapshot(),
            context.settings.policy,
            now,
            context.durations.expected,
            of=[workload.id for workload in waiting[:FORESEEN]],
            horizon=AHEAD,
        )
        for workload in waiting:
            self._tell(workload, expected.get(workload.id), now)

    def _tell(self, workload: Workload, expected: Seconds | None, now: Instant) -> None:
        starts, name = self._context.expected_starts, workload.id
        before = starts.pop(name, None)
        if expected is not None:
            self._told.setdefault(name, _Told(at=now, expected=expected, run=workload.run))
            late = [(told.expected, Seconds(now - told.at)) for told in self._told.values()]
            found = self._calibration.range(expected, late)
            starts[name] = ExpectedStart(p50=now + found.p50, p90=now + found.p90, outcomes=found.outcomes)
        if _moved(before, starts.get(name), now):
            self._mention(name)

    # --- learning

    def _learn(self, now: Instant) -> None:
        context = self._context
        self._revision = context.records.revision
        before = self._jobs
        live = (record.workload for record in context.records.live())
        self._jobs = {workload.id: workload for workload in live if workload.kind is Kind.TRAINING}
        for name in before.keys() - self._jobs.keys():
            record = context.records.get(name)
            if record is not None:
                self._learn_duration(record.workload)
        outcomes = [self._outcome(name, told, now) for name, told in tuple(self._told.items())]
        if any(outcomes):
            context.store.put_setting(_SETTING, {"outcomes": self._calibration.outcomes()})

    def _learn_duration(self, workload: Workload) -> None:
        if workload.state is not State.SUCCEEDED or workload.run != 1:
            return
        if workload.started_at is not None and workload.finished_at is not None:
            self._context.durations.add(workload, Seconds(workload.finished_at - workload.started_at))

    def _outcome(self, name: str, told: _Told, now: Instant) -> bool:
        """Hold a forecast against what happened; False while it still waits, or when it never started."""
        workload = self._jobs.get(name)
        if workload is not None and _waits(workload) and workload.run == told.run:
            return False
        del self._told[name]
        self._context.expected_starts.pop(name, None)
        if workload is None or workload.run == told.run:
            return False  # cancelled before it started
        started = workload.started_at if workload.started_at is not None else now
        self._calibration.add(told.expected, Seconds(max(0.0, started - told.at)))
        return True


def _waits(workload: Workload) -> bool:
    return workload.state is State.PENDING


def _moved(before: ExpectedStart | None, after: ExpectedStart | None, now: Instant) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after.p90 - before.p90) > max(_MINUTE, _PART * (after.p90 - now))
