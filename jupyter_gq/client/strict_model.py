"""The base class of messages that refuse unknown fields."""

from pydantic import BaseModel, ConfigDict

#: Type of an error whose message says both what was expected and what was given.
REFUSED = "refused"


class StrictModel(BaseModel):
    """A message without unknown fields, so that a misspelt field is an error."""

    model_config = ConfigDict(extra="forbid")
