"""Jobs: requests, previews, and jobs as people see them."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import MAX_NAME, MOST_SECRETS, Amount, Line, Name, ShortName, Text
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.amount import LONGEST_TIME
from jupyter_gq.domain.job_names import JobOrigin
from jupyter_gq.domain.queue import MAX_PRIORITY, MIN_PRIORITY

from .bundles import Bundle, CellRef
from .evictions import Eviction
from .usage import UnusedGpuView

#: The most GPU models that a job may prefer.
MOST_MODELS = 10
#: The most tasks of a job.
MOST_TASKS = 64
#: The name of a GPU model.
ModelName = Annotated[Name, Field(min_length=1, max_length=MAX_NAME)]

#: Which number of the jobs of a group is the best.
GroupMode = Literal["max", "min"]
#: What keeps the work of a paused job: its GPU memory in host memory, its checkpoint, or nothing.
PauseWay = Literal["suspended", "checkpoint", "restart"]
JobPhase = Literal["waiting", "starting", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]


def describe_excess_of_tasks(least: int, most: int) -> str:
    """Return the sentence, without a full stop, on a job that needs at least more tasks than it has at most."""
    tasks, range_ = ("1 task", "1") if most == 1 else (f"{most} tasks", f"1 to {most}")
    return f"min_tasks is {least}, but the job has {tasks}: use {range_}, or more tasks"


class JobFields(StrictModel):
    """The fields of a job that its owner chooses, other than its cells."""

    name: str = Field(default="", max_length=MAX_NAME)
    queue: Name
    gpus: Amount = Field(
        default=1, description='GPUs of each task: 0, a fraction such as "0.25", or a whole number. Default: 1.'
    )
    gpu_memory: Amount | None = Field(
        default=None,
        description="GPU memory of each task, instead of a fraction of a GPU: GiB as a number, or text such as "
        '"12 GiB". The task gets a part of one GPU with at least so much memory, so `gpus` must be 1. Default: none.',
    )
    cpus: Amount | None = Field(
        default=None, description='CPU cores for each task, such as 4 or "0.5". Default: as the queue says.'
    )
    memory: Amount | None = Field(
        default=None,
        description='Memory for each task: GiB as a number, or text such as "512 MiB", rounded up to whole MiB. '
        "Default: as the queue says.",
    )
    gpu_model: ModelName | None = Field(
        default=None,
        description="Only GPUs of this model, as the pool names it. Default: any.",
    )
    preferred_gpu_models: list[ModelName] = Field(
        default_factory=list,
        max_length=MOST_MODELS,
        description="Models of GPU that are tried first, in this order; the job takes others if these have no room.",
    )
    tasks: int = Field(
        default=1,
        ge=1,
        le=MOST_TASKS,
        description="Number of tasks. All tasks start together, or none, unless `min_tasks` says less.",
    )
    min_tasks: int | None = Field(
        default=None,
        ge=1,
        le=MOST_TASKS,
        description="The least number of tasks: the job starts with so many, grows to `tasks` when GPUs are free, and "
        "gives GPUs back task by task. Default: all tasks or none.",
    )
    within: Name | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_NAME,
        description='All tasks run in one "node", or in one domain of another level that the settings name, such as '
        '"rack"; without room there, none starts. Default: anywhere.',
    )
    priority: int = Field(
        default=0,
        ge=MIN_PRIORITY,
        le=MAX_PRIORITY,
        description="Priority inside the queue, at most the `max_priority` of the queue; a higher priority goes first.",
    )
    expected_seconds: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_TIME,
        description="Seconds that the job will probably run, for forecasts; a longer run is not ended.",
    )
    max_seconds: float | None = Field(
        default=None,
        ge=1,
        le=LONGEST_TIME,
        description="Seconds that the job may run, over all runs and not counting pauses; then it saves its state and "
        "ends. The limit of its queue counts if it is smaller. Default: no limit of its own.",
    )
    software: Name = Field(
        default="",
        description="Name of the software that the job runs with: an image of `Me.images`, or the kernel of its "
        'bundle. "" = the software of its notebook.',
    )
    continue_from: Name = Field(
        default="",
        max_length=MAX_NAME,
        description="Id of an ended job of the same owner: the job begins with a copy of its checkpoints. A sweep has "
        'one such job for all of its jobs. "" = the job begins without any.',
    )
    group: ShortName = Field(default="", description="Name of a group of the owner's jobs, such as a sweep.")
    group_parallel: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Jobs of the group that may run at the same time; needs `group`. Default: all.",
    )
    group_metric: ShortName = Field(
        default="",
        description='Name of the number by which the jobs of the group are compared; "" = their first one.',
    )
    group_mode: GroupMode = Field(default="max", description="Whether the highest or the lowest number is the best.")

    @model_validator(mode="after")
    def _check_group(self) -> Self:
        """Refuse a limit of a group that is not named."""
        if self.group_parallel is not None and not self.group:
            why = "group_parallel limits the jobs of a group: name it with group"
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self

    @model_validator(mode="after")
    def _check_tasks(self) -> Self:
        """Refuse more tasks at least than at most."""
        if self.min_tasks is not None and self.min_tasks > self.tasks:
            why = describe_excess_of_tasks(self.min_tasks, self.tasks)
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self


class JobRequest(JobFields):
    """A user's request for a job, without its bundle, as a preview needs it."""

    secrets: list[Name] = Field(
        default_factory=list, max_length=MOST_SECRETS, description="Names of the secrets of the job."
    )
    home: Line = Field(
        default="",
        description='Absolute home folder of the user, where secrets are looked for; "" = that of their account.',
    )
    kernel: Name = Field(
        default="", description="Name of the kernel that the bundle of the job would have, if `software` names it."
    )


