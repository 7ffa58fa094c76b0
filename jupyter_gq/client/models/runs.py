"""The messages of a job's run, and of its tasks in pods."""

from typing import Literal

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import Count, Time
from jupyter_gq.client.strict_model import StrictModel

from .jobs import Progress


class Heartbeat(StrictModel):
    """A runner's report that it is alive."""

    run: Count
    progress: Progress | None = None
    saved_at: Time | None = Field(default=None, description="When the job last saved its state; null: unknown.")


class JobToken(BaseModel):
    """The token of a task, in exchange for the token of its pod."""

    token: str = Field(description="Secret of this task in this run; not valid after the run.")
    run: int
    task: int
    last_seq: int = Field(description="Number of the last piece of output that is stored.")
    log_start: int = Field(
        default=0, description="Number of the first byte of the pod's log: earlier ones are of a task that has left."
    )


class RunSize(BaseModel):
    """The tasks that a job has now. They change only while a job with `min_tasks` runs."""

    tasks: list[int] = Field(description="Numbers of the tasks that were not told to leave, ascending.")
    least: int = Field(description="The least number of tasks with which the job runs.")
    most: int = Field(description="The most tasks that the job may have.")


class TaskDeviceCheck(BaseModel):
    """The result of the check whether the container of a task sees its own devices and no others."""

    result: Literal["RIGHT", "WRONG", "UNCLEAR", "UNCHECKED", "UNWATCHED"] = Field(
        description="UNCLEAR: the node cannot tell. UNCHECKED: no agent has checked the container yet. UNWATCHED: no "
        "agent reports from the node at present."
    )
    required: bool = Field(description="Whether the task must not start before its container was checked.")
    sentence: str
