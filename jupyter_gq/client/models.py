"""Messages between the service and its clients. Amounts are text: GPUs "0.25", CPU cores "4", memory "16 GiB".

Times are seconds since the epoch, UTC. Unknown is None, never 0. The OpenAPI document is made from these models.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.queue import MAX_PRIORITY, MIN_PRIORITY

from .bounds import MOST_ARGUMENTS, MOST_ENTRIES, MOST_VARIABLES, Count, Duration, Line, Name, Text, Time, Value
from .pods import PodAdditions
from .strict_model import StrictModel

MAX_NAME = 100

JobPhase = Literal["waiting", "starting", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
#: Text or a number: GPUs, CPU cores, memory.
Amount = Annotated[str, Field(max_length=40)] | int | float
HealthCode = Literal[
    "ok", "config_refused", "disk_full", "step_failed", "runs_unobserved", "workloads_set_aside", "devices_missing"
]
NotebookPhase = Literal["waiting", "starting", "running", "stopping", "stopped"]


class Problem(BaseModel):
    """The one form of every error."""

    code: str = Field(description="Stable word for programs, such as unknown_queue.")
    message: str = Field(description="What was wrong, what was expected and what to do.")
    field: str | None = Field(default=None, description="Part of the request that the error is about, such as gpus.")


class Kernel(StrictModel):
    """The kernel that the notebook used, and how it is started."""

    name: Name
    display_name: Name = ""
    language: Name = "python"
    argv: list[Line] = Field(
        max_length=MOST_ARGUMENTS, description="Command of the kernelspec, with {connection_file}."
    )
    env: dict[Name, Value] = Field(default_factory=dict, max_length=MOST_VARIABLES)


class CellRef(StrictModel):
    """A cell that will be run."""

    cell_id: Name
    source_hash: Name = Field(description="SHA-256 of the source, hex.")
    seconds: Duration | None = Field(default=None, description="Duration of the cell's last run in the notebook.")


class Manifest(StrictModel):
    """The origin and the needs of a job; see docs/reference/bundle."""

    mode: Literal["replay", "notebook"] = "replay"
    server: Name = Field(default="", description="Name of the server from which the job was sent.")
    notebook_path: Line = Field(description="Relative to the root folder of that server.")
    cwd: Line = Field(description="Absolute working folder of the kernel.")
    kernel: Kernel
    environment: dict[Name, Value] = Field(
        default_factory=dict, max_length=MOST_VARIABLES, description="Allow-listed variables of the server."
    )
    prefix: list[CellRef] = Field(
        default_factory=list, max_length=MOST_ENTRIES, description="Cells replayed first, in run order."
    )
    targets: list[CellRef] = Field(
        min_length=1, max_length=MOST_ENTRIES, description="Cells whose output goes back to the notebook."
    )


class Bundle(StrictModel):
    """The manifest and the notebook that a job brings along."""

    manifest: Manifest
    notebook: JsonObject = Field(
        description="nbformat 4: the cells of prefix, then of targets, in run order, without outputs."
    )


class JobRequest(StrictModel):
    """A user's request for a job, without its bundle, as a preview needs it."""

    name: str = Field(default="", max_length=MAX_NAME)
    queue: Name
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
    tasks: int = Field(default=1, ge=1, le=64, description="Number of tasks. All tasks start together, or none.")
    priority: int = Field(
        default=0,
        ge=MIN_PRIORITY,
        le=MAX_PRIORITY,
        description="Priority inside the queue, at most the `max_priority` of the queue; a higher priority goes first.",
    )
    expected_seconds: float | None = Field(
        default=None,
        gt=0,
        le=10 * 366 * 24 * 3600,
        description="Seconds that the job will probably run, for forecasts; a longer run is not ended.",
    )


class JobSubmission(JobRequest):
    """A job request with its bundle."""

    bundle: Bundle


class Eviction(BaseModel):
    """An eviction of a notebook or a job, or the failure of a server."""

    reason: str = Field(description="Such as RECLAIMED or IDLE. ENDED: no eviction, but the server failed.")
    sentence: str
    by: str | None = Field(default=None, description="Name of the queue, job or user that gets the devices.")
    at: float


class JobError(BaseModel):
    """The exception with which the code of a job failed."""

    ename: str
    evalue: str


class Progress(BaseModel):
    """The progress that a job reports."""

    fraction: float | None = Field(default=None, ge=0, le=1)
    text: Text = ""


class ExpectedStart(BaseModel):
    """The probable start of a waiting job, from usual durations and from the errors of earlier forecasts."""

    p50: float = Field(description="Half of such jobs start before this instant.")
    p90: float = Field(description="Nine of ten start before this instant.")
    outcomes: int = Field(description="Number of earlier forecasts behind this one; 0 = a guess.")