class JobSubmission(JobFields):
    """A user's request for a job, with its bundle."""

    bundle: Bundle


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


class PauseView(BaseModel):
    """The cost of a pause of a job, now or in future."""

    way: PauseWay = Field(
        description="`suspended`: nothing is lost; `checkpoint`: the work since the last checkpoint is done again; "
        "`restart`: all work is done again, if the code has begun."
    )
    sentence: str = Field(description="One sentence about that.")


class JobSummary(BaseModel):
    """A job as lists show it, without its cells."""

    id: str
    name: str
    owner: str
    queue: str
    gpus: str = Field(description="GPUs of each task; of a job that names GPU memory, the part of a GPU that it takes.")
    gpu_memory: str | None = Field(default=None, description="GPU memory of each task; None = not named.")
    cpus: str | None = Field(default=None, description="CPU cores of each task; None = not named.")
    memory: str | None = Field(default=None, description="Memory of each task; None = not named.")
    gpu_model: str | None = Field(default=None, description="The only model of GPU on which the job runs; None = any.")
    preferred_gpu_models: list[str] = Field(
        default_factory=list, description="Models of GPU that are tried first, in this order."
    )
    tasks: int
    min_tasks: int | None = Field(
        default=None, description="Least number of tasks with which the job runs; None = it runs with all of them."
    )
    tasks_now: int | None = Field(
        default=None, description="Number of tasks that a job with `min_tasks` runs with now; None = it does not run."
    )
    within: str | None = Field(default=None, description="Level in one domain of which all tasks run; None = anywhere.")
    priority: int
    expected_seconds: float | None = Field(default=None, description="Seconds that the owner expects the job to run.")
    max_seconds: float | None = Field(
        default=None, description="Seconds that the job may run: the smaller of its limit and that of its queue."
    )
    phase: JobPhase
    sentence: str = Field(description="One sentence: why the job waits, was paused or failed, or what it does.")
    position: int | None = Field(default=None, description="Place in the queue, from 1, while the job waits.")
    expected_start: ExpectedStart | None = Field(
        default=None, description="Forecast while the job waits; None = unknown."
    )
    held_since: float | None = Field(
        default=None, description="Since when the job is held; `sentence` says by whom. None = it is not held."
    )
    over_quota: str | None = Field(default=None, description="GPUs that may be reclaimed; None = none.")
    submitted_at: float
    started_at: float | None = Field(default=None, description="Start of the present or last run.")
    finished_at: float | None = None
    ran_seconds: float = Field(
        default=0.0, description="Seconds for which the runs that have ended ran, without starts and pauses."
    )
    running_since: float | None = Field(
        default=None, description="When the present run began to run, after its start; None = the job does not run."
    )
    run: int = Field(default=0, description="Number of the run, from 1; more than 1 after a pause.")
    devices: list[str] = Field(default_factory=list)
    node: str | None = None
    server: str = ""
    idempotency_key: str = Field(
        default="",
        description='Idempotency key with which the job was sent; "" = without one. If a dialog sent the job, the key '
        "begins with that of the dialog.",
    )
    notebook_path: str = ""
    origin: JobOrigin = Field(
        default="notebook",
        description="What was sent: cells of a notebook, a script, or a call of a function or code that is in no cell.",
    )
    progress: Progress | None = None
    saved_at: float | None = Field(
        default=None, description="When a file in the folder of checkpoints was last written; None = unknown."
    )
    pause: PauseView | None = Field(
        default=None,
        description="What a pause costs, or would cost, as far as known; None = the job has not run, or has ended.",
    )
    utilisation: int | None = Field(
        default=None,
        description="Use of its GPUs at the last sample, 0 to 100, the highest of any process and GPU; None = unknown.",
    )
    gpu_memory_used_mib: int | None = Field(
        default=None, description="GPU memory that its processes hold together; None = unknown."
    )
    gpu_memory_limit_mib: int | None = Field(
        default=None, description="GPU memory that it may hold on all of its GPUs; None = unknown."
    )
    unused_gpu: UnusedGpuView | None = Field(
        default=None, description="Present while the job has used no GPU for longer than the administrator allows."
    )
    last_seq: int = 0
    disk: str | None = Field(
        default=None,
        description="Disk space that the files of a running job take; None = not measured, or below 1 MiB.",
    )
    eviction: Eviction | None = None
    error: JobError | None = None
    returns: list[str] = Field(
        default_factory=list, description="Names of variables that the job brings back; see its results."
    )
    secrets: list[str] = Field(default_factory=list, description="Names of the secrets that the job has.")
    software: str = Field(
        default="", description='Software that its owner chose: an image or a kernel; "" = that of its notebook.'
    )
    continue_from: str = Field(
        default="", description='Id of the job from whose checkpoints this one continues; "" = of none.'
    )
    group: str = Field(default="", description='Name of a group of the owner\'s jobs; "" = none.')
    group_parallel: int | None = Field(
        default=None, description="Jobs of the group that may run at the same time; None = all."
    )
    group_metric: str = Field(default="", description='Number by which its jobs are compared; "" = their first one.')
    group_mode: GroupMode = Field(default="max", description="Whether the highest or the lowest number is the best.")


