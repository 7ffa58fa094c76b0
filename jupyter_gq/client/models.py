"""Messages between the service and its clients. Amounts are text: GPUs "0.25", CPU cores "4", memory "16 GiB".

Times are seconds since the epoch, UTC. Unknown is None, never 0. The OpenAPI document is made from these models.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from jupyter_gq.domain.json_types import JsonObject

from .pods import PodAdditions
from .strict_model import StrictModel

MAX_NAME = 100

JobPhase = Literal["waiting", "starting", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
#: Text or a number: GPUs, CPU cores, memory.
Amount = Annotated[str, Field(max_length=40)] | int | float
NotebookPhase = Literal["waiting", "starting", "running", "stopping", "stopped"]


class Problem(BaseModel):
    """The one form of every error."""

    code: str = Field(description="Stable word for programs, such as unknown_queue.")
    message: str = Field(description="What was wrong, what was expected and what to do.")
    field: str | None = Field(default=None, description="Part of the request that it is about, such as gpus.")


class Kernel(StrictModel):
    """How to start the kernel that the notebook used."""

    name: str
    display_name: str = ""
    language: str = "python"
    argv: list[str] = Field(description="Command of the kernelspec, with {connection_file}.")
    env: dict[str, str] = Field(default_factory=dict)


class CellRef(StrictModel):
    """A cell that will be run."""

    cell_id: str
    source_hash: str = Field(description="SHA-256 of the source, hex.")
    seconds: float | None = Field(default=None, description="How long it last took here.")


class Manifest(StrictModel):
    """The origin and the needs of a job; see docs/reference/bundle."""

    mode: Literal["replay", "notebook"] = "replay"
    server: str = Field(default="", description="Server that it was sent from.")
    notebook_path: str = Field(description="Relative to the root folder of that server.")
    cwd: str = Field(description="Absolute working folder of the kernel.")
    kernel: Kernel
    environment: dict[str, str] = Field(default_factory=dict, description="Allow-listed variables of the server.")
    prefix: list[CellRef] = Field(default_factory=list, description="Cells replayed first, in run order.")
    targets: list[CellRef] = Field(min_length=1, description="Cells whose output goes back.")


class Bundle(StrictModel):
    """The files that go along with a job."""

    manifest: Manifest
    notebook: JsonObject = Field(
        description="nbformat 4: the cells of prefix, then of targets, in run order, without outputs."
    )


class JobRequest(StrictModel):
    """A user's request for a job (without the bundle this is a preview)."""

    name: str = Field(default="", max_length=MAX_NAME)
    queue: str
    gpus: Amount = Field(description='For each task: 0, a fraction such as "0.25", or a whole number.')
    cpus: Amount | None = Field(
        default=None, description='CPU cores for each task, such as 4 or "0.5". Default: as the queue says.'
    )
    memory: Amount | None = Field(
        default=None,
        description='Memory for each task: GiB as a number, or text such as "512 MiB". Default: as the queue says.',
    )
    gpu_model: str | None = Field(
        default=None, max_length=MAX_NAME, description="Only GPUs of this model, as the pool names it. Default: any."
    )
    tasks: int = Field(default=1, ge=1, le=64, description="All of them start together, or none.")
    priority: int = Field(default=0, ge=-100, le=100, description="Inside the queue; higher first.")
    expected_seconds: float | None = Field(
        default=None,
        gt=0,
        le=10 * 366 * 24 * 3600,
        description="How long it will probably run, for forecasts; a longer run is not ended.",
    )


class JobSubmission(JobRequest):
    """A job request with its bundle."""

    bundle: Bundle


class Eviction(BaseModel):
    """Why something was taken back."""

    reason: str = Field(description="Such as RECLAIMED or IDLE; ENDED: nobody took it back, its server failed.")
    sentence: str
    by: str | None = Field(default=None, description="Name of the queue, job or user for whom.")
    at: float


class JobError(BaseModel):
    """Why the code of a job failed."""

    ename: str
    evalue: str


class Progress(BaseModel):
    """How far a job says it is."""

    fraction: float | None = Field(default=None, ge=0, le=1)
    text: str = ""


class ExpectedStart(BaseModel):
    """The probable start of a waiting job, by how long work usually runs and how earlier forecasts turned out."""

    p50: float = Field(description="Half of such jobs start before this instant.")
    p90: float = Field(description="Nine of ten start before this instant.")
    outcomes: int = Field(description="Earlier forecasts that this rests on; 0 = a guess.")


