"""The bundle of a job, made from a notebook or a script on this machine.

Rules
-----
- Notebook: all code cells that are not empty run, in order, as "Send to training" sends a whole notebook.
- Script: the script is one cell. A short cell before it sets `__file__` and `sys.argv`, as Python does.
- Files: those that the code and its arguments name go along as with a cell, and then the script itself as well. A
  script alone stays where it is, if the job reaches that folder.
- Here: a job of a file on this machine starts the kernel that is installed here, in the folder of the file, with the
  variables that a notebook server sends: the usual ones, proxies, and those that the code reads.
- Elsewhere: if the folder lies on another machine, nothing of this machine goes along but code, files and the variables
  that are named; the kernel is the `python3` which that machine finds. In another image, the usual variables go along
  too, but for those that say where this machine has its software.

See docs/decisions/0481-freeze-the-code-of-scripts.md.
"""

import ast
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from jupyter_gq.client.files.frozen_files import MAX_FILE_MIB
from jupyter_gq.client.files.user_files import LARGE_FILE
from jupyter_gq.client.models import Bundle, FrozenFile, Kernel
from jupyter_gq.domain.job_names import ARGUMENTS_CELL, SCRIPT_CELL
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted, strip_controls
from jupyter_gq.lab.bundle.bundle import Runtime, Step, make_bundle, plan_steps
from jupyter_gq.lab.bundle.environment import ServerEnvironment
from jupyter_gq.lab.bundle.software import PORTABLE_COMMAND, explain_unknown
from jupyter_gq.lab.hub_environment import SENT_BY_DEFAULT, read_hub_environment
from jupyter_gq.lab.plan.plan import find_warnings, list_python_sources
from jupyter_gq.lab.project.freezing import FileService
from jupyter_gq.lab.project.outside_modules import find_outside_modules
from jupyter_gq.lab.project.patterns import Chosen
from jupyter_gq.lab.project.plan import Project, find_project
from jupyter_gq.lab.project.references import Variables, find_references
from jupyter_gq.lab.reading.call_parts import get_last_name
from jupyter_gq.lab.reading.cells import make_title, parse_cell
from jupyter_gq.lab.reading.magics import read_magic
from jupyter_gq.lab.reading.parsing import list_nodes
from jupyter_gq.lab.reading.scripts import reading_scripts
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, FilesPlan, PrefixCell, describe_validation_error

from .kernels import describe_installed_kernel, find_kernel_names, list_kernels_of
from .refusal import CommandRefused

