"""Entries of the audit log."""

from pydantic import BaseModel, Field

from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.json_types import JsonObject


class AuditEntryView(BaseModel):
    """An entry of the audit log: one act."""

    id: int = Field(description="Increasing, without reuse.")
    at: float
    actor: str = Field(
        description="Name of the user, or `service/` and the name of a service. `jupyter-gq/scheduler`: the scheduler "
        "by itself. `jupyter-gq/config-file`: the author of the configuration file. `os/NAME`: a command that this "
        "account of the service's machine used."
    )
    action: Action
    object: str = Field(description="Id of the job or ticket, name of the node or device, or path of the file.")
    owner: str | None = Field(description="The user whose work it is; null: nobody's.")
    details: JsonObject = Field(description="Further facts by name, such as queue and priority of a job.")


class AuditPage(BaseModel):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntryView]
    next: int | None = Field(description="The `before` of the next page; null: this is the last one.")
