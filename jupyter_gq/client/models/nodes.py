"""The nodes of a cluster, and what each can do for shares of GPUs."""

from typing import Literal

from pydantic import BaseModel, Field


class NodeAbility(BaseModel):
    """An ability of a node, as its agent found it."""

    name: str = Field(description="Such as driver, end programs, MIG.")
    state: str = Field(
        description="works, unverified (all is there, and no release was tried with it on hardware), off, missing, or "
        "unknown. Agents of later releases may say others."
    )
    found: str = Field(description="One sentence on what was found.")
    advice: str = Field(description='One sentence on what to install or set; "" = nothing.')


class NodeDescription(BaseModel):
    """A node with GPUs, and what it can do for shares."""

    node: str
    pool: str
    agent: Literal["reporting", "silent", "unheard"] = Field(
        description="reporting: it reports; silent: its last report is old; unheard: it has not reported since the "
        "service was started."
    )
    age: float | None = Field(description="Seconds since the last report of the agent; null: there was none.")
    release: str = Field(description='Release of the agent; "" = an older one, which does not tell.')
    gpus: int = Field(description="GPUs that the driver shows.")
    offered: int | None = Field(
        default=None, description="GPUs that the node offers to the cluster; null: a service of an older release."
    )
    obstacle: str = Field(description='Why no new share can go to the node, as far as its agent shows; "" = one can.')
    abilities: list[NodeAbility] | None = Field(
        description="Null: not told, because the agent is of an older release, has not reported, or waits for the "
        "driver."
    )
    missing: dict[str, str] = Field(description="What the agent lacks at the moment, and why.")


class NodeList(BaseModel):
    """The nodes with GPUs, sorted by name."""

    nodes: list[NodeDescription]