DEFAULT_KERNEL = "python3"
#: What may be left of a JSON text where Python cannot read on, if the text was cut in a word of JSON, also of Python's.
_CUT_WORDS = frozenset(
    word[:end] for word in ("true", "false", "null", "NaN", "Infinity", "-Infinity") for end in range(len(word))
)
#: The same if the text was cut in a number, whose first digits stand before, and in an escape of a string.
_CUT_NUMBER = re.compile(r"(?<=\d)(?:\.|[eE][+-]?)")
_CUT_ESCAPE = re.compile("u[0-9A-Fa-f]{0,4}")
#: Calls whose first argument is a path, also if that is a word without a dot or a slash.
_OPENERS = frozenset({"open", "Path", "listdir", "scandir", "walk", "exists", "isdir", "isfile", "load_from_disk"})
#: Most paths in a sentence on those that a job does not find.
_MOST_MISSED = 5
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
    #: Names of the variables that the job brings back.
    returns: tuple[str, ...] = ()
    #: Patterns of files that go along beside those that the code names.
    also: tuple[str, ...] = ()
    #: Whether the job runs in the live folder, so that no file goes along.
    live: bool = False

    @property
    def place(self) -> Path:
        """The place of the file on this machine, without links on the way."""
        return self.path.resolve()

    @property
    def needs_image(self) -> bool:
        """Whether the software is no kernel that is installed here, so that the service has to offer it."""
        is_kernel = self.folder is None and self.software in find_kernel_names()
        return bool(self.software) and not is_kernel


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFromFile:
    """The cells that a job of a notebook or a script runs, and where it begins."""

    file: FileToSend
    request: CellsRequest
    steps: Sequence[Step]
    runtime: Runtime

    def make_bundle(self, files: Sequence[FrozenFile] = ()) -> Bundle:
        """Return the bundle of the job with files that go along; raise `CommandRefused` for what no bundle can hold."""
        with _refusing(self.file):
            return make_bundle(self.request, self.steps, self.runtime, returns=self.file.returns, files=files)

    def list_notes(self) -> list[str]:
        """Return a sentence for each warning of the dialog, each once, with the name of the script or the cell.

        Warnings about the cell that sets the arguments are left out.
        """
        is_script = self.file.place.suffix == ".py"
        titles = {
            step.cell_id: self.file.path.name if is_script else f"The cell “{make_title(step.written)}”"
            for step in self.steps
        }
        warnings = find_warnings(self.request, self.steps, self.runtime.kernel)
        own = [each for each in warnings if each.index is None]  # only the cell with the arguments has a place
        notes = [f"{titles[each.cell_id]} {each.message}." if each.cell_id else each.message for each in own]
        return list(dict.fromkeys(notes))

    def describe_missed(self) -> list[str]:
        """Return a sentence on the paths that the code names from the present folder; none if there is none.

        The job begins in the folder of the file and does not find them. Nothing is said with a folder elsewhere, if the
        present folder was deleted, or if the code goes to another folder itself.
        See docs/decisions/0471-name-what-is-only-in-the-present-folder.md.
        """
        try:
            here, there = Path.cwd(), self.file.place.parent
        except FileNotFoundError:
            return []
        if self.file.folder is not None or here == there:
            return []
        named = dict.fromkeys(self._list_named_below(here))  # an argument and its default may be the same path
        missed = [path for path in named if not os.path.exists(there / path)]
        if not missed:
            return []
        more = f" and {len(missed) - _MOST_MISSED:,} more" if len(missed) > _MOST_MISSED else ""
        return [
            f"The job begins in the folder of the file and does not find what is in the present folder: "
            f"{', '.join(missed[:_MOST_MISSED])}{more}. Write full paths, or paths from the folder of the file."
        ]

    def _list_named_below(self, folder: Path) -> Iterator[str]:
        """Yield the relative paths in the code and its arguments that lead to a file or a folder from this folder."""
        variables = Variables()
        cells = map(parse_cell, list_python_sources(self.steps, self.runtime.kernel))
        trees = [tree for tree in cells if tree is not None]
        calls = [node for tree in trees for node in list_nodes(tree) if isinstance(node, ast.Call)]
        if any(map(_changes_folder, calls)):
            return
        opened = _list_opened(calls)
        for tree in trees:
            for path in find_references(tree, variables).texts:
                is_path = path in opened or "/" in path or "." in path
                if is_path and not os.path.isabs(path) and os.path.exists(folder / path):
                    yield path

    async def find_project(self, service: FileService) -> Project:
        """Return the files that the job needs; nothing is sent. Raises `ServiceError` if the service refuses.

        A script that would go along alone stays if the job reaches its folder, unless a pattern of the user names it.
        """
        sources, named = list_python_sources(self.steps, self.runtime.kernel), Path(self.runtime.cwd)
        place = self.file.place
        with reading_scripts(place.parent):
            most = int(MAX_FILE_MIB * 1024**2)
            project = await find_project(service, self.request, sources, place.parent, most, named)
        is_alone = place.suffix == ".py" and [each.path for each in project.going] == [place.name]
        if is_alone and project.has_rest and not Chosen(self.file.also).names(place.name):
            return replace(project, needed=replace(project.needed, going={}))
        return project

    async def describe_files(self, project: Project) -> FilesPlan:
        """Return the plan of the files of the job, which `find_project` has returned."""
        sources = list_python_sources(self.steps, self.runtime.kernel)
        return project.describe(await find_outside_modules(project.needed, sources, self.runtime, os.environ))

    async def send_files(self, project: Project, service: FileService) -> Bundle:
        """Freeze the files of the job and send them; return the bundle with them.

        No job is submitted. `project` is what `find_project` returned. Raises `CommandRefused` if a file cannot be read
        or the bundle cannot hold the job, and `ServiceError` if the service refuses a file.
        """
        with _refusing(self.file):
            frozen = await project.send(service)
        bundle = self.make_bundle(frozen)
        project.describe_folder(bundle.manifest)
        return bundle


def _changes_folder(call: ast.Call) -> bool:
    """Return whether a call makes another folder the present one, as `os.chdir` and `%cd` do."""
    magic = read_magic(call)
    return get_last_name(call) in {"chdir", "fchdir"} if magic is None else magic.name in {"cd", "pushd"}


