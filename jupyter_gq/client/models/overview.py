"""Queues, pools and devices, and what a user can choose."""

from pydantic import BaseModel, Field

from .evictions import Eviction


class Choice(BaseModel):
    """An entry of the options page."""

    gpus: str
    available: bool = Field(description="False: cannot be chosen, now or ever; `sentence` says why.")
    starts_now: bool = False
    sentence: str


class Bounds(BaseModel):
    """Quota, limit and use of CPU cores or memory in a queue; None = not set."""

    quota: str | None = None
    limit: str | None = None
    used: str = Field(default="0", description="Amount that running jobs have named.")
    default: str | None = Field(default=None, description="Amount for each task of a job that names none.")


class QueueView(BaseModel):
    """Totals of a queue, for its members."""

    name: str
    parent: str | None = None
    pool: str
    quota: str
    limit: str | None = None
    used: str
    over_quota: str = Field(description="The part of `used` that is above the quota.")
    cpus: Bounds = Field(default_factory=Bounds, description="CPU cores of the queue.")
    memory: Bounds = Field(default_factory=Bounds, description="Memory of the queue on the nodes.")
    waiting: int
    running: int
    over_quota_weight: int
    priority: int
    member: bool = Field(description="Whether the asking user may submit to the queue.")
    max_priority: int = Field(
        default=0, description="The highest priority that the asking user may give to a job in this queue."
    )
    max_seconds: float | None = Field(
        default=None, description="Seconds that a job of this queue may run, over all of its runs; None = no limit."
    )


class QueueList(BaseModel):
    """The queues that the user may see."""

    queues: list[QueueView]

    @property
    def own(self) -> list[str]:
        """Names of the queues to which the user may send jobs."""
        return [queue.name for queue in self.queues if queue.member]

    def ask_for_one(self, option: str) -> str:
        """Return why no queue was chosen, for a user of none or of several; `option` names one in a request."""
        if not self.own:
            return "You may use no training queue. Ask your administrator for one."
        return f"Which queue? Name it with {option}. Yours are {', '.join(self.own)}."


class PoolView(BaseModel):
    """Totals of a pool."""

    name: str
    devices: int
    model: str | None = None
    models: list[str] = Field(default_factory=list, description="All models of GPU in the pool, by name.")
    memory_mib: int | None = None
    largest_cpus: str | None = Field(default=None, description="CPU cores of the largest node; None = not counted.")
    largest_memory: str | None = Field(default=None, description="Memory of the largest node; None = not counted.")
    total: str
    free: str
    largest_fraction: str = Field(description="The largest share that fits on one device now.")


class Me(BaseModel):
    """The data of the options page and the send dialog."""

    user: str
    groups: list[str]
    admin: bool
    quota: str
    used: str
    left: str
    choices: list[Choice]
    queues: list[QueueView]
    pools: list[PoolView]
    build_pool: str = Field(default="", description="Name of the pool whose devices notebooks get.")
    largest_request: str = Field(description="The most GPUs that one task of a job can have.")
    secrets: list[str] = Field(
        default_factory=list, description="Names of the secrets that jobs may have; `*` stands for any text."
    )
    secrets_in_home: bool = Field(
        default=False,
        description="The user stores secrets with `jupyter-gq secret set`; otherwise the cluster has them.",
    )
    images: list[str] = Field(
        default_factory=list, description="Names of the container images in which jobs may run beside their notebook's."
    )
    last_eviction: Eviction | None = Field(
        default=None, description="The last eviction of one of the user's notebooks, or the failure of its server."
    )
    level_sentence: str = Field(
        default="", description='What enforces the memory limit of a part of a GPU, in sentences; "" = unknown.'
    )
    devices_sentence: str = Field(description="One sentence: whether the devices are real or simulated, and why.")


class DeviceView(BaseModel):
    """A device and its holders (owners are shown to admins only)."""

    id: str
    index: int
    model: str
    memory_mib: int
    pool: str
    healthy: bool
    draining: bool = Field(default=False, description="The device takes nothing new, and its work leaves or ends.")
    used: str
    holders: list[dict[str, str]] = Field(default_factory=list)
    note: str = Field(
        default="", description='Why it takes nothing new, as far as it is known, for admins; "" = no reason.'
    )


class DeviceList(BaseModel):
    """Devices of the whole installation."""

    devices: list[DeviceView]
