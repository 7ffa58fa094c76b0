"""Turns "send these cells" into the bundle of a job. Pure: the request and the kernel in, the bundle or a refusal out.

Rules:

1. Replay: cells tagged `gq-setup` that did not run, in document order; then the prefix as it was run, in run order,
   a cell as often as it ran; then the targets, in document order.
2. Notebook: every code cell that does something, in document order; all of them are targets.
3. Cells tagged `gq-skip` never run. A target's own earlier runs are not replayed: it is sent to run once.
4. Ids are unique in the bundle and a target keeps its own, since its output returns by it. A replayed cell gets its
   id with a suffix where that is taken.
5. Nothing is sent that cannot run: each refusal names the cell and says what to do.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_gq.client.models import Bundle, CellRef, Kernel, Manifest
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from . import cells
from .refusal import RefusedRequest
from .requests import CellsRequest, Plan, PlannedCell, Warned

SETUP, SKIP = "gq-setup", "gq-skip"
#: What nbformat allows in the id of a cell.
MAX_ID = 64
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCell:
    """A code cell of the notebook as it is now."""

    id: str
    #: Number among all cells of the notebook, from 1.
    number: int
    source: str
    tags: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A cell that will run."""

    #: Unique in the bundle.
    id: str
    #: The notebook's cell that it comes from; empty when there is none any more.
    cell_id: str
    source: str
    #: How long it took here.
    seconds: float | None
    why: Literal["ran", "setup", "target"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What surrounds the cells: where they came from and where they will run."""

    server: str
    #: Absolute working folder.
    cwd: str
    kernel: Kernel
    environment: Mapping[str, str]


def plan(request: CellsRequest, kernel: Kernel) -> list[Step]:
    """The cells to run, in order. Raises `RefusedRequest` when there is something that cannot run."""
    code, other = _cells_of(request.notebook)
    python = kernel.language.lower() == "python"
    strict = python and not cells.newer_python(_python_version(request.notebook))
    if request.mode == "notebook":
        targets = [c for c in code.values() if SKIP not in c.tags and not cells.does_nothing(c.source, python)]
        if not targets:
            raise RefusedRequest("empty_notebook", "This notebook has no code cell to run.", field="notebook")
    else:
        targets = _targets(request.targets, code, other, python)
    if strict:
        for cell in targets:
            _refuse_fault(cell)
    replayed = _replayed(request, code, targets, python) if request.mode == "replay" else []
    return _with_unique_ids(replayed, targets, _last_seconds(request))


def bundle_of(request: CellsRequest, steps: Sequence[Step], source: Source) -> Bundle:
    """The bundle in which these cells travel: their sources and what their kernel needs, no outputs."""
    refs = {s.id: CellRef(cell_id=s.id, source_hash=hash_of(s.source), seconds=s.seconds) for s in steps}
    manifest = Manifest(
        mode=request.mode,
        server=source.server,
        notebook_path=request.notebook_path,
        cwd=source.cwd,
        kernel=source.kernel,
        environment=dict(source.environment),
        prefix=[refs[s.id] for s in steps if s.why != "target"],
        targets=[refs[s.id] for s in steps if s.why == "target"],
    )
    return Bundle(manifest=manifest, notebook=_document(request.notebook, steps))


def describe(request: CellsRequest, steps: Sequence[Step], kernel: Kernel) -> Plan:
    """What the dialog shows before anything is sent."""
    shown = [
        PlannedCell(cell_id=s.cell_id or s.id, title=cells.title(s.source), seconds=s.seconds, why=s.why) for s in steps
    ]
    return Plan(
        prefix=[cell for cell in shown if cell.why != "target"],
        targets=[cell for cell in shown if cell.why == "target"],
        warnings=list(_warnings(request, steps, kernel)),
    )


def hash_of(source: str) -> str:
    """SHA-256 of a cell's source, hex: how the browser knows whether a cell was edited."""
    return hashlib.sha256(source.encode()).hexdigest()


def _cells_of(notebook: JsonMapping) -> tuple[dict[str, CodeCell], dict[str, str]]:
    """The code cells by id, and the type of the others by id."""
    listed = notebook.get("cells")
    if not isinstance(listed, list) or not all(isinstance(cell, dict) for cell in listed):
        raise RefusedRequest(
            "invalid_notebook", "This is no nbformat 4 notebook: it has no list of cells.", field="notebook"
        )
    code: dict[str, CodeCell] = {}
    other: dict[str, str] = {}
    for number, cell in enumerate(listed, 1):
        cell_id = str(cell.get("id") or f"cell-{number}")
        if cell.get("cell_type") != "code":
            other[cell_id] = str(cell.get("cell_type"))
            continue
        source = cell.get("source", "")
        tags = (cell.get("metadata") or {}).get("tags") or []
        code[cell_id] = CodeCell(
            id=cell_id,
            number=number,
            source="".join(source) if isinstance(source, list) else str(source),
            tags=frozenset(map(str, tags)),
        )
    return code, other


def _targets(
    ids: Sequence[str], code: Mapping[str, CodeCell], other: Mapping[str, str], python: bool
) -> list[CodeCell]:
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
        if cells.does_nothing(cell.source, python):
            raise RefusedRequest(
                "empty_cell",
                f"Cell {cell.number} is empty: there is nothing to run. Write some code first.",
                field="targets",
            )
        if SKIP in cell.tags:
            raise RefusedRequest(
                "skipped_cell",
                f"Cell {cell.number} is tagged {SKIP}, so it is never sent. Remove the tag first.",
                field="targets",
            )
    chosen = set(ids)
    return [cell for cell in code.values() if cell.id in chosen]


def _refuse_fault(cell: CodeCell) -> None:
    fault = cells.find_fault(cell.source)
    if fault is not None:
        raise RefusedRequest(
            "syntax_error",
            f"Cell {cell.number} would fail at once, so it was not sent. Syntax error: {fault.sentence}",
            field="targets",
        )


def _replayed(
    request: CellsRequest, code: Mapping[str, CodeCell], targets: Sequence[CodeCell], python: bool
) -> list[Step]:
    sent = {cell.id for cell in targets}
    skipped = {cell.id for cell in code.values() if SKIP in cell.tags}
    ran = [cell for cell in request.prefix if cell.cell_id not in sent | skipped and cell.source.strip()]
    known = {cell.cell_id for cell in ran}
    setup = [
        Step(id=cell.id, cell_id=cell.id, source=cell.source, seconds=None, why="setup")
        for cell in code.values()
        if SETUP in cell.tags and cell.id not in known | sent | skipped and not cells.does_nothing(cell.source, python)
    ]
    replayed = [
        Step(id=cell.cell_id, cell_id=cell.cell_id, source=cell.source, seconds=cell.seconds, why="ran") for cell in ran
    ]
    return [*setup, *replayed]


def _last_seconds(request: CellsRequest) -> dict[str, float | None]:
    """How long each cell took when it ran last, for the targets that ran here before."""
    return {cell.cell_id: cell.seconds for cell in request.prefix}


def _with_unique_ids(
    replayed: Iterable[Step], targets: Sequence[CodeCell], seconds: Mapping[str, float | None]
) -> list[Step]:
    taken = {cell.id for cell in targets}
    steps = []
    for step in replayed:
        unique = _free_id(step.id, taken)
        taken.add(unique)
        steps.append(Step(id=unique, cell_id=step.cell_id, source=step.source, seconds=step.seconds, why=step.why))
    for cell in targets:
        took = seconds.get(cell.id)
        steps.append(Step(id=cell.id, cell_id=cell.id, source=cell.source, seconds=took, why="target"))
    return steps


def _free_id(wanted: str, taken: set[str]) -> str:
    base = _NOT_IN_ID.sub("-", wanted)[:MAX_ID] or "replayed"
    candidate, number = base, 2
    while candidate in taken:
        suffix = f"-run{number}"
        candidate, number = base[: MAX_ID - len(suffix)] + suffix, number + 1
    return candidate


def _document(notebook: JsonMapping, steps: Iterable[Step]) -> JsonObject:
    metadata = notebook.get("metadata") or {}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {key: metadata[key] for key in ("kernelspec", "language_info") if key in metadata},
        "cells": [
            {
                "cell_type": "code",
                "id": step.id,
                "metadata": {},
                "source": step.source,
                "execution_count": None,
                "outputs": [],
            }
            for step in steps
        ],
    }


