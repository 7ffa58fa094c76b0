"""The requests of the browser to this server, and the answer of POST check."""

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jupyter_gq.client.model_errors import describe_errors
from jupyter_gq.client.problems import PlainProblem
from jupyter_gq.domain.json_types import JsonObject

from .refusal import RefusedRequest

Model = TypeVar("Model", bound=BaseModel)


class _Request(BaseModel):
    """The base of requests, which ignore unknown fields."""

    # A newer page may say more. JSON has no infinite numbers, and the service would read them as null.
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class PrefixCell(_Request):
    """A cell to replay before the sent one: with the source that ran, or that of the notebook if `ran` is false."""

    cell_id: str = ""
    source: str
    seconds: float | None = None
    ran: bool = Field(default=True, description="Whether the cell is known to have run in the kernel.")


class SoftwareChoice(_Request):
    """The part of a request that names the software of the job."""

    software: str = Field(
        default="",
        max_length=255,
        description="Name of an image that the service offers, or of another kernel of this server with the same "
        'language. "" = the software of the notebook.',
    )


class CellsRequest(SoftwareChoice):
    """The request of POST check: the cells to run, and where."""

    notebook_path: str = Field(default="", description="Relative to the root folder of this server.")
    kernel_id: str | None = Field(default=None, description="None: the kernel that the notebook names.")
    cwd: str | None = Field(
        default=None,
        description="Absolute working folder. None: that in which the kernel was started, or the notebook's.",
    )
    mode: Literal["replay", "notebook"] = Field(
        default="replay", description="notebook: every code cell, in the order of the document, is a target."
    )
    notebook: JsonObject = Field(description="nbformat JSON of the model, with unsaved edits.")
    targets: list[str] = Field(default_factory=list, description="Ids of the cells to run; for mode replay.")
    prefix: list[PrefixCell] = Field(default_factory=list, description="In run order; for mode replay.")
    left_out_cells: list[str] | None = Field(
        default=None,
        description="Ids of cells that the user left out of those proposed for `prefix`, one for each run left out; "
        "null = unknown.",
    )
    file_patterns: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Files of the notebook's folder that go along beside those that the code names, as in .gitignore.",
    )
    left_out_files: list[str] = Field(default_factory=list, description="Paths of files that do not go along.")
    live_folder: bool = Field(
        default=False, description="True: no file goes along; the job runs in the notebook's folder, if it reaches it."
    )
    capture: str | None = Field(
        default=None, description="Id of the answer of POST variables whose variables go along; null = none go along."
    )


class JobFields(SoftwareChoice):
    """The fields of a job, other than its cells, that a page or a kernel names."""

    key: str = Field(
        min_length=1, max_length=200, description="Sending the same request with the same key twice makes one job."
    )
    name: str = ""
    queue: str
    gpus: str | int | float = 1
    gpu_memory: str | int | float | None = None
    cpus: str | int | float | None = None
    memory: str | int | float | None = None
    gpu_model: str | None = None
    preferred_gpu_models: list[str] = Field(default_factory=list)
    expected_seconds: float | None = None
    max_seconds: float | None = None
    tasks: int = 1
    min_tasks: int | None = None
    within: str | None = None
    priority: int = 0
    continue_from: str = Field(
        default="", description='Id of an ended job of the user with whose checkpoints the job begins; "" = none.'
    )
    group: str = ""
    group_parallel: int | None = None
    group_metric: str = ""
    group_mode: Literal["max", "min"] = "max"
    returns: list[str] = Field(default_factory=list, description="Names of variables that the job brings back.")
    variables: list[str] | None = Field(
        default=None,
        description="Names of environment variables that go along beside the usual ones; null = those that the plan "
        "proposes.",
    )
    secrets: list[str] = Field(default_factory=list, description="Names of the secrets that the job has.")


class SendRequest(CellsRequest, JobFields):
    """The request of POST send: the cells and the resources of the job."""

    known_jobs: list[str] | None = Field(
        default=None,
        description="Ids of the jobs of these cells of which the user knows. If another page has sent a cell since, "
        "and one of its jobs that has not ended is not among them, the answer is 409 already_sent. null = send in "
        "any case.",
    )


class SweepRequest(SendRequest):
    """The request of POST sweep: the cells and the resources of each job, and what varies from job to job."""

    grid: dict[str, list[str]] = Field(description="Literals by the name that takes them; all combinations are sent.")


class SweptJob(BaseModel):
    """A job of a sweep, and the literals that its cells have."""

    job: str
    values: dict[str, str]


class SentSweep(BaseModel):
    """The answer of POST sweep."""

    group: str
    name: str
    queue: str
    metric: str = Field(description='Name of the number by which the jobs are compared; "" = their first one.')
    mode: Literal["max", "min"] = Field(description="Whether the highest or the lowest number is the best.")
    jobs: list[SweptJob]


#: Fields of the request from which this server makes the bundle and the key.
_OWN_FIELDS = frozenset({"key", "returns", "variables", "secrets"})
#: Fields of the request that are sent to the service unchanged.
JOB_FIELDS = frozenset(JobFields.model_fields) - _OWN_FIELDS


class ChosenFiles(_Request):
    """The files of a job that are copied, and what happens to those that are there."""

    paths: list[str] = Field(
        default_factory=list, max_length=1000, description="Paths as the results of the job list them; empty = all."
    )
    existing: Literal["ask", "replace", "keep_both"] = Field(
        default="ask", description="What happens to files that are there and differ; ask = 409 with their list."
    )
    agreed: dict[str, str] | None = Field(
        default=None,
        max_length=1000,
        description="The files that are replaced, also with keep_both: the `version` in the list of the 409, by path. "
        "With replace, another file that differs is a 409 again. null = all files with replace.",
    )


