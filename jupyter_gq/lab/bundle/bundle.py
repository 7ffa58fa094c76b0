"""The bundle of a job, made from a request to send cells. Pure: a request and a kernel give a bundle or a refusal.

Rules
-----
- Replay: first the cells tagged `gq-setup` that did not run, in document order; then the prefix as it was run, in run
  order, each cell as often as it ran; then the targets, in document order.
- Notebook: every code cell that is not empty, in document order; all of them are targets.
- Never: cells tagged `gq-skip` do not run. Cells that send themselves (`%%train`) are not replayed, and neither are
  earlier runs of a target: a target runs once. A comment is in the place of a cell that sent itself and has assigned
  what its job returned. Statements that send jobs are left out of replayed cells, and so are cells that need what only
  the targets make.
- Unique ids: ids are unique in the bundle, and a target keeps its id because its output returns by it. A replayed cell
  gets its id with a suffix if the id is taken.
- No hopeless jobs: nothing is sent that cannot run; each refusal names the cell and says what to do.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ValidationError

from jupyter_gq.client.bounds import MOST_ENTRIES, MOST_RETURNS, NAME_CHARACTER
from jupyter_gq.client.bundle import explain_invalid_names
from jupyter_gq.client.models import Bundle, Carried, CellRef, FrozenFile, Kernel, Manifest
from jupyter_gq.domain.job_names import find_origin
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.lab.reading import cells
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, describe_validation_error

from .dependents import find_dependents
from .job_senders import brings_back, leave_out_senders
from .software import NOTEBOOKS_OWN, Software

SETUP, SKIP = "gq-setup", "gq-skip"
#: Tag of Jupyter for a cell whose error stops nothing.
MAY_RAISE = "raises-exception"
#: A cell that begins with this magic sends itself to training, so no job replays it.
TRAIN_MAGIC = "%%train"
_ASKS_FOR_OPTIONS = re.compile(r"%train\b")
#: Longest id of a cell that nbformat allows.
MAX_ID = 64
#: What a replayed cell is in the job if it needs what only the targets make.
LACKS = "# Left out: it needs {names}, and only the chosen cell makes that."
#: What is wrong with a cell with a lone surrogate, as the end of a sentence; it shows as a box or a question mark.
_HALF_A_CHARACTER = (
    "has half of a character, such as a part of an emoji, which cannot be saved. Delete what shows as a box or as "
    "a question mark, and write it again."
)
#: The ids that `CellRef` takes.
_ID = re.compile(rf"{NAME_CHARACTER}{{0,255}}")
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCell:
    """A code cell of the notebook in its present state."""

    id: str
    #: Number among all cells of the notebook, from 1.
    number: int
    source: str
    tags: frozenset[str]
    #: Whether it is a whole script.
    is_script: bool = False

    @property
    def name(self) -> str:
        """The name in a sentence for the user, such as "Cell 3"."""
        return "The script" if self.is_script else f"Cell {self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A cell that will run in the job."""

    #: Id in the bundle, unique there.
    id: str
    #: Id of the notebook's cell; empty if the cell does not exist any more.
    cell_id: str
    source: str
    #: Duration of the last run in the notebook; None if it is unknown, or if only a part of the cell runs again.
    seconds: float | None
    why: Literal["ran", "setup", "target"]
    #: Place in the request's prefix; None for cells that the request does not replay.
    index: int | None = None
    #: Whether statements that send jobs are left out of `source`.
    is_cut: bool = False
    #: Names that only the targets make, without which the cell cannot run: `source` is a comment in its place.
    lacks: Sequence[str] = ()
    #: The whole cell, if `source` is only a part of it or a comment in its place.
    whole: str | None = None

    @property
    def written(self) -> str:
        """The cell as its user wrote it."""
        return self.source if self.whole is None else self.whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """The runtime of cells: their server, and the folder, the kernel and the variables with which they run."""

    #: Name of the server on the Hub.
    server: str
    #: Working folder, absolute.
    cwd: str
    #: Whether the working folder is the one in which the kernel was started, and not that of the notebook.
    is_elsewhere: bool = False
    kernel: Kernel
    environment: Mapping[str, str]
    #: Names of the secrets that the job has.
    secrets: Sequence[str] = ()
    software: Software = NOTEBOOKS_OWN


