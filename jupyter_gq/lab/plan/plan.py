"""The plan of a job for the dialog: the cells that would run, and what their user should know about each.

Rules
-----
- A warning belongs to one cell, by the cell's place in the request's prefix or by its id, or to all cells.
- A cell that was left out has no warning: the warnings are those of the cells that would run.
- Code that is too deep to be read leaves gaps in the plan, which the plan tells of; it fails no plan.
- What a target writes is its purpose, and no warning. What a replayed cell writes, it writes once more.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

from jupyter_gq.client.models import Kernel
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.bundle.assignments import plan_assignments
from jupyter_gq.lab.bundle.bundle import Runtime, Step, is_python, read_cells, read_python_version
from jupyter_gq.lab.bundle.environment import ServerEnvironment
from jupyter_gq.lab.bundle.job_senders import leave_out_senders
from jupyter_gq.lab.bundle.step_warnings import warn_about
from jupyter_gq.lab.bundle.variable_reads import find_read_variables
from jupyter_gq.lab.effects.changed_names import find_changed_names
from jupyter_gq.lab.effects.effects import Effect, find_effects_in_order
from jupyter_gq.lab.reading import cells
from jupyter_gq.lab.reading.names import find_deleted_names, find_free_names, find_made_names, find_needed_names
from jupyter_gq.lab.requests import (
    CarryOffer,
    CellsRequest,
    CellWarning,
    FilesPlan,
    Plan,
    PlannedCell,
    PlannedKernel,
    PrefixCell,
)

_LOG = logging.getLogger(__name__)
_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Seconds from which cells that run first are called slow.
SLOW_PREFIX = 30
#: What is told about a replayed cell that acts; other effects matter in targets as well.
_ACTS = {
    "writes_files": "writes {what}",
    "writes_database": "changes a database",
    "runs_commands": "runs the command {what}",
}
_ALWAYS_TOLD = {
    "asks_for_input": "asks for input; nobody can answer in a job, so it will fail",
    "names_last_job": "names the last job, and a job cannot know which one that was, so it will fail: write its id",
    "installs_packages": "installs packages; it does so in every run, in the same environment",
}
_CUT = "sends jobs or needs such a job, and a job cannot send jobs: these statements are left out"
_LACKS = "needs {names}, which only the cell that you send makes: left out"
#: Longest name of a file in a warning.
_LONGEST_NAME = 40
#: Most names in one warning.
_MOST_NAMES = 5
_UNREAD = (
    "is too large to be looked at, so the files, variables and results that it names are not seen: add patterns for "
    "its files, or split the cell"
)

_TOO_DEEP = (
    "The cells hold code that is nested too deeply to be looked at, so some warnings, and some names that could come "
    "back, may be missing here: write the names that you need into the field, or split the code"
)


def describe_plan(
    request: CellsRequest,
    steps: Sequence[Step],
    runtime: Runtime,
    server: ServerEnvironment,
    files: FilesPlan,
    differences: Iterable[CellWarning] = (),
) -> Plan:
    """Return the cells before the targets, the targets, warnings, and what goes along and back. Nothing is sent.

    `differences` are the warnings about what the cells would compute otherwise than here; see `hidden_inputs`.
    """
    kernel, attempts = runtime.kernel, Attempts()
    shown = [
        PlannedCell(cell_id=s.cell_id or s.id, title=cells.make_title(s.written), seconds=s.seconds, why=s.why)
        for s in steps
    ]
    python = is_python(kernel)
    targets = [step.source for step in steps if step.why == "target"] if python else []
    made = attempts.read([], find_made_names, targets)
    sources = list_python_sources(steps, kernel)
    changed = sorted(attempts.read(set[str](), _find_changed, steps if python else ()).difference(made))
    reads = attempts.read(find_read_variables([]), find_read_variables, sources)
    warnings = attempts.read([], _list_warnings, request, steps, kernel)
    assignments = attempts.read([], plan_assignments, steps if python else ())
    returns = attempts.read([], find_needed_names, [*made, *changed], _list_later_sources(request))
    return Plan(
        prefix=[cell for cell in shown if cell.why != "target"],
        targets=[cell for cell in shown if cell.why == "target"],
        warnings=[
            *warnings,
            *server.list_warnings(reads, kernel.env_names),
            *(differences if python else ()),
            *([CellWarning(code="not_checked", message=_TOO_DEEP)] if attempts.failed else ()),
        ],
        makes=made,
        assignments=assignments,
        files=_tell_folder(files, runtime),
        returns=returns,
        environment=server.plan(reads),
        carry=_offer_variables(request, steps, runtime),
        kernels=[PlannedKernel(name=name, title=title) for name, title in runtime.software.others.items()],
        takes_images=python,
    )


class Attempts:
    """Questions about code, of which one may fail because the code is too deep, while the others are answered."""

    def __init__(self) -> None:
        #: Whether a question failed.
        self.failed = False

    def read(self, otherwise: _R, question: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return the answer to a question, or `otherwise` if Python cannot read code that deep."""
        try:
            return question(*args, **kwargs)
        except (RecursionError, MemoryError):
            self.failed = True
            _LOG.exception("Code of the cells could not be read")
            return otherwise


