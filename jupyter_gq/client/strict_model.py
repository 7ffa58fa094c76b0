"""The base class of messages that refuse unknown fields."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A message without unknown fields, so that a misspelt field is an error."""

    model_config = ConfigDict(extra="forbid")
