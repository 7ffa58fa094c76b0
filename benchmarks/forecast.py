"""How often the stated range of a start holds, on a trace: `python -m benchmarks.forecast --trace FILE`.

The trace is replayed under the product's own cycle. Every so often each job that waits, and has not been told yet, is
told when it will probably start, from nothing but what is known at that moment: what runs and waits, how long earlier
jobs ran, how earlier forecasts turned out. Then its actual start is held against that.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.core import Core, workload_of
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.simulation.experiment import Pool, runnable
from jupyter_gq.simulation.forecast import Horizon, forecast
from jupyter_gq.simulation.forecaster import Forecaster, StatedForecast
from jupyter_gq.simulation.replay import Move, Start, replay
from jupyter_gq.simulation.trace import TraceJob, queues_of, scaled

from .table import Row, parser, show
from .traces import add_trace_options, read

#: Of those who are told a range, so many should start inside it, and before each end of it.
INSIDE, BEFORE_P50, BEFORE_P90 = 40.0, 50.0, 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What was told, and how long it then took."""

    told: StatedForecast
    actual: float

    @property
    def inside(self) -> bool:
        """It started inside the range."""
        return self.told.range.p50 < self.actual <= self.told.range.p90


@dataclass(kw_only=True)
class Foretelling:
    """The product's policy of a replay, which also tells those who wait when they will start."""

    core: Core
    #: Seconds between two rounds of telling.
    every: float
    horizon: Horizon
    durations: Durations = field(default_factory=Durations)
    forecaster: Forecaster = field(default_factory=Forecaster)
    outcomes: list[Outcome] = field(default_factory=list)
    #: Jobs that were waiting at a round of telling, and of which nothing could be seen.
    unseen: set[str] = field(default_factory=set)
    _next: float = 0.0

    def submitted(self, job: TraceJob) -> None:
        """It waits from now on."""
        self.core.submitted(job)

    def ended(self, job: TraceJob) -> None:
        """Its duration is known from now on."""
        self.durations.add(workload_of(job), job.duration)
        self.core.ended(job)

    def decide(self, now: Instant) -> Sequence[Move]:
        """As the core decides; then tell whoever waits."""
        moves = self.core.decide(now)
        for move in moves:
            if isinstance(move, Start):
                told = self.forecaster.record_start(move.job, now)
                if told is not None:
                    self.outcomes.append(Outcome(told=told, actual=now - told.at))
        if not moves and now >= self._next:
            self._next = now + self.every
            self._tell(now)
        return moves

    def wake_at(self, now: Instant) -> Instant | None:
        """As the core."""
        return self.core.wake_at(now)

    def _tell(self, now: Instant) -> None:
        snapshot = self.core.snapshot()
        waiting = [w.id for w in snapshot.workloads if not w.holds and w.id not in self.forecaster.stated]
        if waiting:
            expected = forecast(
                snapshot, self.core.policy, now, self.durations.expected, of=waiting, horizon=self.horizon
            )
            self.forecaster.state_ranges(expected, now)
            self.unseen |= {name for name, wait in expected.items() if wait is None}


def main(argv: list[str] | None = None) -> int:
    """Run it; print the table."""
    options = parser(__doc__ or "")
    add_trace_options(options, quota_needed=False)
    options.add_argument("--every", type=float, default=3600, help="seconds of the trace between two rounds of telling")
    options.add_argument("--ends", type=int, default=3000, help="how many ends of runs a forecast looks ahead")
    arguments = options.parse_args(argv)
    workload, gpus = read(arguments)
    pool = Pool(gpus=gpus)
    jobs = runnable(workload.jobs, workload.quotas, pool).jobs
    shares = scaled(workload.quotas, pool.milli)
    teller = Foretelling(
        core=Core(pool.nodes(), queues_of(shares), Policy()),
        every=arguments.every,
        horizon=Horizon(within=Seconds(14 * 24 * 3600), ends=arguments.ends),
    )
    replay(jobs, teller)
    name = arguments.trace.name
    return show(f"Forecasts of starts: {name}, {gpus} GPUs", rows(name, teller), arguments.json)


def rows(case: str, teller: Foretelling) -> list[Row]:
    """The figures; those that rest on a guess (the first few) are not counted."""
    stated = [outcome for outcome in teller.outcomes if outcome.told.range.outcomes]
    guesses = len(teller.outcomes) - len(stated)

    def percent(figure: str, values: Sequence[bool], goal: float | None) -> Row:
        share = 100 * sum(values) / len(values) if values else 0.0
        return Row(case=case, figure=figure, unit="%", ours=share, goal=goal, wants="more")

    widths = sorted(o.told.range.p90 - o.told.range.p50 for o in stated)
    actual = sorted(o.actual for o in stated)
    return [
        percent("inside", [o.inside for o in stated], INSIDE),
        percent("by p50", [o.actual <= o.told.range.p50 for o in stated], BEFORE_P50),
        percent("by p90", [o.actual <= o.told.range.p90 for o in stated], BEFORE_P90),
        Row(case=case, figure="told", unit="jobs", ours=len(stated)),
        Row(case=case, figure="guessed", unit="jobs", ours=guesses),
        Row(case=case, figure="not seen", unit="jobs", ours=len(teller.unseen)),
        Row(case=case, figure="width p50", unit="s", ours=widths[len(widths) // 2] if widths else 0),
        Row(case=case, figure="wait p50", unit="s", ours=actual[len(actual) // 2] if actual else 0),
    ]


if __name__ == "__main__":
    sys.exit(main())
