"""What holds for every replay, over random small traces."""

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.simulation.baselines import Fifo, PooledFifo
from jupyter_gq.simulation.core import Core
from jupyter_gq.simulation.experiment import Pool, runnable
from jupyter_gq.simulation.history import GuaranteeClock, Timeline
from jupyter_gq.simulation.replay import Costs, replay
from jupyter_gq.simulation.trace import TraceJob, queues_of, scaled

QUOTAS = {"a": MilliGpu(2000), "b": MilliGpu(3000), "c": MilliGpu(1000)}


@st.composite
def jobs(draw: st.DrawFn) -> list[TraceJob]:
    requests = st.one_of(
        st.sampled_from((100, 300, 500, 810)).map(lambda m: Request(devices=1, milli_per_device=MilliGpu(m))),
        st.integers(1, 3).map(lambda n: Request(devices=n)),
    )
    return [
        TraceJob(
            id=f"j{number:02d}",
            queue=draw(st.sampled_from("abc")),
            owner="",
            submitted=Instant(draw(st.integers(0, 20)) * 10.0),
            duration=Seconds(draw(st.integers(0, 300))),
            request=draw(requests),
            tasks=draw(st.sampled_from((1, 1, 1, 2))),
        )
        for number in range(draw(st.integers(1, 14)))
    ]


class NeverMoreThanThereIs:
    """An observer that adds up what is held and what waits."""

    def __init__(self, milli: int) -> None:
        self.milli, self.held, self.waiting = milli, 0, 0
        self.ends: Counter[str] = Counter()

    def queued(self, job, now):
        self.waiting += 1

    def started(self, job, now):
        self.waiting -= 1
        self.held += job.milli

    def stopped(self, job, now):
        self.held -= job.milli

    def settled(self, now):
        assert 0 <= self.held <= self.milli
        assert self.waiting >= 0


@settings(max_examples=80, deadline=None, derandomize=True)
@given(jobs(), st.sampled_from(("pack", "spread", "fifo", "backfill", "pooled")), st.sampled_from((0, 60)))
def test_safety_every_job_runs_to_its_end_once_and_no_gpu_second_appears_or_is_missing(trace, name, lost):
    pool = Pool(gpus=6, per_node=4)
    trace = runnable(trace, QUOTAS, pool).jobs
    policy = {
        "pack": lambda: _core(pool, PlacementStrategy.PACK),
        "spread": lambda: _core(pool, PlacementStrategy.SPREAD),
        "fifo": lambda: Fifo(QUOTAS),
        "backfill": lambda: Fifo(QUOTAS, backfill=True),
        "pooled": lambda: PooledFifo(pool.milli),
    }[name]()
    law, clock, timeline = NeverMoreThanThereIs(pool.milli), GuaranteeClock(QUOTAS), Timeline(QUOTAS)
    courses = replay(trace, policy, Costs(lost_per_pause=Seconds(lost)), (law, clock, timeline))
    assert (law.held, law.waiting) == (0, 0)
    assert [course.job for course in courses] == sorted(trace, key=lambda job: (job.submitted, job.id))
    for course in courses:
        ran = sum(end - start for start, end in course.runs)
        assert math.isclose(ran, course.job.duration + course.lost)
        assert 0 <= course.lost <= lost * course.pauses
        assert course.waited >= -1e-9
        assert course.runs[0][0] >= course.job.submitted
        assert all(end <= start for (_, end), (start, _) in zip(course.runs, course.runs[1:], strict=False))
    held = math.fsum(steps.integral(0, 1e6) for steps in timeline.allocated().values())
    work = math.fsum(course.job.milli * (course.job.duration + course.lost) for course in courses)
    assert math.isclose(held, work, abs_tol=1e-3)
    waited = math.fsum(steps.integral(0, 1e6) for steps in timeline.waiting().values())
    assert math.isclose(waited, math.fsum(c.job.milli * c.waited for c in courses), abs_tol=1e-3)
    assert all(delay >= 0 for delays in clock.delays.values() for delay in delays)


def _core(pool: Pool, placement: PlacementStrategy) -> Core:
    queues = queues_of(scaled(QUOTAS, pool.milli))
    return Core(pool.nodes(), queues, Policy(placement=placement))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(jobs())
def test_safety_the_same_trace_has_the_same_outcome(trace):
    pool = Pool(gpus=6, per_node=4)
    trace = runnable(trace, QUOTAS, pool).jobs
    runs = [
        [course.runs for course in replay(jobs, _core(pool, PlacementStrategy.PACK))] for jobs in (trace, trace[::-1])
    ]
    assert runs[0] == runs[1]
