"""The requests about variables that a job takes along, and their answer. Names, types and sizes only, never values."""

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import MOST_CARRIED
from jupyter_gq.lab.requests import CellsRequest


class CaptureRequest(CellsRequest):
    """The request of POST variables: the cells to run, and changes to the variables that would go along."""

    more_variables: list[str] = Field(
        default_factory=list, max_length=MOST_CARRIED, description="Names beside those that the cells use."
    )
    left_out_variables: list[str] = Field(
        default_factory=list,
        max_length=MOST_CARRIED,
        description="Names that stay; the cells that make them run in the job instead.",
    )


class CapturedVariable(BaseModel):
    """A variable that the cells use."""

    name: str
    type: str
    bytes: int = Field(description="Size of its pickle, without other variables that it holds.")
    on_gpu: bool = Field(description="Whether it holds values in the memory of a GPU, so that the job needs a GPU.")
    why: str = Field(description="Why it stays, as a sentence; empty if it goes along.")


class Captured(BaseModel):
    """The answer of POST variables: what goes along with POST send if it names this capture."""

    id: str
    variables: list[CapturedVariable]
    bytes: int = Field(description="Size of everything that goes along.")
    replayed: list[int] = Field(
        description="Places in the request's `prefix` of the cells that make variables which stay; they run in the job."
    )
    notes: list[str]