def plan_steps(request: CellsRequest, kernel: Kernel) -> list[Step]:
    """Return the cells that the job will run, in order.

    Raises `RefusedRequest` if there is none, if there are too many, or if one of them cannot run.
    """
    code, other = read_cells(request.notebook)
    python = is_python(kernel)
    # Another Python than the notebook's may know syntax that this server does not know.
    strict = python and not request.software and not cells.is_newer_python(read_python_version(request.notebook))
    if request.mode == "notebook":
        targets = [c for c in code.values() if SKIP not in c.tags and not cells.is_empty(c.source, python)]
        if not targets:
            raise RefusedRequest("empty_notebook", "This notebook has no code cell to run.", field="notebook")
    else:
        is_script = find_origin(request.targets, [cell.cell_id for cell in request.prefix]) == "script"
        called = {key: replace(cell, is_script=is_script) for key, cell in code.items()}
        targets = _select_targets(request.targets, called, other, python)
    replayed = _select_replayed(request, code, targets, python) if request.mode == "replay" else []
    _refuse_too_many(targets, replayed)
    _refuse_odd_characters(targets, replayed)
    if strict:
        _refuse_syntax_errors(targets, replayed)
    if python:
        _refuse_senders(targets)
    return _make_ids_unique(replayed, targets, _get_last_seconds(request))


def _refuse_too_many(targets: Sequence[object], replayed: Sequence[object]) -> None:
    if len(targets) > MOST_ENTRIES:
        said = f"A job runs at most {MOST_ENTRIES:,} cells, and {len(targets):,} are chosen. Send them in several jobs."
        raise RefusedRequest("too_many_cells", said, field="targets")
    if len(replayed) > MOST_ENTRIES:
        said = f"At most {MOST_ENTRIES:,} cells can run first, and {len(replayed):,} would. Leave some of them out."
        raise RefusedRequest("too_many_cells", said, field="prefix")


def make_bundle(
    request: CellsRequest,
    steps: Sequence[Step],
    runtime: Runtime,
    *,
    returns: Sequence[str] = (),
    files: Sequence[FrozenFile] = (),
    carried: Carried | None = None,
) -> Bundle:
    """Return the bundle of a job that runs these steps, returns these variables, and takes files and variables along.

    The notebook has no outputs. Raises `RefusedRequest` for too many names, for one that cannot be that of a variable,
    and for what no bundle can hold, such as a folder with a line break in its name.
    """
    if len(returns) > MOST_RETURNS:
        told = f"A job brings back at most {MOST_RETURNS} variables, and {len(returns)} are named."
        raise RefusedRequest("too_many_names", f"{told} Put several of them into one dict.", field="returns")
    why = explain_invalid_names(returns)
    if why:
        raise RefusedRequest("invalid_name", f"{why[:1].upper()}{why[1:]}.", field="returns")
    try:
        refs = {s.id: CellRef(cell_id=s.id, source_hash=hash_source(s.source), seconds=s.seconds) for s in steps}
        manifest = Manifest(
            mode=request.mode,
            server=runtime.server,
            notebook_path=request.notebook_path,
            cwd=runtime.cwd,
            kernel=runtime.kernel,
            environment=dict(runtime.environment),
            prefix=[refs[s.id] for s in steps if s.why != "target"],
            left_out_cells=_list_left_out(request),
            targets=[refs[s.id] for s in steps if s.why == "target"],
            returns=list(returns),
            files=list(files),
            carried=carried,
            secrets=list(runtime.secrets),
        )
    except ValidationError as error:
        problem = describe_validation_error(error)
        raise RefusedRequest("invalid_bundle", problem.message, field=problem.field) from error
    return Bundle(manifest=manifest, notebook=_make_notebook(request.notebook, steps))


