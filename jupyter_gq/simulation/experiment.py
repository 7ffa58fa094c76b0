"""The waiting experiments: the same jobs under the product's policy, under static quotas, and in one line.

Every policy gets only the jobs that all policies can run (`runnable`), and is measured in the same way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.domain.amount import NO_MEMORY, ONE_GPU, MiB, MilliCpu, MilliGpu
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.policy import Policy

from .baselines import Fifo, PooledFifo
from .core import Core
from .figures import ReplayResult, summarize
from .history import GuaranteeClock, Timeline
from .replay import Costs, SchedulingPolicy, Watch, replay
from .trace import TraceJob, in_whole_devices, nodes_of, part_of, queues_of, scaled


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The GPUs of a replay, and the CPU and memory of their nodes."""

    gpus: int
    #: Devices of each node but the last, which has what is left.
    per_node: int = 8
    #: CPU and memory of a whole node; None = not counted.
    node_cpus: MilliCpu | None = None
    node_memory: MiB | None = None

    @property
    def milli(self) -> MilliGpu:
        """The milli-GPU of the whole pool."""
        return MilliGpu(self.gpus * ONE_GPU)

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of the pool without any work."""
        return nodes_of(self.gpus, self.per_node, cpu_milli=self.node_cpus, memory=self.node_memory)

    def holds(self, request: Request, tasks: int) -> bool:
        """Tell whether that many tasks of the request fit into the empty pool together."""
        whole, rest = divmod(self.gpus, self.per_node)
        fit = whole * self._on_node(self.per_node, request, tasks)
        return fit + (self._on_node(rest, request, tasks) if rest else 0) >= tasks

    def _on_node(self, devices: int, request: Request, tasks: int) -> int:
        """Return how many of the tasks fit on one empty node with so many devices."""
        bounds = [tasks]
        if request.devices:
            bounds.append(devices // request.devices * (ONE_GPU // request.milli_per_device))
        for there, needed in ((self.node_cpus, request.cpu_milli), (self.node_memory, request.memory)):
            has = part_of(there, devices, self.per_node)
            if has is not None and needed:
                bounds.append(has // needed)
        return min(bounds)


def as_counted(jobs: Iterable[TraceJob], pool: Pool) -> list[TraceJob]:
    """Return the jobs without the needs of CPU and memory that the pool does not count."""
    if pool.node_cpus is not None and pool.node_memory is not None:
        return list(jobs)
    return [replace(job, request=_counted(job.request, pool)) for job in jobs]


def _counted(request: Request, pool: Pool) -> Request:
    """Return the request without the needs of CPU or memory that the pool does not count."""
    return replace(
        request,
        cpu_milli=0 if pool.node_cpus is None else request.cpu_milli,
        memory=NO_MEMORY if pool.node_memory is None else request.memory,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Runnable:
    """The jobs that every policy of a comparison can run, and how many were left out."""

    jobs: tuple[TraceJob, ...]
    #: More than the pool ever has, or more than one of its nodes has for a task, of GPUs or of what is counted beside.
    above_pool: int
    #: More than the whole quota of their queue: under static quotas they would wait for ever.
    above_quota: int


def runnable(jobs: Iterable[TraceJob], quotas: Mapping[str, MilliGpu], pool: Pool) -> Runnable:
    """Return the jobs that no policy would leave waiting for ever, and count the others; `quotas` are the static ones.

    Raises `KeyError` for a job of a queue without a quota.
    """
    kept: list[TraceJob] = []
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
class ExperimentSettings:
    """The parameters of an experiment."""

    policy: Policy = field(default_factory=Policy)
    costs: Costs = field(default_factory=Costs)


def guaranteed(
    jobs: Sequence[TraceJob],
    quotas: Mapping[str, MilliGpu],
    pool: Pool,
    settings: ExperimentSettings,
    watch: Watch | None = None,
) -> ReplayResult:
    """Replay the jobs under the product's own cycle, and return the figures.

    Quotas are scaled to the pool and may be exceeded while GPUs are idle.
    """
    scaled_quotas = scaled(quotas, pool.milli)
    core = Core(pool.nodes(), queues_of(scaled_quotas), settings.policy)
    return _measure(jobs, core, scaled_quotas, pool.milli, settings.costs, watch)


def static(
    jobs: Sequence[TraceJob], quotas: Mapping[str, MilliGpu], *, backfill: bool = False, watch: Watch | None = None
) -> ReplayResult:
    """Replay the jobs with fixed quotas, and return the figures.

    Each queue has only the GPUs of its quota, in whole devices, and starts jobs in order. Pauses do not occur.
    """
    policy = Fifo(quotas, backfill=backfill)
    return _measure(in_whole_devices(jobs), policy, quotas, sum(quotas.values()), Costs(), watch)


def pooled(
    jobs: Sequence[TraceJob],
    quotas: Mapping[str, MilliGpu],
    pool: Pool,
    *,
    watch: Watch | None = None,
) -> ReplayResult:
    """Replay the jobs in one line on all GPUs of the pool, and return the figures.

    There are no quotas, jobs start in order, and GPUs are shared by the thousandth. `quotas` are only measured.
    """
    policy = PooledFifo(pool.milli)
    return _measure(jobs, policy, scaled(quotas, pool.milli), pool.milli, Costs(), watch)


def _measure(
    jobs: Sequence[TraceJob],
    policy: SchedulingPolicy,
    quotas: Mapping[str, MilliGpu],
    milli: int,
    costs: Costs,
    watch: Watch | None,
) -> ReplayResult:
    """Replay the jobs under the policy and return the figures; `quotas` are the guarantees that are measured."""
    clock, timeline = GuaranteeClock(quotas), Timeline(quotas)
    courses = replay(jobs, policy, costs, (clock, timeline), watch)
    return summarize(courses, milli, clock.delays, timeline.allocated(), timeline.waiting())
