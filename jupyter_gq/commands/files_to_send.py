"""The bundle of a job, made from a notebook or a script on this machine.

Rules
-----
- Notebook: all code cells that are not empty run, in order, as "Send to training" sends a whole notebook.
- Script: the script is one cell. A short cell before it sets `__file__` and `sys.argv`, as Python does.
- Here: a job of a file on this machine starts the kernel that is installed here, in the folder of the file, with the
  variables that a notebook server sends: the usual ones, proxies, and those that the code reads.
- Elsewhere: if the folder lies on another machine, nothing of this machine goes along but the code and the variables
  that are named; the kernel is the `python3` which that machine finds. In another image, the usual variables go along
  too, but for those that say where this machine has its software.
"""

import json
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from jupyter_gq.client.models import Bundle, Kernel
from jupyter_gq.client.user_files import LARGE_FILE
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.bundle import Origin, make_bundle, plan_steps
from jupyter_gq.lab.environment import ServerEnvironment
from jupyter_gq.lab.hub_environment import SENT_BY_DEFAULT, read_hub_environment
from jupyter_gq.lab.plan import list_python_sources
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, PrefixCell, describe_validation_error
from jupyter_gq.lab.software import PORTABLE_COMMAND, explain_unknown

from .kernels import describe_installed_kernel, find_kernel_names, list_kernels_of
from .refusal import CommandRefused

DEFAULT_KERNEL = "python3"
_SCRIPT_CELL = "script"
#: Jupyter sets this variable in the terminals of a server.
_SERVER_ROOT = "JUPYTER_SERVER_ROOT"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileToSend:
    """A notebook or a script, and how it will run."""

    path: Path
    #: Arguments of a script.
    arguments: tuple[str, ...] = ()
    #: Working folder on the machine of the job; None = the folder of the file, on this machine.
    folder: str | None = None
    #: Name of the kernel; None = that of the notebook, or "python3".
    kernel: str | None = None
    #: Name of the software that the job runs with: another kernel, or one of `images`; "" = that of the kernel.
    software: str = ""
    #: Names of the images that the service offers.
    images: tuple[str, ...] = ()

    #: Variables that go along beside the usual ones, as NAME or NAME=VALUE.
    variables: tuple[str, ...] = ()
    #: Names of the secrets that the job has.
    secrets: tuple[str, ...] = ()

    @property
    def needs_image(self) -> bool:
        """Whether the software is no kernel that is installed here, so that the service has to offer it."""
        is_kernel = self.folder is None and self.software in find_kernel_names()
        return bool(self.software) and not is_kernel


def make_file_bundle(file: FileToSend) -> Bundle:
    """Return the bundle of a job that runs this file; raise `CommandRefused` if it cannot be read or cannot run."""
    if file.path.suffix not in {".ipynb", ".py"}:
        raise CommandRefused(f"{file.path} is neither a notebook (.ipynb) nor a Python script (.py).")
    text = _read(file.path)
    if file.path.suffix == ".py":
        notebook = _wrap_script(text)
    elif file.arguments:
        raise CommandRefused("A notebook takes no arguments; only a script does.")
    else:
        notebook = _parse_notebook(file.path, text)
    here = ServerEnvironment(environ=os.environ, usual=SENT_BY_DEFAULT if file.folder is None else ())
    kernel = _find_kernel(file, notebook, here.select_usual())
    here = here.for_image() if file.needs_image else here
    try:
        request = _make_request(file, notebook)
        steps = plan_steps(request, kernel)
        origin = Origin(
            server=read_hub_environment(os.environ).server,
            cwd=file.folder or str(file.path.resolve().parent),
            kernel=kernel,
            environment=_choose_variables(file, here, list_python_sources(steps, kernel)),
            secrets=file.secrets,
        )
        return make_bundle(request, steps, origin)
    except RefusedRequest as error:
        raise CommandRefused(f"{file.path}: {error}") from None
    except ValidationError as error:
        raise CommandRefused(f"{file.path}: {describe_validation_error(error).message}") from None


