"""The OpenAPI document of what the lab extension and its Jupyter server send each other.

The schemas are the service's own, for what the server passes on, and the server's. `labextension/scripts/wire.mjs`
makes the TypeScript types of the extension from this document.
"""

import json
import re
from typing import Any

from pydantic import TypeAdapter

from jupyter_gq.api.openapi import SchemaOfWire
from jupyter_gq.api.routes import describe_api
from jupyter_gq.lab.answers import (
    AlreadySent,
    ConnectionNotice,
    CopyConflict,
    CopyNews,
    ResultPath,
    SameFile,
    ServerStatus,
)
from jupyter_gq.lab.carrying.models import Captured, CaptureRequest
from jupyter_gq.lab.kernels.history import KernelHistory
from jupyter_gq.lab.requests import Announcement, CellsRequest, CopyRequest, Plan, SendRequest, SentSweep, SweepRequest

Json = dict[str, Any]

#: Schemas of the service that the extension reads or writes, besides those that these refer to.
OF_SERVICE = frozenset(
    {
        "CancelledJobs",
        "JobChange",
        "JobList",
        "JobRequest",
        "JobLog",
        "JobResults",
        "LogLines",
        "JobSelection",
        "JobUsage",
        "JobView",
        "Me",
        "NotebookList",
        "OutputNotice",
        "OutputPage",
        "Preview",
        "Problem",
        "QueueList",
    }
)
READ_BY_SERVER = (Announcement, CaptureRequest, CellsRequest, CopyRequest, SendRequest, SweepRequest)
SENT_BY_SERVER = (
    Captured,
    AlreadySent,
    ConnectionNotice,
    CopyConflict,
    CopyNews,
    KernelHistory,
    Plan,
    ResultPath,
    SameFile,
    SentSweep,
    ServerStatus,
)

_REFERENCE = "#/components/schemas/"


def document() -> Json:
    """Return the document. It has schemas only: `jupyter_gq/lab/handlers/routes.py` has the routes."""
    schemas = describe_api()["components"]["schemas"]
    wanted = {name: schemas[name] for name in _reach(OF_SERVICE, schemas)}
    own = _describe_server()
    doubled = [name for name in own.keys() & wanted.keys() if own[name] != wanted[name]]
    if doubled:
        raise ValueError(f"The service and the Jupyter server have different schemas named {', '.join(doubled)}.")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "What the lab extension of jupyter-gq and its Jupyter server send each other",
            "version": "1",
            "description": "Times are seconds since the epoch, UTC. Unknown is null, never 0. Made by `make docs`.",
        },
        "paths": {},
        "components": {"schemas": {name: _drop_title(schema) for name, schema in sorted((wanted | own).items())}},
    }


def render() -> str:
    """Return the document as the text of a file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def _describe_server() -> Json:
    """Return the schemas of what the Jupyter server itself reads and sends."""
    _, definitions = TypeAdapter.json_schemas(
        [(cls, "validation", TypeAdapter(cls)) for cls in READ_BY_SERVER]
        + [(cls, "serialization", TypeAdapter(cls)) for cls in SENT_BY_SERVER],
        ref_template=_REFERENCE + "{model}",
        schema_generator=SchemaOfWire,
    )
    schemas: Json = definitions["$defs"]
    return schemas


def _reach(names: frozenset[str], schemas: Json) -> set[str]:
    """Return these names and those of all schemas that they refer to, directly or not."""
    reached: set[str] = set()
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += re.findall(f'"{_REFERENCE}([^"]+)"', json.dumps(schemas[name]))
    return reached


def _drop_title(schema: Json) -> Json:
    """Return the schema without its title, which only repeats its name."""
    return {key: value for key, value in schema.items() if key != "title"}
