"""The results of a job: the variables that it returns, and the files that its cells put into its result folder."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import Name, Text
from jupyter_gq.client.files.frozen_files import PART_SIZE, explain_unsafe_path, find_clash
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted

from .files import MOST_ASKED, Digest

#: A path below the folder of results, with slashes.
ResultPath = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
Size = Annotated[int, Field(ge=0, lt=2**63)]
#: Folder of the files among the results; the variables are beside it.
FILES = "files/"
_STRANGE = "the contents are not those of the results that have no reason"
#: Most variables, and most files, in one report: a report of as many is within the bounds of a request.
MOST_VARIABLES, MOST_FILES = 1000, 1000


class ResultVariable(BaseModel):
    """A variable that a job returns. Only the owner of the job may read its value, which is a pickle."""

    name: Name
    type: Name = Field(description='Its class, such as "torch.nn.Linear"; "" if it is unknown.')
    bytes: Size | None = Field(description="Size of the pickle; None = there is none, and `reason` says why.")
    sha256: str = Field(default="", max_length=64, description="SHA-256 of the pickle, hex.")
    path: ResultPath = Field(default="", description="Path of the pickle among the results.")
    reason: Text = Field(default="", description="Why the value was not saved, one sentence.")
    number: Annotated[float, Field(allow_inf_nan=False)] | Literal["nan", "inf", "-inf"] | None = Field(
        default=None,
        description="The value, if it is a number; nan and infinite ones as text, since JSON has none. "
        "None = it is not a number.",
    )


class ResultFile(BaseModel):
    """A file in the result folder of a job."""

    path: ResultPath = Field(description="Relative to the result folder, with slashes.")
    bytes: Size
    reason: Text = Field(default="", description='Why its content was not kept, one sentence; "" = it can be read.')


class JobResults(BaseModel):
    """The results of a job that has ended."""

    python: str = Field(default="", max_length=20, description='Python of the job\'s kernel, such as "3.12".')
    variables: list[ResultVariable] = Field(default_factory=list, max_length=MOST_VARIABLES)
    files: list[ResultFile] = Field(default_factory=list, max_length=MOST_FILES)
    omitted_files: int = Field(
        default=0, ge=0, description="Number of files that are not listed, because of their number."
    )


class KeptResult(StrictModel):
    """The content of one result of a job in a pod, as parts that were sent before."""

    path: ResultPath = Field(description="Path among the results: `files/` and the path of a file, or a variable's.")
    bytes: Size
    parts: list[Digest] = Field(max_length=MOST_ASKED, description="Its parts of 4 MiB, in order.")


class ResultsReport(StrictModel):
    """The results of a job in a pod, as its runner reports them at the end of the run."""

    # Not the model: a model that is both sent and received would have two schemas.
    results: JsonObject = Field(description="The list of the results, a `JobResults`.")
    contents: list[KeptResult] = Field(
        max_length=MOST_VARIABLES + MOST_FILES, description="The contents of the results that have one."
    )

    @model_validator(mode="after")
    def _check_contents(self) -> "ResultsReport":
        """Refuse contents that are not those of the results, each once, and parts that do not fit their size."""
        results = JobResults.model_validate(self.results)
        why = _explain_list(results) or _explain_contents(self.contents, _list_contents(results))
        if why:
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self


def _explain_list(results: JobResults) -> str:
    """Return as a clause what is wrong with a list of results; "" if nothing is."""
    both = next((variable.name for variable in results.variables if variable.bytes is not None and variable.reason), "")
    if both:
        return f"the variable {quoted(both)} has a size and a reason why there is none"
    clash = find_clash([file.path for file in results.files])
    return "" if clash is None else f"{quoted(clash)} is a file and a folder"


def _explain_contents(contents: Sequence[KeptResult], wanted: Sequence[tuple[str, int]]) -> str:
    """Return as a clause what is wrong with the contents of results of these paths and sizes; "" if nothing is."""
    sizes = dict(wanted)
    for kept in contents:
        unsafe = explain_unsafe_path(kept.path)
        if unsafe:
            return f"{unsafe}: {quoted(kept.path)}"
        if len(kept.parts) != -(-kept.bytes // PART_SIZE):
            return f"the parts of {quoted(kept.path)} do not fit its size"
        if sizes.get(kept.path, kept.bytes) != kept.bytes:
            return f"{quoted(kept.path)} is listed with {sizes[kept.path]} bytes, and its content has {kept.bytes}"
    found = sorted(kept.path for kept in contents)
    return "" if found == sorted(path for path, _ in wanted) else _STRANGE


def _list_contents(results: JobResults) -> list[tuple[str, int]]:
    """Return the paths and sizes of all results that have a content."""
    variables = [(variable.path, variable.bytes) for variable in results.variables if variable.bytes is not None]
    return [*variables, *((FILES + file.path, file.bytes) for file in results.files if not file.reason)]
