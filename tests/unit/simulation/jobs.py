"""A trace in one line a job."""

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds, parse_quota, parse_request
from jupyter_gq.domain.workload import Request
from jupyter_gq.simulation.trace import TraceJob


def a_job(
    id: str, submitted: float, duration: float, gpus: str | float = 1, tasks: int = 1, queue: str = "a"
) -> TraceJob:
    """A job of queue `a`, unless said otherwise."""
    return TraceJob(
        id=id,
        queue=queue,
        owner="",
        submitted=Instant(submitted),
        duration=Seconds(duration),
        request=Request.of(parse_request(gpus)),
        tasks=tasks,
    )


def quotas(**gpus: str | float) -> dict[str, MilliGpu]:
    return {name: parse_quota(value) for name, value in gpus.items()}
