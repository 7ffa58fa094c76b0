"""Messages between the agent of a node and the service. Unknown is None, never 0."""

import operator
from typing import Annotated, Literal

from pydantic import Field

from .bounds import MOST_ABILITIES, MOST_ENTRIES, MOST_VARIABLES, Count, Name, Sentence, ShortName, Text
from .strict_model import StrictModel

#: The start of a process in clock ticks since the start of its machine; the bound is 300 000 years.
Ticks = Annotated[int, Field(ge=0, le=10**15)]
#: A phase of a share; see `devices.share_state.SharePhase`.
SharePhaseName = Literal["IN_USE", "SUSPENDING", "SUSPENDED", "RESUMING"]


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


class AgentSuspension(StrictModel):
    """How far the GPU state of a pod's share is suspended or back, as the agent of its node knows."""

    phase: SharePhaseName
    attempt: Name = Field(
        default="", description='`ShareOrder.attempt` of the last suspension that was begun; "" = none was.'
    )
    failure: Text = Field(default="", description='Why the last suspension or resume failed; "" = it did not.')
    memory_mib: Count | None = Field(default=None, description="What the last suspension moved; null: unknown.")
    seconds: Annotated[float, Field(ge=0, le=10**9)] | None = Field(
        default=None, description="Duration of the last completed suspension or resume; null: none was completed."
    )
    ended: bool = Field(default=False, description="Whether the suspended programs have ended since.")
    refusal: Text = Field(default="", description='Why this share can never be suspended; "" = that is not known.')
    trouble: Text = Field(default="", description='What is wrong with the share, for its owner; "" = nothing.')


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
    suspension: AgentSuspension | None = Field(
        default=None, description="Null: no order names the pod, or the agent has not recovered yet."
    )
    trouble: Text = Field(
        default="",
        exclude_if=operator.not_,
        description='What is wrong with a share whose phase is not known, for its owner; "" = nothing. Left out then, '
        "because release 0.1.0 of the service refuses it.",
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
    """A signal for the agent to send. An agent that lacks the ability says so in `AgentReport.missing`.

    An agent carries out each command once, by its id.
    """

    id: str
    kind: Literal["interrupt", "terminate", "kill"]
    pod_uid: str
    process: AgentProcess | None = Field(default=None, description="The process that gets the signal.")
    valid_for: float | None = Field(
        default=None,
        description="Seconds after the report that this answers; later the command counts no more. Null: no limit.",
    )


class ShareOrder(StrictModel):
    """The wish of the service for the share of a pod. The wish ends with a report of its success or failure.

    See docs/decisions/0200-order-suspensions-of-agents-by-level.md.
    """

    pod_uid: str
    device: str = Field(description="UUID of the pod's only device.")
    known: SharePhaseName = Field(
        description="The last phase that the service knows. An agent that finds no GPU state takes the share as this."
    )
    want: Literal["suspended", "in_use"] | None = Field(default=None, description="Null: leave the share as it is.")
    attempt: str = Field(default="", description="Id of the attempt to suspend, which is begun once.")
    valid_for: float = Field(
        default=0.0, description="Seconds after the report that this answers; later no suspension is begun."
    )


class AgentOrders(StrictModel):
    """The answer to an agent's report: what the agent does until the next one.

    Fields that release 0.1.0 does not have are left out while they have their default: its agents refuse them.
    """

    watch: list[WatchedPod] = Field(default_factory=list)
    commands: list[AgentCommand] = Field(default_factory=list)
    shares: list[ShareOrder] = Field(
        default_factory=list, exclude_if=operator.not_, description="Shares that the agent may suspend."
    )
    suspended_memory_mib: int | None = Field(
        default=None,
        exclude_if=lambda limit: limit is None,
        description="GPU memory of all suspended shares of the node; null: what fits.",
    )
    report_every: float = Field(default=5.0, description="Seconds until the next report at the latest.")