class JobSummary(BaseModel):
    """A job as lists show it, without its cells."""

    id: str
    name: str
    owner: str
    queue: str
    gpus: str
    cpus: str | None = Field(default=None, description="CPU cores of each task; None = not named.")
    memory: str | None = Field(default=None, description="Memory of each task; None = not named.")
    gpu_model: str | None = Field(default=None, description="The only model of GPU on which the job runs; None = any.")
    tasks: int
    priority: int
    expected_seconds: float | None = Field(default=None, description="Seconds that the owner expects the job to run.")
    phase: JobPhase
    sentence: str = Field(description="One sentence: why the job waits, was paused or failed, or what it does.")
    position: int | None = Field(default=None, description="Place in the queue, from 1, while the job waits.")
    expected_start: ExpectedStart | None = Field(
        default=None, description="Forecast while the job waits; None = unknown."
    )
    over_quota: str | None = Field(default=None, description="GPUs that may be reclaimed; None = none.")
    submitted_at: float
    started_at: float | None = Field(default=None, description="Start of the present or last run.")
    finished_at: float | None = None
    run: int = Field(default=0, description="Number of the run, from 1; more than 1 after a pause.")
    devices: list[str] = Field(default_factory=list)
    node: str | None = None
    server: str = ""
    notebook_path: str = ""
    progress: Progress | None = None
    last_seq: int = 0
    disk: str | None = Field(
        default=None, description="Disk space that the files of a running job take; None = not measured."
    )
    eviction: Eviction | None = None
    error: JobError | None = None


class JobView(JobSummary):
    """A job as its owner sees it."""

    targets: list[CellRef] = Field(default_factory=list, description="Cells whose output goes back to the notebook.")
    prefix: list[CellRef] = Field(default_factory=list, description="Cells that are replayed first, in run order.")


class JobList(BaseModel):
    """Jobs, newest first, without their cells."""

    jobs: list[JobSummary]
    next: str | None = Field(default=None, description="Value of `before` for the next page; None = last page.")


class Preview(BaseModel):
    """The prediction for a job if it were sent now."""

    starts_now: bool
    sentence: str
    position: int | None = None
    over_quota: str | None = None
    cpus: str | None = Field(default=None, description="CPU cores that each task would have; None = no request.")
    memory: str | None = Field(default=None, description="Memory that each task would have; None = no request.")


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


class _KnownFields(BaseModel):
    """The types of the fields of a piece of output that the service itself reads; others are passed on as they are."""

    model_config = ConfigDict(extra="ignore", strict=True)

    seq: Count | None = None
    run: Count | None = None
    at: Time | None = None
    op: Name | None = None
    state: Name | None = None
    cell: Name | None = None
    role: Name | None = None
    index: Count | None = None
    output: JsonObject | None = None
    outputs: list[JsonObject] | None = None


def _check_known_fields(piece: JsonObject) -> JsonObject:
    """Return the piece; raise `ValueError` if a field that the service reads has another type."""
    try:
        _KnownFields.model_validate(piece)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise ValueError(f"the field {wrong['loc'][0]} is wrong: {wrong['msg']}") from error
    return piece


class _DescribedAs:
    """An annotation: the documented form of a field whose values are passed on as they are, unchecked."""

    def __init__(self, form: type) -> None:
        # The wrapping makes the form a schema of its own in the document, with a name.
        self._form = core_schema.definitions_schema(TypeAdapter(form).core_schema, [])

    def __get_pydantic_json_schema__(self, _: CoreSchema, describe: GetJsonSchemaHandler) -> JsonSchemaValue:
        return describe(self._form)


#: Newer runners may send more fields and operations: neither is refused.
AnyOutputEvent = Annotated[JsonObject, _DescribedAs(OutputEvent)]
#: The same in a request.
SentOutputEvent = Annotated[AnyOutputEvent, AfterValidator(_check_known_fields)]


class OutputPage(BaseModel):
    """Numbered pieces of output; see client.outputs for their form."""

    events: list[AnyOutputEvent]
    last_seq: int
    finished: bool = Field(description="The job is final and nothing more will come after last_seq.")


class IdleWarning(BaseModel):
    """A warning that an idle notebook will lose its share."""

    expire_at: float
    sentence: str
    keep_seconds: float = Field(description="Seconds that 'Keep it' would add now; 0 = the bound is reached.")


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
        default="cooperative",
        description="How strongly the share is enforced: cooperative (caps that honest programs keep), intercept "
        "(by HAMi), advisory (KAI: not at all), none (no GPU).",
    )
    idle_since: float | None = Field(default=None, description="Start of the idleness; None = in use, or unknown.")
    warning: IdleWarning | None = None
    trouble: str = Field(default="", description="A problem of the running notebook, in one sentence; empty: none.")
    eviction: Eviction | None = None


