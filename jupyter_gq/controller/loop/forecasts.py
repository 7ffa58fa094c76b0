"""When will a waiting job start? Learns from what ran and from how its own forecasts turned out.

Rules
-----
1. A forecast is made beside the loop, in a thread on a frozen snapshot, so that no step waits for it; only durations
   learnt meanwhile count at once. It is bounded, and made anew not more often than `EVERY`, while anybody waits.
2. While much happens it would be old before it is made: it waits until nothing begins or ends, but not for long.
3. The first forecast of each wait is held against the start that follows; what comes out of it outlives a restart.
4. Only jobs that ran through in one run and succeeded say how long jobs run.

See docs/decisions/0053-no-start-time-for-notebooks.md.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from jupyter_gq.client.models import ExpectedStart
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.simulation.calibration import WaitRange
from jupyter_gq.simulation.forecast import Horizon, forecast
from jupyter_gq.simulation.forecaster import Forecaster

log = logging.getLogger(__name__)

EVERY = Seconds(10)
#: So long a step in which nothing begins or ends is waited for.
PATIENCE = Seconds(30)
#: The oldest waiting jobs get a forecast; looking further ahead would be guessing.
FORESEEN = 50
AHEAD = Horizon(ends=500)
#: Finished jobs that are read at the start.
HISTORY = 500
_SETTING = "forecast_outcomes"
#: Listeners hear of a forecast that moved by more than a minute and a fifth of what is left.
_MINUTE, _PART = 60.0, 0.2


class Forecasts:
    """Keeps `Context.expected_starts` and `Context.durations`."""

    def __init__(self, context: Context, mention: Callable[[str], None]) -> None:
        self._context, self._mention = context, mention
        #: Jobs that did not wait at the last look.
        self._begun: set[str] = set()
        self._revision = -1
        #: Something has changed since the last forecast, and when that was first seen.
        self._due_since: Instant | None = None
        self._due = asyncio.Event()
        remembered = context.store.setting(_SETTING) or {}
        self._forecaster = Forecaster((float(a), float(b)) for a, b in remembered.get("outcomes", []))
        for record in reversed(context.store.list(kind=Kind.TRAINING, limit=HISTORY)):
            self._learn_duration(record.workload)

    async def run(self) -> None:
        """Make them anew when it is time, until cancelled."""
        while True:
            await self._due.wait()
            try:
                await self.make()
            except Exception:  # the last guard of a loop: the next one may go well
                log.exception("no forecast could be made; it is tried again")
                self._due.set()  # also when nothing changes by which the next one would be due
            await asyncio.sleep(EVERY)

    def look(self, *, calm: bool) -> None:
        """Learn from what changed. `calm`: nothing happened in this step, and nothing is about to."""
        changed, now = self._context.records.revision != self._revision, self._context.clock.now()
        if changed:
            self._learn()
        if self._due_since is None and (changed or self._forecaster.told):
            self._due_since = now
        if self._due_since is not None and (calm or now >= self._due_since + PATIENCE):
            self._due.set()

    async def make(self) -> None:
        """Make them anew."""
        context, now = self._context, self._context.clock.now()
        self._due_since = None
        self._due.clear()
        jobs = (record.workload for record in context.records.live() if record.workload.kind is Kind.TRAINING)
        waiting = sorted(filter(_waits, jobs), key=lambda w: (w.submitted_at, w.id))
        if not waiting:
            return
        expected = await asyncio.to_thread(
            forecast,
            context.snapshot(),
            context.settings.policy,
            now,
            context.durations.expected,
            of=[workload.id for workload in waiting[:FORESEEN]],
            horizon=AHEAD,
        )
        still = [workload.id for workload in waiting[:FORESEEN] if self._waits_as_then(workload)]
        self._show(self._forecaster.tell({name: expected[name] for name in still}, now), now)

    def _waits_as_then(self, workload: Workload) -> bool:
        record = self._context.records.alive(workload.id)
        return record is not None and _waits(record.workload) and record.workload.run == workload.run

    def _show(self, ranges: Mapping[str, WaitRange], now: Instant) -> None:
        before = self._context.expected_starts
        after = {
            name: ExpectedStart(p50=now + found.p50, p90=now + found.p90, outcomes=found.outcomes)
            for name, found in ranges.items()
        }
        self._context.expected_starts = after
        for name in before.keys() | after.keys():
            if _moved(before.get(name), after.get(name), now):
                self._mention(name)

    # --- learning

    def _learn(self) -> None:
        context = self._context
        self._revision = context.records.revision
        before = self._begun
        begun = (record.workload for record in context.records.begun())
        self._begun = {workload.id for workload in begun if workload.kind is Kind.TRAINING}
        for name in before - self._begun:
            record = context.records.get(name)
            if record is not None:
                self._learn_duration(record.workload)
        if any([self._learn_start(name) for name in tuple(self._forecaster.told)]):
            context.store.put_setting(_SETTING, {"outcomes": self._forecaster.outcomes})

    def _learn_duration(self, workload: Workload) -> None:
        if workload.state is not State.SUCCEEDED or workload.run != 1:
            return
        if workload.started_at is not None and workload.finished_at is not None:
            self._context.durations.add(workload, Seconds(workload.finished_at - workload.started_at))

    def _learn_start(self, name: str) -> bool:
        """Hold what was told against what happened since; True when something was learnt."""
        record = self._context.records.alive(name)
        workload = None if record is None else record.workload
        if workload is not None and _waits(workload):
            return False
        self._context.expected_starts.pop(name, None)
        if workload is None or workload.started_at is None:
            self._forecaster.withdrawn(name)
            return False
        self._forecaster.started(name, workload.started_at)
        return True


def _waits(workload: Workload) -> bool:
    return workload.state is State.PENDING


def _moved(before: ExpectedStart | None, after: ExpectedStart | None, now: Instant) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after.p90 - before.p90) > max(_MINUTE, _PART * (after.p90 - now))