def _list_warnings(request: CellsRequest, steps: Sequence[Step], kernel: Kernel) -> list[CellWarning]:
    return [*find_warnings(request, steps, kernel)]


def list_python_sources(steps: Sequence[Step], kernel: Kernel) -> list[str]:
    """Return the sources of the cells that will run, in order; none for other languages than Python."""
    return [step.source for step in steps] if is_python(kernel) else []


def _tell_folder(files: FilesPlan, runtime: Runtime) -> FilesPlan:
    """Return the plan of the files with a sentence on the folder of the job, if that is not the notebook's."""
    if not runtime.is_elsewhere:
        return files
    note = f"This folder is {quoted(runtime.cwd)}, where the kernel was started, not the folder of the notebook."
    return files.model_copy(update={"notes": [note, *files.notes]})


def _find_changed(steps: Sequence[Step]) -> set[str]:
    """Return the names whose values the targets change in place, such as `model.fit(x)`, and do not delete."""
    targets = [step.source for step in steps if step.why == "target"]
    changed = find_changed_names([step.source for step in steps if step.why != "target"], targets)
    return changed - find_deleted_names(targets)


def _offer_variables(request: CellsRequest, steps: Sequence[Step], runtime: Runtime) -> CarryOffer:
    """Return whether variables can go along in place of cells that run first, and whether that is worth while."""
    can_load = is_python(runtime.kernel) and not runtime.software.is_image
    offered = can_load and request.mode == "replay" and request.kernel_id is not None
    return CarryOffer(offered=offered, suggested=offered and _sum_seconds(steps) >= SLOW_PREFIX)


def _sum_seconds(steps: Sequence[Step]) -> float:
    """Return the seconds that the cells took here which run first, as far as they are known."""
    return sum(step.seconds or 0 for step in steps if step.why != "target")


def _list_later_sources(request: CellsRequest) -> list[str]:
    """Return the sources of the code cells below the last target; none if the whole notebook is sent."""
    code = list(read_cells(request.notebook)[0].values())
    places = [place for place, cell in enumerate(code) if cell.id in request.targets]
    return [cell.source for cell in code[places[-1] + 1 :]] if places and request.mode == "replay" else []