class NotebookList(BaseModel):
    """Notebooks that run or wait, newest first."""

    notebooks: list[NotebookView]


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


class QueueList(BaseModel):
    """The queues that the user may see."""

    queues: list[QueueView]


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
    last_eviction: Eviction | None = Field(
        default=None, description="The last eviction of one of the user's notebooks, or the failure of its server."
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


class AuditEntryView(BaseModel):
    """An entry of the audit log: one act."""

    id: int = Field(description="Increasing, without reuse.")
    at: float
    actor: str = Field(
        description="Name of the user, or `service/` and the name of a service. `jupyter-gq/scheduler`: the scheduler "
        "by itself. `jupyter-gq/config-file`: the author of the configuration file. `os/NAME`: a command that this "
        "account of the service's machine used."
    )
    action: Action
    object: str = Field(description="Id of the job or ticket, name of the node or device, or path of the file.")
    owner: str | None = Field(description="The user whose work it is; null: nobody's.")
    details: JsonObject = Field(description="Further facts by name, such as queue and priority of a job.")


class AuditPage(BaseModel):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntryView]
    next: int | None = Field(description="The `before` of the next page; null: this is the last one.")


class OutputReport(StrictModel):
    """Pieces of output from a job's runner."""

    events: list[SentOutputEvent] = Field(max_length=2000)


class OutputAck(BaseModel):
    """The receipt for pieces of output. The runner continues after `last_seq`."""

    last_seq: int = Field(description="Number of the last piece that is stored.")


class Heartbeat(StrictModel):
    """A runner's report that it is alive."""

    run: Count
    progress: Progress | None = None
    saved_at: Time | None = Field(default=None, description="When the job last saved its state; null: unknown.")


class Health(BaseModel):
    """The health of the service, of its devices and of its configuration. Only admins are told the reasons."""

    status: Literal["ok", "degraded"]
    code: HealthCode = Field(
        default="ok",
        description="The first thing that is wrong: config_refused, disk_full, step_failed, runs_unobserved, "
        "workloads_set_aside or devices_missing.",
    )
    version: str = Field(default="", description="For admins.")
    devices: str = Field(default="", description="For admins: real or simulated devices, and why.")
    policy: str = Field(
        default="", description='For admins: "ok", or the message of a configuration error that is being ignored.'
    )
    runs: str = Field(default="", description='For admins: "ok", or why nothing is started or ended at present.')
    failures: list[str] = Field(default_factory=list, description="For admins: what fails and is tried again.")
    warnings: list[str] = Field(
        default_factory=list,
        description="For admins: what in the configuration is probably not meant, such as unknown users.",
    )
    set_aside: list[str] = Field(
        default_factory=list,
        description="For admins: the workloads that the service cannot read, decide on or show, with the reasons.",
    )

    def without_reasons(self) -> "Health":
        """Return a copy with the status and the code only, without the reasons that only admins may read."""
        return Health(status=self.status, code=self.code)


class Readiness(BaseModel):
    """The answer of a service that is ready for requests."""

    ready: Literal[True] = True


class JobToken(BaseModel):
    """The token of a task, in exchange for the token of its pod."""

    token: str = Field(description="Secret of this task in this run; not valid after the run.")
    run: int
    task: int
    last_seq: int = Field(description="Number of the last piece of output that is stored.")


class TaskDeviceCheck(BaseModel):
    """The result of the check whether the container of a task sees its own devices and no others."""

    result: Literal["RIGHT", "WRONG", "UNCLEAR", "UNCHECKED", "UNWATCHED"] = Field(
        description="UNCLEAR: the node cannot tell. UNCHECKED: no agent has checked the container yet. UNWATCHED: no "
        "agent reports from the node at present."
    )
    required: bool = Field(description="Whether the task must not start before its container was checked.")
    sentence: str


class OutputNotice(BaseModel):
    """The data of an event of kind `output`: a job has stored output up to `last_seq`."""

    job: str
    last_seq: int


EVENT_NAMES = ("job", "notebook", "output", "queues", "reset")


class ServiceEvent(BaseModel):
    """The JSON data of an event of the stream; the SSE event name is `kind`.

    job: JobView. notebook: NotebookView. output: OutputNotice. queues: {}, totals changed: fetch them again. reset: {},
    the stream could not resume after the last event that was read: fetch all lists again.
    """

    id: int | None = None
    kind: Literal["job", "notebook", "output", "queues", "reset"]
    data: JsonObject
