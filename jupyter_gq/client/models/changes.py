"""Changes of jobs that have not ended."""

from typing import Annotated, Self

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import Amount, Name
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.amount import LONGEST_TIME
from jupyter_gq.domain.queue import MAX_PRIORITY, MIN_PRIORITY

from .jobs import MOST_TASKS, JobSummary

#: The most jobs of one request, as of one page of a list.
MOST_JOBS = 500


class JobChange(StrictModel):
    """The fields of a job that are to change; those that are left out or null stay as they are."""

    held: bool | None = Field(
        default=None,
        description="True: the job does not run until it is released; if it runs, it is paused. False: it is released.",
    )
    queue: Name | None = Field(
        default=None,
        description="The job waits in this queue instead, at its old place by submission. Not while it runs.",
    )
    priority: int | None = Field(
        default=None,
        ge=MIN_PRIORITY,
        le=MAX_PRIORITY,
        description="Priority inside the queue, at most the `max_priority` of the queue; a higher priority goes first.",
    )
    gpus: Amount | None = Field(
        default=None,
        description='For each task: 0, a fraction such as "0.25", or a whole number. Not while the job runs.',
    )
    gpu_memory: Amount | None = Field(
        default=None,
        description="GPU memory of each task, instead of a number of GPUs: GiB as a number, or text such as "
        '"12 GiB". Not while the job runs.',
    )
    tasks: int | None = Field(
        default=None,
        ge=1,
        le=MOST_TASKS,
        description="Number of tasks. A job that needs all of its tasks goes on to need all, and the least number of "
        "any other job stays. Not while the job runs.",
    )
    min_tasks: int | None = Field(
        default=None,
        ge=1,
        le=MOST_TASKS,
        description="The least number of tasks with which the job starts and runs on; the number of tasks = all or "
        "none. Not while the job runs.",
    )
    max_seconds: float | None = Field(
        default=None,
        ge=0,
        le=LONGEST_TIME,
        description="Seconds that the job may run, over all runs, at least 1; 0 = no limit of its own. The limit "
        "of its queue counts if it is smaller.",
    )

    @field_validator("max_seconds")
    @classmethod
    def _check_max_seconds(cls, seconds: float | None) -> float | None:
        """Refuse a limit of less than a second other than 0."""
        if seconds is not None and 0 < seconds < 1:
            why = f"a job runs for at least 1 second, not {seconds:g}; 0 removes its own limit"
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return seconds

    @model_validator(mode="after")
    def _names_a_change(self) -> Self:
        """Raise a validation error if no field is named."""
        if not self.model_dump(exclude_none=True):
            why = f"name something to change: {', '.join(type(self).model_fields)}"
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self


class JobSelection(StrictModel):
    """Jobs to which one request applies."""

    jobs: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOBS)] = Field(description="Ids of the jobs.")


class RefusedJob(BaseModel):
    """A job of a selection to which the request could not be applied."""

    job: str
    code: str
    message: str


class CancelledJobs(BaseModel):
    """The answer to a request to cancel several jobs."""

    jobs: list[JobSummary] = Field(description="The jobs that end or will end, as they are now.")
    refused: list[RefusedJob] = Field(description="The other jobs, each with the reason. They stay as they were.")