class JobView(BaseModel):
    """A job as its owner sees it."""

    id: str
    name: str
    owner: str
    queue: str
    gpus: str
    cpus: str | None = Field(default=None, description="CPU cores of each task; None = not said.")
    memory: str | None = Field(default=None, description="Memory of each task; None = not said.")
    gpu_model: str | None = Field(default=None, description="The only model of GPU that it takes; None = any.")
    tasks: int
    priority: int
    expected_seconds: float | None = Field(default=None, description="How long its owner expects it to run.")
    phase: JobPhase
    sentence: str = Field(description="One sentence: why it waits, was paused, failed; or what it does.")
    position: int | None = Field(default=None, description="Place in its queue, from 1, while it waits.")
    expected_start: ExpectedStart | None = Field(default=None, description="While it waits; None = cannot be said.")
    over_quota: str | None = Field(default=None, description="Part that may be reclaimed; None when there is none.")
    submitted_at: float
    started_at: float | None = Field(default=None, description="Start of the present or last run.")
    finished_at: float | None = None
    run: int = Field(default=0, description="Number of the run, from 1; more than 1 after a pause.")
    devices: list[str] = Field(default_factory=list)
    node: str | None = None
    server: str = ""
    notebook_path: str = ""
    targets: list[CellRef] = Field(default_factory=list)
    prefix: list[CellRef] = Field(default_factory=list)
    progress: Progress | None = None
    last_seq: int = 0
    eviction: Eviction | None = None
    error: JobError | None = None


class JobList(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobView]
    next: str | None = Field(default=None, description="Pass it as `before` for the next page.")


class Preview(BaseModel):
    """The fate of a job if it were sent now."""

    starts_now: bool
    sentence: str
    position: int | None = None
    over_quota: str | None = None
    cpus: str | None = Field(default=None, description="CPU cores that each task would have; None = not said.")
    memory: str | None = Field(default=None, description="Memory that each task would have; None = not said.")


class OutputEvent(TypedDict):
    """A numbered piece of output. `client.outputs` says what each `op` means and which fields it has."""

    seq: int
    run: int
    at: float
    op: Literal["run", "cell", "append", "replace", "clear", "set"]
    state: NotRequired[str]
    language: NotRequired[str]
    cell: NotRequired[str]
    role: NotRequired[Literal["prefix", "target"]]
    execution_count: NotRequired[int | None]
    finished: NotRequired[bool]
    index: NotRequired[int]
    output: NotRequired[JsonObject]
    outputs: NotRequired[list[JsonObject]]


class _DescribedAs:
    """An annotation: the documented form of a field whose values are passed on as they are, unchecked."""

    def __init__(self, form: type) -> None:
        # The wrapping makes the form a schema of its own in the document, with a name.
        self._form = core_schema.definitions_schema(TypeAdapter(form).core_schema, [])

    def __get_pydantic_json_schema__(self, _: CoreSchema, describe: GetJsonSchemaHandler) -> JsonSchemaValue:
        return describe(self._form)


#: Newer runners may send more fields and operations: neither is refused.
AnyOutputEvent = Annotated[JsonObject, _DescribedAs(OutputEvent)]


class OutputPage(BaseModel):
    """Numbered pieces of output; see client.outputs for their form."""

    events: list[AnyOutputEvent]
    last_seq: int
    finished: bool = Field(description="The job is final and nothing more will come after last_seq.")


class IdleWarning(BaseModel):
    """An idle notebook will lose its share."""

    expire_at: float
    sentence: str
    keep_seconds: float = Field(description="What 'Keep it' would add now; 0 when the bound is reached.")


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
    model: str | None = Field(default=None, description="Product name of its device.")
    memory_quota_mib: int | None = None
    memory_used_mib: int | None = None
    utilisation: int | None = Field(default=None, description="0 to 100 of the device, by its own processes.")
    enforcement: str = Field(
        default="cooperative",
        description="How strongly the share is enforced: cooperative (caps that honest programs keep), intercept "
        "(by HAMi), advisory (KAI: not at all), none (no GPU).",
    )
    idle_since: float | None = Field(default=None, description="None: in use, or unknown.")
    warning: IdleWarning | None = None
    trouble: str = Field(default="", description="What is wrong with it while it runs; empty: nothing.")
    eviction: Eviction | None = None


class NotebookList(BaseModel):
    """Notebooks that are alive or wait, newest first."""

    notebooks: list[NotebookView]


class TicketRequest(StrictModel):
    """A spawner asks for a share; keyed by (user, server), so asking again returns the same ticket."""

    server: str = ""
    gpus: Amount = "0"


class TicketView(BaseModel):
    """The answer: wait, go, or the end. `environment` is for the server's process, once admitted."""

    id: str
    server: str
    gpus: str
    phase: NotebookPhase
    sentence: str
    position: int | None = None
    ahead: int | None = Field(default=None, description="How many wait before it.")
    environment: dict[str, str] = Field(default_factory=dict)
    pod: PodAdditions | None = Field(default=None, description="Where servers are pods: what its pod must carry.")


class ProcessReport(StrictModel):
    """The spawner tells which process holds the share."""

    pid: int = Field(gt=0)
    started: float = Field(description="Start time of the process, as the operating system tells it.")