def _list_left_out(request: CellsRequest) -> list[str] | None:
    """Return the ids of the cells that the user left out, as far as a job can name them; None if that is unknown."""
    if request.left_out_cells is None:
        return None
    return [cell for cell in request.left_out_cells if _is_id(cell)][:MOST_ENTRIES]


def hash_source(source: str) -> str:
    """Return the SHA-256 of a cell's source as hex; the browser compares it to see whether a cell was edited."""
    return hashlib.sha256(source.encode()).hexdigest()


def sends_itself(source: str) -> bool:
    """Return whether a cell sends itself to training by its magic, or only asks for the options of that magic."""
    lines = [line for line in map(str.strip, source.splitlines()) if line]
    return source.lstrip().startswith(TRAIN_MAGIC) or (bool(lines) and all(map(_ASKS_FOR_OPTIONS.match, lines)))


def _leaves_nothing(source: str) -> bool:
    """Return whether a cell sends itself, and later cells cannot need what its job returns."""
    return sends_itself(source) and not brings_back(source)


def read_cells(notebook: JsonMapping) -> tuple[dict[str, CodeCell], dict[str, str]]:
    """Return the code cells by id, and the types of all other cells by id.

    A second cell of an id gets a new id, and so does a cell without one. Raises `RefusedRequest` if the document is no
    notebook of nbformat 4, or a code cell has a source that is neither text nor lines.
    """
    listed = notebook.get("cells")
    if not isinstance(listed, list):
        raise RefusedRequest("invalid_notebook", _explain_no_cells(notebook), field="notebook")
    damaged = next((number for number, cell in enumerate(listed, 1) if not isinstance(cell, dict)), None)
    if damaged is not None:
        said = f"This notebook is damaged: its cell {damaged} is no object."
        raise RefusedRequest("invalid_notebook", said, field="notebook")
    code: dict[str, CodeCell] = {}
    other: dict[str, str] = {}
    ids = {str(cell.get("id")) for cell in listed}
    for number, cell in enumerate(listed, 1):
        cell_id = str(cell.get("id") or f"cell-{number}")
        if cell_id in code or cell_id in other:
            cell_id = _choose_free_id(f"{cell_id}-{number}", ids)
            ids.add(cell_id)
        if cell.get("cell_type") != "code":
            other[cell_id] = str(cell.get("cell_type"))
            continue
        tags = read_object(cell, "metadata").get("tags")
        code[cell_id] = CodeCell(
            id=cell_id,
            number=number,
            source=_read_source(cell, number),
            tags=frozenset(map(str, tags if isinstance(tags, list) else ())),
        )
    return code, other


def _explain_no_cells(notebook: JsonMapping) -> str:
    """Return why a document without a list of cells cannot be sent: up to nbformat 3, cells were in worksheets."""
    written = notebook.get("nbformat")
    if isinstance(written, int) and written < 4:
        return f"This notebook has the old format nbformat {written}. Open it in JupyterLab, save it, and send it then."
    return "This is not a notebook: it has no list of cells."


def _read_source(cell: JsonMapping, number: int) -> str:
    """Return the source of the cell with this number; raise `RefusedRequest` if it is neither text nor lines."""
    lines = cell.get("source", "")
    lines = [lines] if isinstance(lines, str) else lines
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        said = f"Cell {number} has a source that is neither text nor a list of lines. Open the notebook and save it."
        raise RefusedRequest("invalid_notebook", said, field="notebook")
    return "".join(map(str, lines))


def _select_targets(
    ids: Sequence[str], code: Mapping[str, CodeCell], other: Mapping[str, str], python: bool
) -> list[CodeCell]:
    """Return the cells with these ids in document order; raise `RefusedRequest` if one of them cannot be sent."""
    if not ids:
        raise RefusedRequest("no_cell", "No cell was chosen. Select the code cell to send.", field="targets")
    for cell_id in ids:
        if cell_id in other:
            raise RefusedRequest(
                "not_a_code_cell",
                f"This is a {other[cell_id]} cell, and only code cells can be run. Select a code cell.",
                field="targets",
            )
        if cell_id not in code:
            raise RefusedRequest(
                "unknown_cell", "The cell to send is no longer in this notebook. Select it again.", field="targets"
            )
        cell = code[cell_id]
        if cells.is_empty(cell.source, python):
            has = "has only comments" if cell.source.strip() else "is empty"
            said = f"{cell.name} {has}: there is nothing to run. Write some code first."
            raise RefusedRequest("empty_cell", said, field="targets")
        if SKIP in cell.tags:
            raise RefusedRequest(
                "skipped_cell",
                f"Cell {cell.number} is tagged {SKIP}, so it is never sent. Remove the tag first.",
                field="targets",
            )
    chosen = set(ids)
    return [cell for cell in code.values() if cell.id in chosen]


