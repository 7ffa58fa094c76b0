"""The results of a job: the variables that it returns, and the files that its cells put into its result folder."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import Name, Text
from jupyter_gq.client.frozen_files import PART_SIZE, explain_unsafe_path
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.json_types import JsonObject

from .files import MOST_ASKED, Digest

#: A path below the folder of results, with slashes.
ResultPath = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
Size = Annotated[int, Field(ge=0, lt=2**63)]
#: Folder of the files among the results; the variables are beside it.
FILES = "files/"
#: Most results with a content in one report.
MOST_KEPT = 11_000


class ResultVariable(BaseModel):
    """A variable that a job returns. Only the owner of the job may read its value, which is a pickle."""

    name: Name
    type: Name = Field(description='Its class, such as "torch.nn.Linear"; "" if it is unknown.')
    bytes: Size | None = Field(description="Size of the pickle; None = there is none, and `reason` says why.")
    sha256: str = Field(default="", max_length=64, description="SHA-256 of the pickle, hex.")
    path: ResultPath = Field(default="", description="Path of the pickle among the results.")
    reason: Text = Field(default="", description="Why the value was not saved, one sentence.")
    number: float | None = Field(
        default=None, allow_inf_nan=False, description="The value, if it is a finite number; None = it is none."
    )


class ResultFile(BaseModel):
    """A file in the result folder of a job."""

    path: ResultPath = Field(description="Relative to the result folder, with slashes.")
    bytes: Size
    reason: Text = Field(default="", description='Why its content was not kept, one sentence; "" = it can be read.')


class JobResults(BaseModel):
    """The results of a job that has ended."""

    python: str = Field(default="", max_length=20, description='Python of the job\'s kernel, such as "3.12".')
    variables: list[ResultVariable] = Field(default_factory=list, max_length=1000)
    files: list[ResultFile] = Field(default_factory=list, max_length=10_000)
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
    contents: list[KeptResult] = Field(max_length=MOST_KEPT, description="The contents of the results that have one.")

    @model_validator(mode="after")
    def _check_contents(self) -> "ResultsReport":
        """Refuse contents that are not those of the results, each once, and parts that do not fit their size."""
        found, wanted = [kept.path for kept in self.contents], _list_contents(JobResults.model_validate(self.results))
        strange = set(found).symmetric_difference(wanted)
        unsafe = next((path for path in found if explain_unsafe_path(path)), None)
        sizes = next((kept.path for kept in self.contents if len(kept.parts) != -(-kept.bytes // PART_SIZE)), None)
        why = ""
        if strange or len(set(found)) != len(found):
            why = "the contents are not those of the results that have no reason"
        elif unsafe is not None:
            why = f"{explain_unsafe_path(unsafe)}: {unsafe[:60]!r}"
        elif sizes is not None:
            why = f"the parts of {sizes[:60]!r} do not fit its size"
        if why:
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self


def _list_contents(results: JobResults) -> list[str]:
    """Return the paths of all results that have a content."""
    variables = [variable.path for variable in results.variables if variable.bytes is not None]
    return [*variables, *(FILES + file.path for file in results.files if not file.reason)]