def _choose_variables(file: FileToSend, here: ServerEnvironment, sources: list[str]) -> dict[str, str]:
    """Return the variables of the job; raise `RefusedRequest` if one that is named cannot be sent.

    A named variable has the value that is written, or the one that it has here.
    """
    if any(each.startswith("=") or not each for each in file.variables):
        raise RefusedRequest(
            "invalid_variable", "Write --env NAME=VALUE, or --env NAME for the value that it has here."
        )
    written = dict(each.split("=", 1) for each in file.variables if "=" in each)
    proposed = here.choose(sources, None) if file.folder is None else {}
    of_here = replace(here, usual=()).choose((), [each for each in file.variables if "=" not in each])
    return proposed | of_here | ServerEnvironment(environ=written, usual=()).choose((), list(written))


def _read(path: Path) -> str:
    """Return the text of the file; raise `CommandRefused` if it cannot be read."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, and a device may never end
            raise CommandRefused(f"{path} is no regular file.")
        if found.st_size > LARGE_FILE:
            raise CommandRefused(f"{path} has more than {LARGE_FILE // 1024**2} MiB, which is too large to be sent.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CommandRefused(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandRefused(f"{path} is not UTF-8 text.") from None


def _parse_notebook(path: Path, text: str) -> JsonObject:
    """Return the notebook in a file; raise `CommandRefused` if the file has another content."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise CommandRefused(f"{path} is not a notebook: it is not JSON.") from None
    if not isinstance(notebook, dict):
        raise CommandRefused(f"{path} is not a notebook: it is not a JSON object.")
    return notebook


def _wrap_script(text: str) -> JsonObject:
    """Return a notebook whose only cell is the script."""
    cell = {"cell_type": "code", "id": _SCRIPT_CELL, "metadata": {}, "source": text}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}


def _make_request(file: FileToSend, notebook: JsonObject) -> CellsRequest:
    if file.path.suffix == ".ipynb":
        return CellsRequest(notebook_path=_shown_path(file), mode="notebook", notebook=notebook)
    folder = file.folder or str(file.path.resolve().parent)
    script = f"{folder.rstrip('/')}/{file.path.name}"
    lines = [f"__file__ = {script!r}", f"__import__('sys').argv = {[script, *file.arguments]!r}"]
    return CellsRequest(
        notebook_path=_shown_path(file),
        notebook=notebook,
        targets=[_SCRIPT_CELL],
        prefix=[PrefixCell(cell_id="arguments", source="\n".join(lines))],
    )


def _shown_path(file: FileToSend) -> str:
    """Return the path of the file below the root folder of this notebook server, or only its name."""
    root = os.environ.get(_SERVER_ROOT)
    path = file.path.resolve()
    if file.folder is None and root and path.is_relative_to(Path(root).resolve()):
        return str(path.relative_to(Path(root).resolve()))
    return path.name


def _find_kernel(file: FileToSend, notebook: JsonObject, environment: dict[str, str]) -> Kernel:
    """Return the kernel that is asked for; raise `CommandRefused` if there is none."""
    metadata = notebook.get("metadata")
    named = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    named = named if isinstance(named, dict) else {}
    name = file.kernel or str(named.get("name") or DEFAULT_KERNEL)
    language = str(named.get("language") or "python")
    if file.needs_image and file.software not in file.images:
        kernels = list_kernels_of(language) if file.folder is None else []
        raise CommandRefused(explain_unknown(file.software, [*kernels, *file.images]))
    if file.folder is not None or file.needs_image:
        if language.lower() != "python":
            option = "--folder" if file.folder is not None else "another image"
            raise CommandRefused(f"With {option}, only Python can be sent, and {file.path} needs {language}.")
        return Kernel(name=name, language="python", argv=list(PORTABLE_COMMAND))
    kernel = describe_installed_kernel(file.software or name, environment)
    if file.software and kernel.language.lower() != language.lower():
        other = "has another language" if kernel.language else "does not say its language in its kernel.json"
        raise CommandRefused(f"{file.path} needs {language}, and the kernel {quoted(file.software)} {other}.")
    return kernel