def _refuse_odd_characters(targets: Iterable[CodeCell], replayed: Iterable[Step]) -> None:
    """Raise `RefusedRequest` for a chosen cell whose id no job can have, and for a cell that is no text in UTF-8."""
    for cell in targets:
        if not _is_id(cell.id):
            raise RefusedRequest(
                "invalid_cell_id",
                f"Cell {cell.number} has an id with control characters, or one that is too long, so it cannot be sent. "
                "Copy the cell, and send the copy: it gets a new id.",
                field="targets",
            )
        if not _is_in_utf8(cell.source):
            raise RefusedRequest("invalid_text", f"Cell {cell.number} {_HALF_A_CHARACTER}", field="targets")
    for step in replayed:
        if not _is_in_utf8(step.source):
            title = strip_controls(cells.make_title(step.written))
            raise RefusedRequest("invalid_text", f"The replayed cell “{title}” {_HALF_A_CHARACTER}", field="prefix")


def _is_id(text: str) -> bool:
    """Return whether a job can name a cell by this id."""
    return _ID.fullmatch(text) is not None and _is_in_utf8(text)


def _is_in_utf8(text: str) -> bool:
    """Return whether a text can be written in UTF-8: lone halves of surrogate pairs cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_syntax_errors(targets: Iterable[CodeCell], replayed: Iterable[Step]) -> None:
    """Raise `RefusedRequest` if one of the cells has a syntax error."""
    for cell in targets:
        fault = cells.find_syntax_error(cell.source)
        if fault is not None:
            raise RefusedRequest(
                "syntax_error",
                f"{cell.name} would fail at once, so it was not sent. Syntax error: {fault.sentence}",
                field="targets",
            )
    for step in replayed:
        fault = cells.find_syntax_error(step.source)
        if fault is not None:
            raise RefusedRequest(
                "syntax_error",
                f"The replayed cell “{cells.make_title(step.written)}” would fail at once, so nothing was sent. "
                f"Leave it out or correct it. Syntax error: {fault.sentence}",
                field="prefix",
            )


def _refuse_senders(targets: Sequence[CodeCell]) -> None:
    """Raise `RefusedRequest` if one of the cells sends jobs, since it would fail in a job.

    Unlike cells that run first, a cell that was chosen is not sent in part.
    See docs/decisions/0186-refuse-chosen-cells-that-send-jobs.md.
    """
    asked = [cell for cell in targets if not sends_itself(cell.source)]  # in a job, such a cell runs there
    kept, _ = leave_out_senders([cell.source for cell in asked])
    for cell, source in zip(asked, kept, strict=True):
        if source != cell.source:
            raise RefusedRequest(
                "sends_jobs",
                f"{cell.name} sends jobs or needs such a job, and a job cannot send jobs. Put these "
                "statements below `if not jupyter_gq.in_job():`"
                + ("." if cell.is_script else f", or give the cell the tag {SKIP}, so that it stays out."),
                field="targets",
            )


def _select_replayed(
    request: CellsRequest, code: Mapping[str, CodeCell], targets: Sequence[CodeCell], python: bool
) -> list[Step]:
    """Return the cells that run before the targets: setup cells that did not run, then the prefix as it ran.

    Targets, cells tagged `gq-skip` and empty cells are left out.
    """
    sent = {cell.id for cell in targets}
    skipped = {cell.id for cell in code.values() if SKIP in cell.tags}
    ran = [
        (index, cell)
        for index, cell in enumerate(request.prefix)
        if cell.cell_id not in sent | skipped and cell.source.strip() and not _leaves_nothing(cell.source)
    ]
    known = {cell.cell_id for _, cell in ran}
    setup = [
        Step(id=cell.id, cell_id=cell.id, source=cell.source, seconds=None, why="setup")
        for cell in code.values()
        if SETUP in cell.tags and cell.id not in known | sent | skipped and not cells.is_empty(cell.source, python)
    ]
    replayed = [
        Step(id=cell.cell_id, cell_id=cell.cell_id, source=cell.source, seconds=cell.seconds, why="ran", index=index)
        for index, cell in ran
    ]
    steps = [*setup, *replayed]
    if not python:
        return steps
    kept, _ = leave_out_senders([step.source for step in steps])
    steps = [
        step if step.source == source else replace(step, source=source, whole=step.source, seconds=None, is_cut=True)
        for step, source in zip(steps, kept, strict=True)
    ]
    # Variables that go along are there before the first cell.
    return steps if request.capture is not None else _leave_out_dependents(steps, targets)


def _leave_out_dependents(steps: Sequence[Step], targets: Sequence[CodeCell]) -> list[Step]:
    """Return the steps with a comment in place of each that needs what only the targets make."""
    lacking = find_dependents([step.source for step in steps], [cell.source for cell in targets])
    return [_leave_out(step, names) if names else step for step, names in zip(steps, lacking, strict=True)]


def _leave_out(step: Step, lacks: Sequence[str]) -> Step:
    return replace(step, source=LACKS.format(names=", ".join(lacks)), whole=step.written, seconds=None, lacks=lacks)


def _get_last_seconds(request: CellsRequest) -> dict[str, float | None]:
    """Return the duration of each prefix cell's last run, by cell id; None if it is unknown."""
    return {cell.cell_id: cell.seconds for cell in request.prefix}


