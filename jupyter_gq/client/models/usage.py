"""The GPU use of a job over time."""

from pydantic import BaseModel, Field


class UnusedGpuView(BaseModel):
    """The finding that a running job has used no GPU for a while."""

    since: float = Field(description="Since when it is known for sure that no GPU was used.")
    sentence: str = Field(description="For how long, what the job holds, and what to do.")


class UsagePoint(BaseModel):
    """The GPU use of a job in one interval. Intervals in which nothing was known have no point."""

    at: float = Field(description="Beginning of the interval.")
    utilisation: float | None = Field(
        description="Mean of the samples, 0 to 100, each the highest of any process and device; None = unknown."
    )
    highest: int | None = Field(description="Highest utilisation of any sample; None = unknown.")
    memory_mib: int | None = Field(
        description="Highest device memory of all processes together, in MiB; None = unknown."
    )


class JobUsage(BaseModel):
    """The GPU use of a job in its last run, as far as this service has measured it."""

    run: int = Field(description="Number of the run; 0 = nothing was measured.")
    since: float | None = Field(
        default=None,
        description="First sample of the run since the start of the service; None = nothing was measured.",
    )
    seconds: float = Field(default=0, description="Length of each interval, which grows with the time of the run.")
    points: list[UsagePoint] = Field(default_factory=list, description="At most 120, in the order of time.")
    memory_limit_mib: int | None = Field(
        default=None, description="Device memory that the job may use on all of its devices; None = unknown."
    )
    sentence: str = Field(description="The newest figures in words, or why nothing is known.")