class JobView(JobSummary):
    """A job as its owner sees it."""

    targets: list[CellRef] = Field(default_factory=list, description="Cells whose output goes back to the notebook.")
    prefix: list[CellRef] = Field(default_factory=list, description="Cells that are replayed first, in run order.")
    left_out_cells: list[str] | None = Field(
        default=None,
        description="Ids of cells that the owner left out of those proposed to be replayed, one for each run left out; "
        "None = unknown, as of jobs that were sent by a command.",
    )
    carries_variables: bool | None = Field(
        default=None,
        description="Whether variables of the notebook's kernel went along, so that fewer cells are replayed; None = "
        "unknown, as of jobs of older releases.",
    )


class JobList(BaseModel):
    """Jobs, newest first, without their cells."""

    jobs: list[JobSummary]
    next: str | None = Field(default=None, description="Value of `before` for the next page; None = last page.")
    disk: str = Field(
        default="",
        description='Disk space of the files of all jobs of the listed owners, such as "12 GiB of at most 500 GiB"; '
        '"" = not measured, or below 1 MiB.',
    )
    database: str = Field(
        default="",
        description="What the database keeps of all jobs of the listed owners, as in `disk`; of all owners it names "
        'those of whom most is kept: "mary 3.9 GiB, paul 12 MiB; at most 4 GiB each".',
    )


class Alternative(BaseModel):
    """A change of a request with which the job would start at once or clearly earlier, or within its quota."""

    label: str = Field(description='What differs from the request, such as "0.5 GPU" or "The queue nlp".')
    sentence: str = Field(description="What would happen with this change.")
    queue: str = Field(description="The queue to ask for.")
    gpus: str = Field(description="The GPUs of each task to ask for.")
    gpu_model: str | None = Field(default=None, description="The only model of GPU to ask for; None = any.")
    starts_now: bool
    over_quota: str | None = Field(default=None, description="GPUs that could be reclaimed; None = none.")
    expected_start: ExpectedStart | None = Field(
        default=None, description="Forecast, if it does not start now; None = it does."
    )


class Preview(BaseModel):
    """The prediction for a job if it were sent now."""

    starts_now: bool
    sentence: str
    position: int | None = Field(default=None, description="Place in the queue, from 1; None if the job starts now.")
    expected_start: ExpectedStart | None = Field(
        default=None, description="Forecast, if the job would wait; None = it starts now, or its start is unknown."
    )
    over_quota: str | None = Field(
        default=None, description="GPUs that could be reclaimed, beside the work that runs now; None = none."
    )
    alternatives: list[Alternative] = Field(
        default_factory=list,
        description="At most three changes of the request, best first, that would start at once or clearly earlier "
        "than a job that waits, or within the quota instead of over it.",
    )
    gpus: str = Field(description="GPUs that each task would have; for GPU memory, the part of a GPU.")
    cpus: str | None = Field(default=None, description="CPU cores that each task would have; None = no request.")
    max_seconds: float | None = Field(
        default=None, description="Seconds that the job could run: the smaller of its limit and that of its queue."
    )
    memory: str | None = Field(default=None, description="Memory that each task would have; None = no request.")
