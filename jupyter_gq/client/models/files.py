"""The files and the variables that jobs take along: what the service has of them, and what is sent."""

from typing import Annotated, Self

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import MOST_CARRIED, Line
from jupyter_gq.client.bundle import explain_invalid_names
from jupyter_gq.client.files.frozen_files import PART_SIZE, explain_unsafe_path
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.plain_text import quoted

#: Most parts in one question.
MOST_ASKED = 20_000
#: Most parts in one request.
MOST_SENT = 1000

#: The end of the year 9999, in seconds since the epoch.
_LATEST = 253_402_300_799

#: SHA-256 of a part, as hex.
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", max_length=64)]
#: The content of a part, as base64.
Encoded = Annotated[str, Field(max_length=PART_SIZE * 4 // 3 + 4, pattern="^[A-Za-z0-9+/=]*$")]


class Parted(StrictModel):
    """A content that travels in parts."""

    bytes: int = Field(ge=0, lt=2**40)
    parts: list[Digest] = Field(max_length=MOST_ASKED, description="Its parts of 4 MiB, in order.")

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Refuse a number of parts that does not fit the size."""
        expected = -(-self.bytes // PART_SIZE)
        if len(self.parts) != expected:
            why = f"{self.bytes} bytes have {expected} parts, not {len(self.parts)}"
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return self


class FrozenFile(Parted):
    """A file of the project as it was when the job was sent."""

    path: Line = Field(description="Relative to the folder of the notebook, with slashes.")
    executable: bool = False
    modified_at: float | None = Field(
        default=None,
        ge=0,
        le=_LATEST,
        allow_inf_nan=False,
        description="When its content last changed, in seconds since the epoch: cells may look for the newest file.",
    )

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        """Refuse a path that is not one below the folder."""
        why = explain_unsafe_path(path)
        if why:
            raise PydanticCustomError(REFUSED, "{why}", {"why": f"{why}: {quoted(path)}"})
        return path


class CarriedPickle(Parted):
    """Variables of the notebook's kernel in one pickle: one variable, or several that share objects."""

    names: list[Line] = Field(min_length=1, max_length=MOST_CARRIED)

    @field_validator("names")
    @classmethod
    def _check_names(cls, names: list[str]) -> list[str]:
        """Refuse what cannot be the name of a variable, and a name that is there twice."""
        why = explain_invalid_names(names)
        if why:
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return names


class Carried(StrictModel):
    """The variables that a job takes along. Only the kernel of the job unpickles them, in the same environment."""

    python: str = Field(
        max_length=6,
        pattern=r"^[0-9]{1,2}\.[0-9]{1,3}$",
        description='Minor version that made them, such as "3.12".',
    )
    packages: dict[Line, Line] = Field(
        default_factory=dict, max_length=MOST_CARRIED, description="Packages that they need, each with its version."
    )
    pickles: list[CarriedPickle] = Field(max_length=MOST_CARRIED)


class PartsQuestion(StrictModel):
    """A question about the parts of the user's files."""

    parts: list[Digest] = Field(default_factory=list, max_length=MOST_ASKED)


class FileStore(BaseModel):
    """The parts of files that the service lacks, its limits, and the folders that jobs reach without it."""

    missing: list[Digest] = Field(max_length=MOST_ASKED, description="The parts of the question that must be sent.")
    max_job_bytes: int = Field(description="Most bytes of the files that one job takes along.")
    reached: list[str] = Field(
        max_length=1000,
        description="Folders of the notebook's machine that jobs find at the same path; / means all of them.",
    )
    fields: list[str] = Field(
        default_factory=list,
        max_length=1000,
        description="Fields of a job that this service knows, such as Manifest.written. A client leaves out others; "
        "empty = a release that does not tell them.",
    )


class FileParts(StrictModel):
    """Parts of the user's files."""

    contents: list[Encoded] = Field(max_length=MOST_SENT, description="The content of each part, as base64.")
