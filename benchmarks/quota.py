"""The waiting experiments: guaranteed quotas on fewer GPUs, beside static quotas with all GPUs of the quota file.

`peer` is static quotas, first come first served, whole devices, all GPUs of the quota file; in the figures that end in
"pooled", one line for everybody on the same pool. Both are run in the same call on the same jobs. Rows of queues that
the quota file does not name are left out; the quotas are scaled to the pool. A wait is all the time that a job was
there and did not run, also while paused. The processor time of the replay is printed with the table.
"""

import sys
import time
from collections.abc import Callable

from benchmarks.table import Row, parser, show
from benchmarks.traces import add_trace_options, read
from jupyter_gq.domain.amount import MilliGpu, Seconds
from jupyter_gq.planning.progress import ProgressLine
from jupyter_gq.planning.traces import TraceSetup
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.simulation.experiment import ExperimentSettings, Pool, guaranteed, pooled, runnable, static
from jupyter_gq.simulation.figures import ReplayResult
from jupyter_gq.simulation.replay import Costs
from jupyter_gq.simulation.trace import scaled

FIGURES: dict[str, tuple[str, Callable[[ReplayResult], float]]] = {
    "mean wait s": ("s", lambda o: o.total.mean_wait),
    "p95 wait s": ("s", lambda o: o.total.p95_wait),
    "mean completion s": ("s", lambda o: o.total.mean_completion),
    "used %": ("%", lambda o: o.used_percent),
    "guarantee p99 s": ("s", lambda o: o.total.guarantee_p99),
    "lost %": ("%", lambda o: o.total.lost_percent),
}
#: Ends the name of a figure whose peer is one line for everybody.
POOLED = ", pooled"
#: What every trace should reach; where no goal was set for a case, also the mean wait of static quotas.
GOALS = {"guarantee p99 s": 60.0, "lost %": 1.0}
#: The goals that were set for cases, by quota file and pool.
SET_GOALS = {
    ("helios_earth_2020_05_quota.csv", 642): {"mean wait s": 1250.0},
    ("helios_team5_quota.csv", 48): {"used %": 70.0},
    ("openb2023_35d_quota.csv", 46): {"mean wait s": 17.0},
}
SMALLEST = {"helios_team5_quota.csv": 54.0, "openb2023_35d_quota.csv": 46.0}


def main(argv: list[str] | None = None) -> int:
    """Run it; print the table."""
    options = parser(__doc__ or "")
    add_trace_options(options)
    options.add_argument("--nodes-of", type=int, default=8, help="GPUs of each node (default: %(default)s)")
    options.add_argument("--policy", type=PlacementStrategy, help="placement (default: that of `jupyter-gq simulate`)")
    options.add_argument("--lost-per-pause", type=float, default=60.0, help="seconds (default: %(default)g)")
    options.add_argument(
        "--smallest",
        type=float,
        nargs="?",
        const=-1.0,
        metavar="SECONDS",
        help="also go down from that pool (up, if it is too small) to the smallest with a mean wait of at most that "
        "(default: that of static quotas)",
    )
    arguments = options.parse_args(argv)
    workload, gpus = read(arguments)
    if gpus < 1 or arguments.nodes_of < 1:
        print("--gpus and --nodes-of: expected 1 or more", file=sys.stderr)
        return 2
    policy = Policy() if arguments.policy is None else Policy(placement=arguments.policy, fraction_placement=None)
    settings = ExperimentSettings(policy=policy, costs=Costs(lost_per_pause=Seconds(arguments.lost_per_pause)))
    experiment = Experiment(workload, Pool(gpus=gpus, per_node=arguments.nodes_of), settings, arguments.quota.name)
    rows = experiment.rows(arguments.trace.name)
    if arguments.smallest is not None:
        rows.append(experiment.smallest(None if arguments.smallest < 0 else arguments.smallest))
    status = show(f"Waiting: {arguments.trace.name}, {arguments.quota.name}", rows, arguments.json)
    print(f"\n  {experiment.told()}")
    return status


