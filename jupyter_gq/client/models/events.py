"""The event stream."""

from typing import Literal

from pydantic import BaseModel

from jupyter_gq.domain.json_types import JsonObject

EVENT_NAMES = ("job", "notebook", "output", "queues", "reset")


class ServiceEvent(BaseModel):
    """The JSON data of an event of the stream; the SSE event name is `kind`.

    job: JobView, or JobSummary if the job has more than 200 cells. notebook: NotebookView. output: OutputNotice.
    queues: {}, totals changed: fetch them again. reset: {}, the stream could not resume after the last event that was
    read: fetch all lists again.
    """

    id: int | None = None
    kind: Literal["job", "notebook", "output", "queues", "reset"]
    data: JsonObject
