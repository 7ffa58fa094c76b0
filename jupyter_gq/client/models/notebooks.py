"""Notebook servers: tickets, shares, activity."""

from typing import Literal

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import MOST_ENTRIES, Amount, Count, Name, Time
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.strict_model import StrictModel

from .evictions import Eviction

#: Steps against the largest program of a share that holds too much memory, in this order.
MemoryAct = Literal["warn", "interrupt", "terminate", "kill"]
NotebookPhase = Literal["waiting", "starting", "running", "suspended", "resuming", "stopping", "stopped"]


class IdleWarning(BaseModel):
    """A warning that an idle notebook will lose its share."""

    expire_at: float
    sentence: str
    keep_seconds: float = Field(description="Seconds that 'Keep it' would add now; 0 = the bound is reached.")


class MemoryExcessView(BaseModel):
    """The memory that the programs of a share hold above its limit, what was done about it, and what follows."""

    used_mib: int = Field(description="Device memory that the programs hold together.")
    limit_mib: int = Field(description="Device memory that they may hold.")
    over_mib: int = Field(description="How much of it is too much.")
    done: MemoryAct = Field(description="The last step.")
    next: MemoryAct | None = Field(description="The next step; None = the share is within its limit again.")
    next_at: float | None = Field(description="When the next step follows if no memory is freed.")
    sentence: str = Field(description="What happened, and what happens next and when.")


class SuspensionView(BaseModel):
    """The suspension of a notebook's share: its GPU state is in host memory, and its devices are lent."""

    since: float = Field(description="When the devices were given up.")
    sentence: str = Field(description="For whom and why, and what brings the share back.")
    memory_mib: int | None = Field(default=None, description="Host memory that the saved GPU state takes.")
    expected_seconds: float | None = Field(
        default=None, description="About how long the state takes to return to free devices; None = unknown."
    )
    back_within: float | None = Field(
        default=None,
        description="Seconds from now within which the share should be back, borrowers' time to make room included. "
        "None = no cell waits for it, or unknown.",
    )
    wanted: bool = Field(default=False, description="Whether a cell waits for the share.")
    position: int | None = Field(
        default=None,
        description="Place among the notebooks in which cells wait for the same devices, from 1; older notebooks go "
        "first. None = no cell waits for them, their state is being restored already, or something else is in the way.",
    )
    leaving: int = Field(default=0, description="Number of jobs that were told to leave the devices, and make room.")


class NotebookView(BaseModel):
    """A notebook server and its share."""

    id: str
    server: str
    owner: str
    gpus: str
    phase: NotebookPhase
    sentence: str
    position: int | None = None
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    devices: list[str] = Field(default_factory=list)
    model: str | None = Field(default=None, description="Product name of the notebook's device.")
    memory_quota_mib: int | None = None
    memory_used_mib: int | None = None
    utilisation: int | None = Field(
        default=None, description="Use of the device by the notebook's processes, 0 to 100."
    )
    enforcement: str = Field(
        default="",
        description="Level at which the memory limit of the share is enforced now: hardware (whole devices), "
        "driver (NVIDIA's driver refuses more), mps (MPS refuses each program more), "
        "intercept (by HAMi), watched (programs above it are ended), "
        'cooperative (by frameworks), advisory (not at all), none (no GPU); "" = unknown.',
    )
    enforcement_sentence: str = Field(
        default="",
        description="What the level means, and why the driver or MPS does not limit the memory although it shall.",
    )
    idle_since: float | None = Field(default=None, description="Start of the idleness; None = in use, or unknown.")
    warning: IdleWarning | None = None
    kept_until: float | None = Field(
        default=None, description="Until when 'Keep it' protects the idle share; None = it does not."
    )
    over_limit: MemoryExcessView | None = Field(
        default=None, description="Present while the share holds too much memory, and for ten minutes after an act."
    )
    suspension: SuspensionView | None = Field(
        default=None, description="Present while the share is suspended or comes back (phases suspended, resuming)."
    )
    suspension_refusal: str = Field(
        default="",
        description="Why the share was not suspended at the last attempt, in one sentence; empty: no failure.",
    )
    trouble: str = Field(default="", description="A problem of the running notebook, in one sentence; empty: none.")
    eviction: Eviction | None = None


class NotebookList(BaseModel):
    """Notebooks that run or wait, newest first."""

    notebooks: list[NotebookView]
    next: str | None = Field(default=None, description="Value of `before` for the next page; None = last page.")


class TicketRequest(StrictModel):
    """A spawner's request for a share. A repeated request for the same user and server returns the same ticket."""

    server: Name = ""
    gpus: Amount = "0"


class TicketView(BaseModel):
    """The state of a ticket. `environment` is for the server's process, once the ticket is admitted."""

    id: str
    server: str
    gpus: str
    phase: NotebookPhase
    sentence: str
    position: int | None = None
    ahead: int | None = Field(default=None, description="Number of tickets that wait before this one.")
    environment: dict[str, str] = Field(default_factory=dict)
    pod: PodAdditions | None = Field(default=None, description="Additions to the server's pod, if servers are pods.")


class ProcessReport(StrictModel):
    """A spawner's report of the process that holds the share."""

    pid: Count = Field(gt=0)
    started: Time = Field(description="Start time of the process, as the operating system tells it.")


class KernelActivity(StrictModel):
    """A kernel as the Jupyter server sees it."""

    id: Name
    name: Name = ""
    busy: bool | None = Field(description="None: unknown (starting, dead).")
    last_active: Time = Field(description="End of its last execution, or its start.")


class ActivityReport(StrictModel):
    """The report that the server extension sends every few seconds."""

    at: Time
    kernels: list[KernelActivity] = Field(max_length=MOST_ENTRIES)
    wanted: bool = Field(default=False, description="Whether a cell waits for the share of the server, which is lent.")
