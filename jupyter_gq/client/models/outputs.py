"""Numbered pieces of output: their form, their pages and their delivery."""

from typing import Annotated, Literal, NotRequired

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from jupyter_gq.client.bounds import Count, Name, Time
from jupyter_gq.client.strict_model import StrictModel
from jupyter_gq.domain.json_types import JsonObject


class OutputEvent(TypedDict):
    """A numbered piece of output. `client.outputs.fold` says what each `op` means and which fields it has."""

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
    """A page of output, after whose last piece the next page begins; see client.outputs for the form of the pieces."""

    events: list[AnyOutputEvent]
    last_seq: int = Field(description="Number of the last stored piece of the job, which a later page may hold.")
    finished: bool = Field(description="The job is final and nothing more will come after last_seq.")


class OutputReport(StrictModel):
    """Pieces of output from a job's runner."""

    events: list[SentOutputEvent] = Field(max_length=2000)


class OutputAck(BaseModel):
    """The receipt for pieces of output. The runner continues after `last_seq`."""

    last_seq: int = Field(description="Number of the last piece that is stored.")


class OutputNotice(BaseModel):
    """The data of an event of kind `output`: a job has stored output up to `last_seq`."""

    job: str
    last_seq: int
