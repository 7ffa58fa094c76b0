"""The results of a job: the variables that it returns, and the files that its cells put into its result folder."""

from typing import Annotated

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import Name, Text

#: A path below the folder of results, with slashes.
ResultPath = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
Size = Annotated[int, Field(ge=0, lt=2**63)]


class ResultVariable(BaseModel):
    """A variable that a job returns. Only the owner of the job may read its value, which is a pickle."""

    name: Name
    type: Name = Field(description='Its class, such as "torch.nn.Linear"; "" if it is unknown.')
    bytes: Size | None = Field(description="Size of the pickle; None = there is none, and `reason` says why.")
    sha256: str = Field(default="", max_length=64, description="SHA-256 of the pickle, hex.")
    path: ResultPath = Field(default="", description="Path of the pickle among the results.")
    reason: Text = Field(default="", description="Why the value was not saved, one sentence.")


class ResultFile(BaseModel):
    """A file in the result folder of a job."""

    path: ResultPath = Field(description="Relative to the result folder, with slashes.")
    bytes: Size


class JobResults(BaseModel):
    """The results of a job that has ended."""

    python: str = Field(default="", max_length=20, description='Python of the job\'s kernel, such as "3.12".')
    variables: list[ResultVariable] = Field(default_factory=list, max_length=1000)
    files: list[ResultFile] = Field(default_factory=list, max_length=10_000)
    omitted_files: int = Field(
        default=0, ge=0, description="Number of files that are not listed, because of their number."
    )