def _python_version(notebook: JsonMapping) -> str:
    language = (notebook.get("metadata") or {}).get("language_info") or {}
    return str(language.get("version", ""))


def _warnings(request: CellsRequest, steps: Sequence[Step], kernel: Kernel) -> Iterable[Warned]:
    if kernel.language.lower() != "python":
        name = kernel.display_name or kernel.name
        yield Warned(
            code="not_checked",
            message=f"{name} cells are replayed like any other, but they cannot be checked beforehand.",
        )
    else:
        for step in steps:
            for code, message in cells.risks(step.source):
                yield Warned(code=code, cell_id=step.cell_id or None, message=f"{_quoted(step.source)} {message}.")
            if step.why != "target" or cells.newer_python(_python_version(request.notebook)):
                yield from _fault_warning(step)
    yield from _prefix_warnings(request)
    took = sum(step.seconds or 0 for step in steps if step.why != "target")
    if took >= 30:
        yield Warned(code="slow_prefix", message=f"The cells before took {took:.0f} s here, and run again each time.")


def _fault_warning(step: Step) -> Iterable[Warned]:
    fault = cells.find_fault(step.source)
    if fault is not None:
        yield Warned(
            code="syntax_error",
            cell_id=step.cell_id or None,
            message=f"{_quoted(step.source)} may not be valid Python: {fault.sentence}",
        )


def _prefix_warnings(request: CellsRequest) -> Iterable[Warned]:
    if request.mode != "replay":
        return
    present = {str(cell.get("id")) for cell in request.notebook.get("cells", [])}
    now = {cell.id: cell.source for cell in _cells_of(request.notebook)[0].values()}
    targets = set(request.targets)
    for cell in request.prefix:
        name, cell_id = _quoted(cell.source), cell.cell_id or None
        if cell.cell_id in targets:
            continue
        if cell.cell_id not in present:
            yield Warned(
                code="deleted", cell_id=cell_id, message=f"{name} was deleted or changed since; it runs as it ran here."
            )
        elif cell.edited or now.get(cell.cell_id, cell.source) != cell.source:
            yield Warned(code="edited", cell_id=cell_id, message=f"{name} was edited since; it runs as it ran here.")
        if cell.failed:
            yield Warned(
                code="failed_here", cell_id=cell_id, message=f"{name} ended with an error here, and may do so again."
            )


def _quoted(source: str) -> str:
    return f"“{cells.title(source)}”"
