"""Messages between the agent of a node and the service. Unknown is None, never 0."""

from typing import Annotated, Literal

from pydantic import Field

from .bounds import MOST_ABILITIES, MOST_ENTRIES, MOST_VARIABLES, Count, Name, Sentence, ShortName, Text
from .strict_model import StrictModel

#: The start of a process in clock ticks since the start of its machine; the bound is 300 000 years.
Ticks = Annotated[int, Field(ge=0, le=10**15)]


class AgentDevice(StrictModel):
    """A GPU as its driver describes it."""

    uuid: Name
    index: Count
    model: Name
    memory_mib: Count
    healthy: bool = True


class AgentAllocation(StrictModel):
    """Devices that the kubelet gave to a pod."""

    namespace: Name
    pod: Name
    container: Name
    resource: Name = Field(description="Such as nvidia.com/gpu.")
    device_ids: list[Name] = Field(max_length=MOST_ENTRIES)


class AgentProcess(StrictModel):
    """A process of a node, which no later process with the same id is taken for."""

    pid: Count
    ticks: Ticks = Field(description="Start of the process in clock ticks since the start of the node.")


class AgentProcessUse(StrictModel):
    """The memory that a process holds on a device."""

    process: AgentProcess
    memory_mib: Count | None = Field(default=None, description="Null: the driver does not tell.")


class AgentDeviceUse(StrictModel):
    """The use of a device by the processes of a pod."""

    device: Name
    processes: list[AgentProcessUse] | None = Field(
        default=None, max_length=MOST_ENTRIES, description="Null: the device could not be sampled."
    )
    free_mib: Count | None = Field(default=None, description="Memory that no process holds; null: unknown.")


class AgentShare(StrictModel):
    """The use that the processes of a watched pod make of their share."""

    pod_uid: Name
    memory_mib: Count | None = None
    utilisation: Count | None = Field(
        default=None, description="Highest value among the processes of the pod, 0 to 100."
    )
    visible: list[Name] | None = Field(
        default=None, max_length=MOST_ENTRIES, description="Devices that the pod's containers can open; null: unknown."
    )
    devices: list[AgentDeviceUse] = Field(
        default_factory=list,
        max_length=MOST_ENTRIES,
        description="Use by device and process; empty: unknown, or the ids of the driver's processes are not these.",
    )


class AgentAbility(StrictModel):
    """An ability of a node, as its agent found it."""

    name: ShortName = Field(min_length=1, description="Such as driver, end programs, MIG.")
    state: ShortName = Field(
        description="works, unverified (all is there, and no release was tried with it on hardware), off, missing, or "
        "unknown. Agents of later releases may say others."
    )
    found: Sentence = Field(description="One sentence on what was found.")
    advice: Sentence = Field(default="", description='One sentence on what to install or set; "" = nothing.')


class AgentReport(StrictModel):
    """The state of a node as its agent sees it at one moment."""

    probe: Name = Field(description="State of the driver: OK, NO_DRIVER, ...")
    detail: Text = Field(default="", description="One sentence on the state of the driver.")
    devices: list[AgentDevice] = Field(default_factory=list, max_length=MOST_ENTRIES)
    allocations: list[AgentAllocation] | None = Field(
        default=None,
        max_length=MOST_ENTRIES,
        description="What the kubelet assigned; null: the kubelet did not answer.",
    )
    shares: list[AgentShare] = Field(default_factory=list, max_length=MOST_ENTRIES)
    missing: dict[Name, Text] = Field(
        default_factory=dict,
        max_length=MOST_VARIABLES,
        description="Abilities that this node lacks, such as suspend or signal, and why.",
    )
    release: Name = Field(default="", description='Release of the agent; "" = one that does not tell.')
    abilities: list[AgentAbility] | None = Field(
        default=None,
        max_length=MOST_ABILITIES,
        description="What the node can do for shares; null: not told, as by agents of older releases.",
    )
    done: list[Name] = Field(
        default_factory=list, max_length=MOST_ENTRIES, description="Ids of commands that were carried out."
    )
    failed: dict[Name, Text] = Field(
        default_factory=dict,
        max_length=MOST_VARIABLES,
        description="Ids of commands that were not carried out, and why.",
    )


class WatchedPod(StrictModel):
    """A pod whose share the agent shall observe."""

    pod_uid: str
    namespace: str
    pod: str
    #: The devices that the pod was given, by UUID.
    devices: list[str] = Field(default_factory=list)


class AgentCommand(StrictModel):
    """A task for the agent on its node. An agent that lacks the ability says so in `AgentReport.missing`.

    An agent carries out each command once, by its id.
    """

    id: str
    kind: Literal["suspend", "resume", "interrupt", "terminate", "kill"]
    pod_uid: str
    process: AgentProcess | None = Field(
        default=None, description="The process that gets the signal. Null: the command is about the whole pod."
    )
    valid_for: float | None = Field(
        default=None,
        description="Seconds after the report that this answers; later the command counts no more. Null: no limit.",
    )


class AgentOrders(StrictModel):
    """The answer to an agent's report: what the agent does until the next one."""

    watch: list[WatchedPod] = Field(default_factory=list)
    commands: list[AgentCommand] = Field(default_factory=list)
    report_every: float = Field(default=5.0, description="Seconds until the next report at the latest.")