def _list_opened(calls: Iterable[ast.Call]) -> set[str]:
    """Return the texts that are first arguments of calls which open paths."""
    first = [call.args[0] for call in calls if call.args and get_last_name(call) in _OPENERS]
    return {node.value for node in first if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def read_file(file: FileToSend) -> JobFromFile:
    """Return the job that runs this file; raise `CommandRefused` if it cannot be read or cannot run."""
    if file.path.suffix not in {".ipynb", ".py"}:
        raise CommandRefused(f"{file.path} is neither a notebook (.ipynb) nor a Python script (.py).")
    if str(file.place) != strip_controls(str(file.place)):
        raise CommandRefused(
            f"The path {quoted(str(file.place))} has control characters. Rename the file or its folder."
        )
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
    with _refusing(file), reading_scripts(file.place.parent):
        request = _make_request(file, notebook)
        steps = plan_steps(request, kernel)
        runtime = Runtime(
            server=read_hub_environment(os.environ).server,
            cwd=file.folder or str(file.place.parent),
            kernel=kernel,
            environment=_choose_variables(file, here, list_python_sources(steps, kernel)),
            secrets=file.secrets,
        )
        return JobFromFile(file=file, request=request, steps=steps, runtime=runtime)


@contextmanager
def _refusing(file: FileToSend) -> Iterator[None]:
    """Raise `CommandRefused` with the path of the file for refusals in the block."""
    try:
        yield
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
            raise CommandRefused(f"{path} is no regular file. Name a notebook (.ipynb) or a Python script (.py).")
        if found.st_size > LARGE_FILE:
            raise CommandRefused(f"{path} has more than {LARGE_FILE // 1024**2} MiB, which is too large to be sent.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CommandRefused(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandRefused(f"{path} is not UTF-8 text.") from None


def _parse_notebook(path: Path, text: str) -> JsonObject:
    """Return the notebook in a file; raise `CommandRefused` if the file has another content."""
    if not text.strip():
        raise CommandRefused(f"{path} is not a notebook: it is empty.")
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        raise CommandRefused(f"{path} is {_explain_no_json(text, error)}") from None
    except (ValueError, RecursionError):
        raise CommandRefused(f"{path} is not a notebook: it is not JSON.") from None
    if not isinstance(notebook, dict):
        raise CommandRefused(f"{path} is not a notebook: it is not a JSON object.")
    return notebook


def _explain_no_json(text: str, error: json.JSONDecodeError) -> str:
    """Return whether a text that is not JSON ends too early or is something else, and where."""
    whole = text.rstrip()
    if _is_cut(whole, error):
        last = whole.count("\n") + 1
        return f"not a whole notebook: it is cut off in line {last}. Take another copy of it, or save it again."
    return f"not a notebook: it is not JSON (line {error.lineno}, column {error.colno})."


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether a text without spaces at its end could go on where Python could not read on."""
    if error.msg.startswith("Unterminated string") or text[error.pos :] in _CUT_WORDS:
        return True  # only its end leaves a text in quotation marks open
    cut = _CUT_ESCAPE if error.msg.startswith("Invalid \\u") else _CUT_NUMBER
    return cut.fullmatch(text, error.pos) is not None


def _wrap_script(text: str) -> JsonObject:
    """Return a notebook whose only cell is the script."""
    cell = {"cell_type": "code", "id": SCRIPT_CELL, "metadata": {}, "source": text}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}


def _make_request(file: FileToSend, notebook: JsonObject) -> CellsRequest:
    choice = {"notebook_path": _shown_path(file), "file_patterns": list(file.also), "live_folder": file.live}
    if file.path.suffix == ".ipynb":
        return CellsRequest.model_validate({**choice, "mode": "notebook", "notebook": notebook})
    # The working folder of the job is known in the job: it may have one of its own.
    script = f"__file__ = __import__('os').path.abspath({file.place.name!r})"
    arguments = f"__import__('sys').argv = [{', '.join(['__file__', *map(repr, file.arguments)])}]"
    prefix = [PrefixCell(cell_id=ARGUMENTS_CELL, source=f"{script}\n{arguments}")]
    return CellsRequest.model_validate({**choice, "notebook": notebook, "targets": [SCRIPT_CELL], "prefix": prefix})


def _shown_path(file: FileToSend) -> str:
    """Return the path of the file below the root folder of this notebook server, or only its name."""
    root = os.environ.get(_SERVER_ROOT)
    path = file.place
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
