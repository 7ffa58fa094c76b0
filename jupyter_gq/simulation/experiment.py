"""The waiting experiments: the same jobs under the product's policy, under static quotas, and in one line.

Every policy gets the jobs that all of them can run at all (`runnable`), and is measured in the same way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.policy import Policy

from .baselines import Fifo, PooledFifo
from .core import Core
from .figures import Outcome, outcome
from .history import GuaranteeClock, Timeline
from .replay import Costs, SchedulingPolicy, Watch, replay
from .trace import Job, in_whole_devices, nodes_of, queues_of, scaled


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The GPUs of a replay."""

    gpus: int
    #: All nodes have so many but the last, which has what is left.
    per_node: int = 8

    @property
    def milli(self) -> MilliGpu:
        """All of it."""
        return MilliGpu(self.gpus * ONE_GPU)

    def holds(self, request: Request, tasks: int) -> bool:
        """That many tasks fit when it is empty."""
        if request.devices == 0:
            return True
        whole, rest = divmod(self.gpus, self.per_node)
        per_device = ONE_GPU // request.milli_per_device
        fit = whole * (self.per_node // request.devices) + rest // request.devices
        return fit * per_device >= tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Runnable:
    """The jobs that every policy of a comparison can run, and how many others there are."""

    jobs: tuple[Job, ...]
    #: More than the pool ever has, or more than one of its nodes has for a task.
    above_pool: int
    #: More than the whole quota of their queue: under static quotas they would wait for ever.
    above_quota: int


def runnable(jobs: Iterable[Job], quotas: Mapping[str, MilliGpu], pool: Pool) -> Runnable:
    """Sort out what would wait for ever; `quotas` are those of the static comparison."""
    kept: list[Job] = []
    above_pool = above_quota = 0
    for job in jobs:
        if not pool.holds(job.request, job.tasks):
            above_pool += 1
        elif in_whole_devices([job])[0].milli > quotas[job.queue]:
            above_quota += 1
        else:
            kept.append(job)
    return Runnable(jobs=tuple(kept), above_pool=above_pool, above_quota=above_quota)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What an experiment may vary."""

    policy: Policy = field(default_factory=Policy)
    costs: Costs = field(default_factory=Costs)


def guaranteed(
    jobs: Sequence[Job],
    quotas: Mapping[str, MilliGpu],
    pool: Pool,
    settings: Settings,
    watch: Watch | None = None,
) -> Outcome:
    """The product's own cycle; the quotas are scaled to the pool and may be exceeded while GPUs are idle."""
    shares = scaled(quotas, pool.milli)
    core = Core(nodes_of(pool.gpus, pool.per_node), queues_of(shares), settings.policy)
    return _measure(jobs, core, shares, pool.milli, settings.costs, watch)


def static(
    jobs: Sequence[Job], quotas: Mapping[str, MilliGpu], *, backfill: bool = False, watch: Watch | None = None
) -> Outcome:
    """Each queue has only the GPUs of its quota, in whole devices, first come first served."""
    policy = Fifo(quotas, backfill=backfill)
    return _measure(in_whole_devices(jobs), policy, quotas, sum(quotas.values()), Costs(), watch)


def pooled(
    jobs: Sequence[Job],
    quotas: Mapping[str, MilliGpu],
    pool: Pool,
    *,
    backfill: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """All GPUs of the pool in one line, first come first served, shared by the thousandth; quotas count for nothing."""
    policy = PooledFifo(pool.milli, backfill=backfill)
    return _measure(jobs, policy, scaled(quotas, pool.milli), pool.milli, Costs(), watch)


def _measure(
    jobs: Sequence[Job],
    policy: SchedulingPolicy,
    quotas: Mapping[str, MilliGpu],
    milli: int,
    costs: Costs,
    watch: Watch | None,
) -> Outcome:
    clock, timeline = GuaranteeClock(quotas), Timeline(quotas)
    courses = replay(jobs, policy, costs, (clock, timeline), watch)
    return outcome(courses, milli, clock.delays, timeline.allocated(), timeline.waiting())
