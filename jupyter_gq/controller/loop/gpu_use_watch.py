"""The record of how running jobs use their GPUs, and of those that use none.

Rules
-----
- One reading: the samples are those by which idleness is judged, at most one in five seconds.
- Full window: a job is told to use no GPU only if its use was known for the whole time. After a gap without samples, or
  a restart of the service, that time begins anew. A gap is longer than `IdleRule.fresh`: a sample covers the seconds
  before.
- Only told: nothing happens to the job.

See docs/decisions/0152-keep-the-use-of-jobs-in-memory-and-fold-it.md and
docs/decisions/0153-tell-the-owner-of-a-job-that-uses-no-gpu.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from jupyter_gq.controller.context import Context
from jupyter_gq.controller.gpu_use import UnusedGpu, UseSeries
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, RunKey, Workload

#: Jobs that do not run any more whose series are kept.
KEPT = 200
#: Per cent of a simulated GPU up to which there is no use: the figure is the CPU use of all processes of the job.
SIMULATED_NOISE = 5


class GpuUseWatch:
    """The recorder of the GPU use of all running jobs."""

    def __init__(self, context: Context, announce: Callable[[str], None]) -> None:
        """Record what `context` has measured; `announce` sends the workload of an id to its listeners."""
        self._context, self._announce = context, announce
        self._recorded_at: Instant | None = None
        #: The time without use of each run, up to the last sample of known use.
        self._unused: dict[RunKey, UnusedGpu] = {}

    def record(self) -> None:
        """Add the last sample to the series of all running jobs, and announce each job that begins or ends to be idle.

        Does nothing if there was no new sample.
        """
        context = self._context
        if context.usage_at is None or context.usage_at == self._recorded_at:
            return
        self._recorded_at = now = context.usage_at
        running = {(each.id, each.run): each for each in self._running_jobs()}
        for (name, run), workload in running.items():
            self._add_sample(name, run, workload, now)
        self._unused = {key: found for key, found in self._unused.items() if key in running}
        self._drop_old_series({name for name, _ in running})
        self._tell(running, now)

    def _running_jobs(self) -> list[Workload]:
        """Return the running jobs with a GPU."""
        workloads = (record.workload for record in self._context.records.holding())
        return [
            each
            for each in workloads
            if each.kind is Kind.TRAINING and each.state is State.RUNNING and each.request.devices
        ]

    def _add_sample(self, name: str, run: int, workload: Workload, now: Instant) -> None:
        """Add the last sample of a job to its series, and to the time without use."""
        context, use = self._context, self._context.job_use(workload)
        if use is None:
            return
        if context.use_series.get(name, (0, None))[0] != run:
            context.use_series.pop(name, None)  # so that the new series is the youngest one
            context.use_series[name] = (run, UseSeries(now))
        context.use_series[name][1].add(now, use.utilisation, use.memory)
        if use.utilisation is None:
            return
        before = self._unused.get((name, run))
        if use.utilisation > _most_noise(workload):
            self._unused.pop((name, run), None)
        elif before is None or now - before.known_at > context.settings.policy.idle.fresh:
            self._unused[name, run] = UnusedGpu(since=now, known_at=now)
        else:
            self._unused[name, run] = replace(before, known_at=now)

    def _tell(self, running: Mapping[RunKey, Workload], now: Instant) -> None:
        """Store which jobs use no GPU for too long, and announce the jobs of which that has changed."""
        settings, before = self._context.settings, self._context.unused
        after, fresh = settings.unused_after, settings.policy.idle.fresh
        self._context.unused = {
            name: found
            for (name, _), found in self._unused.items()
            if after is not None and found.seconds >= after and now - found.known_at <= fresh
        }
        names = {name for name, _ in running}
        for name in sorted(names & (before.keys() ^ self._context.unused.keys())):
            self._announce(name)

    def _drop_old_series(self, running: set[str]) -> None:
        """Drop the oldest series of jobs that do not run any more, so that at most `KEPT` of them are left."""
        series = self._context.use_series
        ended = [name for name in series if name not in running]
        for name in ended[: max(0, len(ended) - KEPT)]:
            del series[name]


def _most_noise(workload: Workload) -> int:
    """Return the highest utilisation of a job's devices that counts as no use."""
    devices = [device for task in workload.placement for device in task.devices]
    return SIMULATED_NOISE if any(map(is_simulated, devices)) else 0