class CopyRequest(ChosenFiles):
    """The request of POST jobs/<id>/copies: the files to copy beside the notebook."""

    notebook_path: str = Field(
        default="", max_length=4096, description="Where the notebook is now; empty = where it was when it was sent."
    )


class KernelCopy(ChosenFiles):
    """The request of a kernel for copies of files."""

    folder: str = Field(pattern="^/", max_length=4096, description="Absolute folder into which the files are copied.")


class AnnouncedCell(_Request):
    """A cell that a page hands to a kernel."""

    cell_id: str
    source: str


class Announcement(_Request):
    """The request of POST kernels/<id>/history: the cells that a page has handed to the kernel, in run order."""

    cells: list[AnnouncedCell]


class PlannedCell(BaseModel):
    """A cell that will run."""

    cell_id: str
    title: str = Field(description="First line of code of the cell.")
    seconds: float | None
    why: Literal["ran", "setup", "target"]


class CellWarning(BaseModel):
    """A warning for the user before sending."""

    code: str
    message: str
    cell_id: str | None = None
    index: int | None = Field(
        default=None, description="Place of the replayed cell in the request's `prefix`; null for a target, or for all."
    )


class PlannedVariable(BaseModel):
    """An environment variable that may go along."""

    name: str
    why: Literal["read", "proxy", "offered"] = Field(
        description="read: the cells read it; proxy: a proxy of the network; offered: it goes along if it is chosen."
    )


class PlannedSecret(BaseModel):
    """A secret that the job may need."""

    name: str
    wanted: bool = Field(description="Whether the cells read it, or import a library that does.")
    stored: bool = Field(description="Whether the user has stored it on this machine.")


class PlannedEnvironment(BaseModel):
    """The environment variables of this server that go along with a job: names, never values."""

    always: list[str] = Field(description="Names that go along with every job.")
    variables: list[PlannedVariable] = Field(description="Names that may go along beside them.")
    secrets: list[PlannedSecret] = Field(description="Secrets that are stored here or that the cells want.")


class PlannedFile(BaseModel):
    """A file of the notebook's folder that goes along, unless the user leaves it out."""

    path: str = Field(description="Relative to the notebook's folder.")
    bytes: int
    why: Literal["imported", "opened", "pattern"]


class StayingFile(BaseModel):
    """A file or folder that the code names and that does not go along."""

    path: str
    bytes: int | None = Field(description="None for a folder.")
    message: str = Field(description="Why it stays, and whether the job reaches it.")
    reached: bool = Field(description="Whether the job finds it at the same path.")


class FilesPlan(BaseModel):
    """The files of the notebook's folder that go along, and what the code names beside them."""

    going: list[PlannedFile]
    staying: list[StayingFile]
    notes: list[str] = Field(description="Sentences on the folder in which the job runs, and on what is not seen.")
    own_folder: bool = Field(default=False, description="Whether the job runs in a folder of its own.")
    pattern_notes: list[str] = Field(
        default_factory=list,
        description="Sentences on patterns in `file_patterns` that name no file, and on hidden files and secrets.",
    )


class PlannedKernel(BaseModel):
    """A kernel of this server, other than the notebook's, with which the job can run."""

    name: str
    title: str = Field(description="Name of the kernel as Jupyter shows it.")


class CarryOffer(BaseModel):
    """Whether variables of the kernel can go along, so that the cells before need not run in the job."""

    offered: bool
    suggested: bool = Field(description="Whether the cells before took so long here that this is worth while.")


class PlannedAssignment(BaseModel):
    """An assignment of a literal that a sweep can vary."""

    name: str
    value: str = Field(description="Source of the literal.")
    line: int = Field(description="Line in its cell, from 1.")
    title: str = Field(description="First line of code of its cell.")


class Plan(BaseModel):
    """The answer of POST check."""

    prefix: list[PlannedCell]
    targets: list[PlannedCell]
    warnings: list[CellWarning]
    makes: list[str] = Field(description="Names of the variables that the targets make; Python only.")
    files: FilesPlan
    assignments: list[PlannedAssignment] = Field(description="What a sweep can vary; Python only.")
    returns: list[str] = Field(
        description="Names of the variables that the targets make or change and cells below need: a proposal of what "
        "to bring back; Python only."
    )
    environment: PlannedEnvironment
    carry: CarryOffer
    kernels: list[PlannedKernel] = Field(description="What can be chosen as `software`, beside the service's images.")
    takes_images: bool = Field(description="Whether an image of the service can be chosen: for Python only.")


def describe_validation_error(error: ValidationError) -> PlainProblem:
    """Return a problem with the first error of a request, its field as a dotted path, and the count of other fields."""
    found = describe_errors(error)
    field, why = next(iter(found.items()))
    more = "" if len(found) == 1 else f" And {len(found) - 1} more."
    return PlainProblem(code="invalid_request", message=f"{field or 'request'}: {why}.{more}", field=field or None)


def parse(model: type[Model], body: object) -> Model:
    """Return the parsed JSON `body` as an object of `model`; a body of None counts as an empty object.

    Types are not converted: "3" and true are no numbers.

    Raises `RefusedRequest` with the first error if the body does not fit the model.
    """
    try:
        return model.model_validate({} if body is None else body, strict=True)
    except ValidationError as error:
        problem = describe_validation_error(error)
        raise RefusedRequest(problem.code, problem.message, field=problem.field) from error
