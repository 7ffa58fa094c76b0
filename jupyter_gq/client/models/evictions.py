"""Evictions, as jobs, notebooks and the options page show them."""

from pydantic import BaseModel, Field


class Eviction(BaseModel):
    """An eviction of a notebook or a job, or the failure of a server."""

    reason: str = Field(description="Such as RECLAIMED or IDLE. ENDED: no eviction, but the server failed.")
    sentence: str
    by: str | None = Field(default=None, description="Name of the queue, job or user that gets the devices.")
    at: float