def find_warnings(request: CellsRequest, steps: Sequence[Step], kernel: Kernel) -> Iterable[CellWarning]:
    """Yield the warnings of a plan: about a kernel without Python, and about each cell that will run, in their order.

    Then come those about cells that are left out or cut, and about the time that all cells before the targets took.
    """
    python = is_python(kernel)
    if not python:
        name = kernel.display_name or kernel.name
        yield CellWarning(
            code="not_checked",
            message=f"{name} cells are replayed like any other, but they cannot be checked beforehand.",
        )
    present = {cell.id: cell.source for cell in read_cells(request.notebook)[0].values()}
    is_newer = bool(request.software) or cells.is_newer_python(read_python_version(request.notebook))
    may_be_newer = python and is_newer
    effects = find_effects_in_order(step.source for step in steps) if python else [[] for _ in steps]
    for step, acts in zip(steps, effects, strict=True):
        ran = request.prefix[step.index] if step.index is not None else None
        if ran is not None:
            yield from _describe_run(ran, step, present)
        if python and cells.is_unread(step.source):
            yield warn_about(step, "not_checked", _UNREAD)
        elif python:
            for effect in acts:
                yield from _describe_effect(effect, step, ran is not None and ran.ran)
        if may_be_newer:
            yield from _describe_syntax(step)
    yield from _describe_dependents(steps)
    yield from _describe_cuts(steps)
    took = _sum_seconds(steps)
    if took >= SLOW_PREFIX:
        yield CellWarning(
            code="slow_prefix", message=f"The cells before took {took:.0f} s here, and run again each time."
        )


def _describe_run(ran: PrefixCell, step: Step, present: dict[str, str]) -> Iterable[CellWarning]:
    """Yield warnings about a replayed cell that was deleted or edited since it ran."""
    if step.lacks:
        return
    if ran.cell_id not in present:
        yield warn_about(step, "deleted", "was deleted or changed since; runs as it ran here")
    elif present[ran.cell_id] != ran.source:
        yield warn_about(step, "edited", "was edited since; runs as it ran here")


def _describe_dependents(steps: Iterable[Step]) -> Iterable[CellWarning]:
    """Yield a warning for each replayed cell that is left out, since it needs what only the targets make."""
    for step in steps:
        if step.lacks:
            yield warn_about(step, "needs_target", _LACKS.format(names=_name_some(step.lacks)))


def _describe_cuts(steps: Sequence[Step]) -> Iterable[CellWarning]:
    """Yield a warning for each cell without what sends jobs, and one if targets need names that these cells make."""
    cut = [step for step in steps if step.is_cut]
    if not cut:
        return
    for step in cut:
        yield warn_about(step, "sends_jobs", _CUT)
    _, lost = leave_out_senders([step.written for step in steps if step.why != "target"])
    needed = lost.intersection(find_free_names(step.source for step in steps if step.why == "target"))
    if needed:
        yield CellWarning(
            code="sends_jobs",
            message=f"Not defined in the job, because what sends jobs makes it and is left out: {_name_some(needed)}. "
            "Make it in a cell that needs no other job, or load it there with jupyter_gq.result and the job's id.",
        )


def _name_some(names: Iterable[str]) -> str:
    """Return the first of these names, and the number of the others."""
    first, *others = sorted(names)
    shown = ", ".join([first, *others[: _MOST_NAMES - 1]])
    return shown if len(others) < _MOST_NAMES else f"{shown} and {len(others) + 1 - _MOST_NAMES} more"


def _describe_effect(effect: Effect, step: Step, ran: bool) -> Iterable[CellWarning]:
    """Yield the warning about an effect, if it matters in this step; `ran` says that the cell has run here."""
    if effect.kind in _ALWAYS_TOLD:
        yield warn_about(step, effect.kind, _ALWAYS_TOLD[effect.kind])
    elif step.why != "target":
        what = _ACTS[effect.kind].format(what=_shorten(effect.what) or "files")
        when = "ran once already; runs again in the job" if ran else "runs in the job"
        yield warn_about(step, effect.kind, f"{what}: {when}")


def _shorten(name: str) -> str:
    """Return the end of the name of a file, as long as it is shown."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def _describe_syntax(step: Step) -> Iterable[CellWarning]:
    """Yield a warning if the source of this step may not be valid Python."""
    fault = cells.find_syntax_error(step.source)
    if fault is not None:
        yield warn_about(step, "syntax_error", f"may not be valid Python: {fault.sentence}")