class KernelActivity(StrictModel):
    """A kernel as the Jupyter server sees it."""

    id: str
    name: str = ""
    busy: bool | None = Field(description="None: unknown (starting, dead).")
    last_active: float = Field(description="End of its last execution, or its start.")


class ActivityReport(StrictModel):
    """The report that the server extension sends every few seconds."""

    at: float
    kernels: list[KernelActivity]


class Choice(BaseModel):
    """An entry of the options page."""

    gpus: str
    available: bool = Field(description="False: not possible now or ever; `sentence` says why.")
    starts_now: bool = False
    sentence: str


class Bounds(BaseModel):
    """Quota, limit and use of CPU cores or memory in a queue; None = nothing is said."""

    quota: str | None = None
    limit: str | None = None
    used: str = Field(default="0", description="By jobs that say what they need.")
    default: str | None = Field(default=None, description="For each task of a job that names nothing.")


class QueueView(BaseModel):
    """Totals of a queue, for its members."""

    name: str
    parent: str | None = None
    pool: str
    quota: str
    limit: str | None = None
    used: str
    over_quota: str = Field(description="Part of `used` above the quota.")
    cpus: Bounds = Field(default_factory=Bounds, description="The same of CPU cores.")
    memory: Bounds = Field(default_factory=Bounds, description="The same of memory of the nodes.")
    waiting: int
    running: int
    over_quota_weight: int
    priority: int
    member: bool = Field(description="The asking user may submit to it.")


class QueueList(BaseModel):
    """The queues that the user may see."""

    queues: list[QueueView]


class PoolView(BaseModel):
    """Totals of a pool."""

    name: str
    devices: int
    model: str | None = None
    models: list[str] = Field(default_factory=list, description="Every model of GPU in it, by name.")
    memory_mib: int | None = None
    largest_cpus: str | None = Field(default=None, description="CPU cores of its largest node; None = not counted.")
    largest_memory: str | None = Field(default=None, description="Memory of its largest node; None = not counted.")
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
    build_pool: str = Field(default="", description="The pool whose devices notebooks get: one of `pools`.")
    largest_request: str = Field(description="The most GPUs that one task of a job can have.")
    last_eviction: Eviction | None = Field(
        default=None, description="Of one of this user's notebooks, also one whose server failed."
    )
    devices_sentence: str = Field(description="Real or simulated, and why.")


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


class DrainRequest(StrictModel):
    """A node or device that takes nothing new from now on."""

    name: str = Field(
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
    sentence: str


class DrainList(BaseModel):
    """The drains that have begun and were not taken back, the oldest first."""

    drains: list[DrainView]


class OutputReport(StrictModel):
    """Pieces of output from a job's runner."""

    events: list[AnyOutputEvent] = Field(max_length=2000)


class OutputAck(BaseModel):
    """Up to which piece the service has stored them; send on from there."""

    last_seq: int


class Heartbeat(StrictModel):
    """A runner says that it is alive."""

    run: int
    progress: Progress | None = None
    saved_at: float | None = Field(default=None, description="When its state was last saved; null: not that is known.")


class Health(BaseModel):
    """The service is up."""

    status: Literal["ok", "degraded"]
    version: str
    devices: str
    policy: str = Field(description='"ok", or the message of a configuration error that is being ignored.')
    runs: str = Field(default="ok", description='"ok", or why nothing is started or ended at present.')


class Readiness(BaseModel):
    """Requests may come here."""

    ready: Literal[True] = True


class JobToken(BaseModel):
    """The answer to a pod of a job that shows its own token."""

    token: str = Field(description="Secret of this task in this run; dead with it.")
    run: int
    task: int
    last_seq: int = Field(description="Highest stored piece of output: number on from there.")


class TaskDevices(BaseModel):
    """Whether what runs in a pod was seen to have its own devices and no others."""

    sight: Literal["RIGHT", "WRONG", "UNCLEAR", "UNSEEN", "UNWATCHED"] = Field(
        description="UNCLEAR: its node cannot tell. UNSEEN: nobody has looked yet. UNWATCHED: nobody looks at present."
    )
    required: bool = Field(description="Nothing of it may begin before it was looked at.")
    sentence: str


class OutputNotice(BaseModel):
    """The data of an event of kind `output`: a job has stored output up to `last_seq`."""

    job: str
    last_seq: int


EVENT_NAMES = ("job", "notebook", "output", "queues", "reset")


class ServiceEvent(BaseModel):
    """The JSON data of an event of the stream; the SSE event name is `kind`.

    job: JobView. notebook: NotebookView. output: OutputNotice. queues: {} (ask again). reset: {} (the stream could not
    resume where you were: fetch the lists again).
    """

    id: int | None = None
    kind: Literal["job", "notebook", "output", "queues", "reset"]
    data: JsonObject
