"""Nodes and devices that are taken out of service."""

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import Name
from jupyter_gq.client.strict_model import StrictModel


class DrainRequest(StrictModel):
    """A node or device that takes nothing new from now on."""

    name: Name = Field(
        min_length=1, max_length=253, description="Name of a node; on one machine also the UUID or index of a GPU."
    )


class DrainView(BaseModel):
    """A node or device that takes nothing new."""

    name: str = Field(description="Name of the node, or UUID of the GPU.")
    node: str = Field(description='Name of the node; "" = the GPU is no longer there.')
    index: int | None = Field(description="Index of the GPU; null = the whole node.")
    by: str = Field(description="The administrator who began it.")
    since: float
    note: str = Field(description='A clause such as "drained by root since 2026-11-23 09:30 UTC".')
    leaving: list[str] = Field(description="Ids of the work there that leaves, with its grace period.")
    staying: list[str] = Field(description="Ids of the work there that stays until it ends.")
    suspended: list[str] = Field(
        default=[], description="Ids of the jobs that were suspended there, and whose GPU memory is in host memory."
    )
    sentence: str


class DrainList(BaseModel):
    """The drains that have begun and were not taken back, the oldest first."""

    drains: list[DrainView]
