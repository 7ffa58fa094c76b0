"""Messages between the agent of a node and the service. Unknown is None, never 0."""

from typing import Literal

from pydantic import Field

from .strict_model import StrictModel


class AgentDevice(StrictModel):
    """A GPU as its driver describes it."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    healthy: bool = True


class AgentAllocation(StrictModel):
    """Devices that the kubelet gave to a pod."""

    namespace: str
    pod: str
    container: str
    resource: str = Field(description="Such as nvidia.com/gpu.")
    device_ids: list[str]


class AgentShare(StrictModel):
    """The use that the processes of a watched pod make of their share."""

    pod_uid: str
    memory_mib: int | None = None
    utilisation: int | None = Field(default=None, description="Highest value among the processes of the pod, 0 to 100.")
    visible: list[str] | None = Field(
        default=None, description="Devices that the pod's containers can open; null: unknown."
    )


class AgentReport(StrictModel):
    """The state of a node as its agent sees it at one moment."""

    probe: str = Field(description="State of the driver: OK, NO_DRIVER, ...")
    detail: str = Field(default="", description="One sentence on the state of the driver.")
    devices: list[AgentDevice] = Field(default_factory=list)
    allocations: list[AgentAllocation] | None = Field(
        default=None, description="What the kubelet assigned; null: the kubelet did not answer."
    )
    shares: list[AgentShare] = Field(default_factory=list)
    missing: dict[str, str] = Field(
        default_factory=dict, description="Abilities that this node lacks, such as suspend, and why."
    )
    done: list[str] = Field(default_factory=list, description="Ids of commands that were carried out.")


class WatchedPod(StrictModel):
    """A pod whose share the agent shall observe."""

    pod_uid: str
    namespace: str
    pod: str
    #: The devices that the pod was given, by UUID.
    devices: list[str] = Field(default_factory=list)


class AgentCommand(StrictModel):
    """A task for the agent on its node. An agent that lacks the ability says so in `AgentReport.missing`."""

    id: str
    kind: Literal["suspend", "resume"]
    pod_uid: str


class AgentOrders(StrictModel):
    """The answer to an agent's report: what the agent does until the next one."""

    watch: list[WatchedPod] = Field(default_factory=list)
    commands: list[AgentCommand] = Field(default_factory=list)
    report_every: float = Field(default=5.0, description="Seconds until the next report at the latest.")
