"""The one form of every error."""

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """The one form of every error."""

    code: str = Field(description="Stable word for programs, such as unknown_queue.")
    message: str = Field(description="What was wrong, what was expected and what to do.")
    field: str | None = Field(default=None, description="Part of the request that the error is about, such as gpus.")