def _make_ids_unique(
    replayed: Iterable[Step], targets: Sequence[CodeCell], seconds: Mapping[str, float | None]
) -> list[Step]:
    """Return the replayed cells, then the targets, each with an id that is unique in the bundle."""
    taken = {cell.id for cell in targets}
    steps = []
    for step in replayed:
        unique = _choose_free_id(step.id, taken)
        taken.add(unique)
        steps.append(replace(step, id=unique))
    for cell in targets:
        took = seconds.get(cell.id)
        steps.append(Step(id=cell.id, cell_id=cell.id, source=cell.source, seconds=took, why="target"))
    return steps


def _choose_free_id(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, made valid as a cell id, with a suffix if it is taken."""
    base = _NOT_IN_ID.sub("-", wanted)[:MAX_ID] or "replayed"
    candidate, number = base, 2
    while candidate in taken:
        suffix = f"-run{number}"
        candidate, number = base[: MAX_ID - len(suffix)] + suffix, number + 1
    return candidate


def _make_notebook(notebook: JsonMapping, steps: Iterable[Step]) -> JsonObject:
    """Return the bundle's notebook: a code cell for each step, with the kernel's metadata and without outputs."""
    metadata = read_object(notebook, "metadata")
    may_raise = {cell.id for cell in read_cells(notebook)[0].values() if MAY_RAISE in cell.tags}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {key: metadata[key] for key in ("kernelspec", "language_info") if key in metadata},
        "cells": [
            {
                "cell_type": "code",
                "id": step.id,
                "metadata": {"tags": [MAY_RAISE]} if step.cell_id in may_raise else {},
                "source": step.source,
                "execution_count": None,
                "outputs": [],
            }
            for step in steps
        ],
    }


def is_python(kernel: Kernel) -> bool:
    """Return whether the cells of this kernel are Python."""
    return kernel.language.lower() == "python"


def read_python_version(notebook: JsonMapping) -> str:
    """Return the version of Python that a notebook names; empty if the notebook names none."""
    return str(read_object(read_object(notebook, "metadata"), "language_info").get("version", ""))


def read_object(holder: JsonMapping, name: str) -> JsonMapping:
    """Return an object in a document by its name; an empty one if there is none, or something else."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}
