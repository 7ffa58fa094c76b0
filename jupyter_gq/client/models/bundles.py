"""The manifest and the notebook that a job brings along."""

from typing import Literal

from pydantic import Field

from jupyter_gq.client.bounds import MOST_ARGUMENTS, MOST_ENTRIES, MOST_VARIABLES, Duration, Line, Name, Value
from jupyter_gq.client.strict_model import StrictModel
from jupyter_gq.domain.json_types import JsonObject


class Kernel(StrictModel):
    """The kernel that the notebook used, and how it is started."""

    name: Name
    display_name: Name = ""
    language: Name = "python"
    argv: list[Line] = Field(
        max_length=MOST_ARGUMENTS, description="Command of the kernelspec, with {connection_file}."
    )
    env: dict[Name, Value] = Field(default_factory=dict, max_length=MOST_VARIABLES)


class CellRef(StrictModel):
    """A cell that will be run."""

    cell_id: Name
    source_hash: Name = Field(description="SHA-256 of the source, hex.")
    seconds: Duration | None = Field(default=None, description="Duration of the cell's last run in the notebook.")


class Manifest(StrictModel):
    """The origin and the needs of a job; see docs/reference/bundle."""

    mode: Literal["replay", "notebook"] = "replay"
    server: Name = Field(default="", description="Name of the server from which the job was sent.")
    notebook_path: Line = Field(description="Relative to the root folder of that server.")
    cwd: Line = Field(description="Absolute working folder of the kernel.")
    kernel: Kernel
    environment: dict[Name, Value] = Field(
        default_factory=dict, max_length=MOST_VARIABLES, description="Allow-listed variables of the server."
    )
    prefix: list[CellRef] = Field(
        default_factory=list, max_length=MOST_ENTRIES, description="Cells replayed first, in run order."
    )
    targets: list[CellRef] = Field(
        min_length=1, max_length=MOST_ENTRIES, description="Cells whose output goes back to the notebook."
    )


class Bundle(StrictModel):
    """The manifest and the notebook that a job brings along."""

    manifest: Manifest
    notebook: JsonObject = Field(
        description="nbformat 4: the cells of prefix, then of targets, in run order, without outputs."
    )
