"""The manifest and the notebook that a job brings along."""

from typing import Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from jupyter_gq.client.bounds import (
    MOST_ARGUMENTS,
    MOST_ENTRIES,
    MOST_RETURNS,
    MOST_SECRETS,
    MOST_VARIABLES,
    Duration,
    Line,
    Name,
    Value,
)
from jupyter_gq.client.bundle import InvalidNotebook, explain_invalid_names, normalize_notebook
from jupyter_gq.client.environment.secret_names import explain_secret, holds_secret
from jupyter_gq.client.environment.user_secrets import is_valid_name
from jupyter_gq.client.environment.variables import NO_VARIABLE, RESERVED, matches
from jupyter_gq.client.files.frozen_files import MOST_FILES, find_clash
from jupyter_gq.client.strict_model import REFUSED, StrictModel
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted

from .files import Carried, FrozenFile


class Kernel(StrictModel):
    """The kernel that the notebook used, and how it is started."""

    name: Name
    display_name: Name = ""
    language: Name = "python"
    argv: list[Line] = Field(
        max_length=MOST_ARGUMENTS, description="Command of the kernelspec, with {connection_file}."
    )
    env_names: list[Name] = Field(
        default_factory=list,
        max_length=MOST_VARIABLES,
        description="Names of the variables of the kernelspec; their values are read on the machine of the job.",
    )
    resource_dir: Line = Field(default="", description="Folder of the kernelspec; empty = it is found by its name.")
    env: dict[Name, Value] = Field(
        default_factory=dict,
        max_length=MOST_VARIABLES,
        description="Values of such variables, from older versions. Values that may be secrets are not stored.",
    )

    @model_validator(mode="after")
    def _drop_secrets(self) -> "Kernel":
        """Keep only the names of variables that may hold secrets, which older servers send with their values."""
        dropped = [name for name, value in self.env.items() if holds_secret(name, value)]
        self.env = {name: value for name, value in self.env.items() if name not in dropped}
        self.env_names += [name for name in dropped if name not in self.env_names]
        return self


class CellRef(StrictModel):
    """A cell that will be run."""

    cell_id: Name
    source_hash: Name = Field(description="SHA-256 of the source, hex.")
    seconds: Duration | None = Field(default=None, description="Duration of the cell's last run in the notebook.")


class Manifest(StrictModel):
    """The origin and the needs of a job: its cells, its kernel and its working folder."""

    mode: Literal["replay", "notebook"] = "replay"
    server: Name = Field(default="", description="Name of the server from which the job was sent.")
    notebook_path: Line = Field(description="Relative to the root folder of that server.")
    cwd: Line = Field(description="Absolute working folder of the kernel.")
    kernel: Kernel
    environment: dict[Name, Value] = Field(
        default_factory=dict,
        max_length=MOST_VARIABLES,
        description="Variables of the server that go along, without secrets.",
    )
    prefix: list[CellRef] = Field(
        default_factory=list, max_length=MOST_ENTRIES, description="Cells replayed first, in run order."
    )
    left_out_cells: list[Name] | None = Field(
        default=None,
        max_length=MOST_ENTRIES,
        description="Ids of the notebook's cells that the user left out of those proposed to run first, one for each "
        "run left out; null = unknown.",
    )
    targets: list[CellRef] = Field(
        min_length=1, max_length=MOST_ENTRIES, description="Cells whose output goes back to the notebook."
    )

    secrets: list[Name] = Field(
        default_factory=list,
        max_length=MOST_SECRETS,
        description="Names of the secrets that the job finds in variables of these names; see `Me.secrets`.",
    )
    returns: list[Name] = Field(
        default_factory=list,
        max_length=MOST_RETURNS,
        description="Names of variables that are saved after the last cell, for the notebook. Python only.",
    )

    files: list[FrozenFile] = Field(
        default_factory=list,
        max_length=MOST_FILES,
        description="Files of the folder of the notebook as they were at sending. With some, the job runs in a folder "
        "of its own that has them.",
    )

    own_folder: bool = Field(
        default=False,
        description="The job runs in a folder of its own, with links to what is in `cwd`, also without `files`. False "
        "and no `files` = it runs in `cwd`.",
    )

    written: list[Line] = Field(
        default_factory=list,
        max_length=MOST_FILES,
        description="Paths below `cwd` that the cells write and do not read. A folder of the job's own has no links to "
        "them, so that what the job writes there is its own.",
    )

    folders: list[Line] = Field(
        default_factory=list,
        max_length=MOST_FILES,
        description="Folders below `cwd` that were there when the job was sent, and into which the cells write. A "
        "folder of the job's own has such folders, and no links to them.",
    )

    carried: Carried | None = Field(
        default=None, description="Variables that the kernel of the job has before its first cell. Python only."
    )

    @field_validator("files")
    @classmethod
    def _check_files(cls, files: list[FrozenFile]) -> list[FrozenFile]:
        """Refuse a path that is there twice, and a file that is the folder of another one."""
        paths = [file.path for file in files]
        repeated = len(paths) - len(set(paths))
        clash = find_clash(paths)
        if repeated or clash:
            why = f"{clash!r} is a file and a folder" if clash else f"{repeated} paths are there twice"
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return files

    @field_validator("returns")
    @classmethod
    def _check_returns(cls, names: list[str]) -> list[str]:
        """Refuse what cannot be the name of a variable, and a name that is there twice."""
        why = explain_invalid_names(names)
        if why:
            raise PydanticCustomError(REFUSED, "{why}", {"why": why})
        return names

    @field_validator("secrets")
    @classmethod
    def _check_secrets(cls, names: list[str]) -> list[str]:
        """Refuse what cannot be the name of a secret, and variables that the Hub or the service sets."""
        for name in names:
            if not is_valid_name(name) or matches(name, RESERVED):
                raise PydanticCustomError(REFUSED, "{why}", {"why": f"{name!r} cannot be the name of a secret"})
        return list(dict.fromkeys(names))

    @field_validator("environment")
    @classmethod
    def _check_environment(cls, environment: dict[str, str]) -> dict[str, str]:
        """Refuse values that may be secrets, which the service never stores, and names that no variable can have."""
        for name, value in environment.items():
            if NO_VARIABLE.search(name):
                why = f"{quoted(name)} is no name of a variable: letters, digits and _ were expected"
                raise PydanticCustomError(REFUSED, "{why}", {"why": why})
            if holds_secret(name, value):
                raise PydanticCustomError(REFUSED, "{why}", {"why": explain_secret(name)})
        return environment

    @field_validator("cwd")
    @classmethod
    def _check_cwd(cls, cwd: str) -> str:
        """Refuse a relative path: the service has no folder to which it could be relative."""
        if not cwd.startswith("/"):
            raise PydanticCustomError(
                REFUSED, "{why}", {"why": f"an absolute path was expected, such as /home/ann, not {cwd!r}"}
            )
        return cwd


class Bundle(StrictModel):
    """The manifest and the notebook that a job brings along."""

    manifest: Manifest
    notebook: JsonObject = Field(
        description="nbformat 4: the cells of prefix, then of targets, in run order, without outputs."
    )

    @model_validator(mode="after")
    def _check_cells(self) -> "Bundle":
        """Make each source one text; a notebook that could only fail in the runner is refused here."""
        wanted = [ref.cell_id for ref in (*self.manifest.prefix, *self.manifest.targets)]
        try:
            self.notebook = normalize_notebook(self.notebook, wanted)
        except InvalidNotebook as error:
            raise PydanticCustomError(REFUSED, "{why}", {"why": str(error)}) from error
        return self