class Experiment:
    """One trace on one pool."""

    def __init__(self, workload: TraceSetup, pool: Pool, settings: ExperimentSettings, quota_file: str) -> None:
        self._workload, self._pool, self._settings, self._quota_file = workload, pool, settings, quota_file
        self._runnable = runnable(workload.jobs, workload.quotas, pool)
        self._seconds = 0.0
        self._static_wait = 0.0

    @property
    def _quotas(self) -> dict[str, MilliGpu]:
        return self._workload.quotas

    def rows(self, trace: str) -> list[Row]:
        """Ours beside each of the two others."""
        began = time.process_time()
        ours = self._ours(self._pool)
        self._seconds = time.process_time() - began
        before = self._static(self._quotas)
        line = pooled(self._runnable.jobs, self._quotas, self._pool)
        self._static_wait = before.total.mean_wait
        equal = {"mean wait s": self._static_wait}
        goals = GOALS | SET_GOALS.get((self._quota_file, self._pool.gpus), equal)
        case = f"{trace.split('.')[0][:26]}, {self._pool.gpus} GPUs"
        return [
            Row(
                case=case,
                figure=figure + suffix,
                unit=unit,
                ours=value(ours),
                peer=value(peer),
                goal=goals.get(figure),
                wants="more" if figure == "used %" else "less",
            )
            for suffix, peer in (("", before), (POOLED, line))
            for figure, (unit, value) in FIGURES.items()
        ]

    def smallest(self, wait: float | None) -> Row:
        """The smallest pool on which the mean wait is at most `wait`, under guaranteed and under static quotas."""
        most = self._static_wait if wait is None else wait
        ours = _least(self._pool.gpus, lambda gpus: self._holds(Pool(gpus=gpus, per_node=self._pool.per_node), most))
        total = sum(self._quotas.values()) // 1000
        theirs = _least(total, lambda gpus: self._static_holds(scaled(self._quotas, MilliGpu(gpus * 1000)), most))
        case = f"smallest pool with a mean wait of {most:.4g} s"
        goal = SMALLEST.get(self._quota_file)
        return Row(case=case, figure="GPUs", unit="GPUs", ours=ours, peer=theirs, goal=goal)

    def told(self) -> str:
        """What was left out, and how much processor time ours took."""
        found = self._runnable
        return (
            f"static quotas have {sum(self._quotas.values()) / 1000:g} GPUs; {len(found.jobs)} jobs in "
            f"{self._seconds:.0f} s of CPU time; left out: {sum(self._workload.without_quota.values())} of queues "
            f"without a quota, {found.above_pool} above the pool, {found.above_quota} above their queue's whole quota"
        )

    def _ours(self, pool: Pool) -> ReplayResult:
        progress = ProgressLine(f"{pool.gpus} GPUs")
        try:
            return guaranteed(self._runnable.jobs, self._quotas, pool, self._settings, progress)
        finally:
            progress.clear()

    def _static(self, quotas: dict[str, MilliGpu]) -> ReplayResult:
        return static(self._runnable.jobs, quotas)

    def _holds(self, pool: Pool, most: float) -> bool:
        if any(not pool.holds(job.request, job.tasks) for job in self._runnable.jobs):
            return False
        return self._ours(pool).total.mean_wait <= most

    def _static_holds(self, quotas: dict[str, MilliGpu], most: float) -> bool:
        found = runnable(self._runnable.jobs, quotas, self._pool)
        return not found.above_quota and self._static(quotas).total.mean_wait <= most


def _least(first: int, holds: Callable[[int], bool]) -> int:
    """The smallest number that holds with all above it, up to the first one from `first` on that does."""
    number = first
    while not holds(number):
        number += 1
    while number > 1 and holds(number - 1):
        number -= 1
    return number


if __name__ == "__main__":
    sys.exit(main())
