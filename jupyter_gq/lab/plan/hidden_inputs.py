"""The state that a replay does not bring back: numbered outputs, values set on the page, modules as they were, links.

The same code then computes something else in a job, and nothing fails. So the plan tells it.

Rules
-----
- As with effects, a false alarm is worse than a miss.
- Numbers: `In[3]`, `Out[3]`, `_3` and magics such as `%rerun 3` mean the third execution. A job counts only its own.
- Stored: `%store -r` reads what was stored outside of the notebook, perhaps by another one, as it is when the job runs.
- Widgets: if a cell that runs first uses ipywidgets and a cell reads a `value`, the job has the value of the code, and
  not what was set on the page.
- Modules: a module that was edited since the kernel imported it is the new one in a job, unless the kernel reloads it.
- Searches: `rglob`, `os.walk` and `find` do not enter folders that are links, as those are that stay.

See docs/decisions/0198-tell-what-no-replay-brings-back.md.
"""

import ast
import math
import re
from collections.abc import Iterator, Sequence

from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.bundle.outside import find_ways_out, searches_folders
from jupyter_gq.lab.bundle.step_warnings import warn_about
from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.project.needed import NeededFile
from jupyter_gq.lab.project.references import find_references
from jupyter_gq.lab.reading.calls import list_calls
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.full_names import Names
from jupyter_gq.lab.reading.magics import list_trees, read_magic
from jupyter_gq.lab.reading.names import find_free_names, find_made_names
from jupyter_gq.lab.reading.parsing import list_nodes
from jupyter_gq.lab.requests import CellWarning

from .failed_cells import find_partial_runs

_HISTORY = re.compile(r"In|Out|_ih|_oh|_dh|_i?[0-9]+")
_HISTORY_MAGICS = frozenset({"rerun", "recall", "rep", "history", "macro", "edit"})
#: Words of code that imports edited modules again.
_RELOADS = ("autoreload", "reload(")
#: Most edited modules that are named.
_MOST_EDITED = 5
_SEARCHES = (
    "Searches such as rglob, os.walk and find see only the files that go along: the other folders are there as links, "
    "which they do not enter. Add those folders as patterns, or use the live folder."
)
_STORED = (
    "reads what %store keeps in your home folder: the job finds it as it is then, or not at all. Assign the values in "
    "a cell, or save them to a file"
)
_WIDGETS = "Widgets have the values that the code gives them, and not those that were set on the page."


def find_differences(
    steps: Sequence[Step], going: Sequence[NeededFile], ran: Sequence[RanCell], *, carries: bool = False
) -> Iterator[CellWarning]:
    """Yield warnings about what Python cells would compute otherwise in a job than in the notebook.

    `going` are the files that go along, `ran` the executions of the kernel, as far as they are known, and `carries`
    says that the values which these have made go along.
    """
    yield from find_hidden_inputs(steps, searches=bool(going))
    if going:
        yield from find_ways_out(steps)
    if not carries:
        yield from find_earlier_versions(steps, ran)
        yield from find_partial_runs(steps, ran)
    yield from find_edited_modules(going, ran)


def find_hidden_inputs(steps: Sequence[Step], *, searches: bool) -> Iterator[CellWarning]:
    """Yield warnings about the cells of a job, for Python; those about searches only if `searches` says so."""
    parsed = [parse_cell(step.source) for step in steps]
    trees = [list_trees(tree) if tree is not None else [] for tree in parsed]
    assigned = {name for own in trees for tree in own for name in _list_assigned(tree)}
    for step, own in zip(steps, trees, strict=True):
        read = sorted({name for tree in own for name in _find_history(tree)} - assigned)
        if read:
            said = (
                f"reads {', '.join(read)} by number, and the cells of a job have other numbers: name the value instead"
            )
            yield warn_about(step, "reads_history", said)
        if any(map(_reads_store, own)):
            yield warn_about(step, "reads_store", _STORED)
    known = [tree for own in trees for tree in own]
    if searches and any(searches_folders(tree) for tree in known):
        yield CellWarning(code="does_not_enter_links", message=_SEARCHES)
    before = [tree for step, own in zip(steps, trees, strict=True) if step.why != "target" for tree in own]
    if any(_imports_widgets(tree) for tree in before) and any(_reads_value(tree) for tree in known):
        yield CellWarning(code="widget_values", message=_WIDGETS)


def find_earlier_versions(steps: Sequence[Step], ran: Sequence[RanCell]) -> Iterator[CellWarning]:
    """Yield a warning for each target whose earlier runs, with other code, have made what the target reads.

    A job never runs these: a target that was split, or a copy of it on the same kernel, may need them.
    """
    for step in steps:
        if step.why != "target":
            continue
        earlier = [
            cell.code
            for cell in ran
            if cell.cell_id == step.cell_id and cell.seconds is not None and cell.code.strip() != step.source.strip()
        ]
        made = set(find_made_names(earlier)).intersection(find_free_names([step.source]))
        if made:
            named = ", ".join(sorted(made))
            said = (
                f"reads {named}, which an earlier version of it has changed here; that version does not run in the job"
            )
            yield warn_about(step, "earlier_version", said)


def find_edited_modules(going: Sequence[NeededFile], ran: Sequence[RanCell]) -> Iterator[CellWarning]:
    """Yield a warning with the modules that go along and were edited since the kernel imported them."""
    if any(word in cell.code for cell in ran for word in _RELOADS):
        return
    since: dict[str, float] = {}
    for cell in ran:
        tree = parse_cell(cell.code)
        for imported in find_references(tree).imports if tree is not None else ():
            since.setdefault(imported.name.partition(".")[0], cell.began)
    edited = [
        file.path
        for file in going
        if file.why == "imported" and file.modified_at > since.get(_find_root(file.path), math.inf)
    ]
    if edited:
        more = f" and {len(edited) - _MOST_EDITED} more" if len(edited) > _MOST_EDITED else ""
        said = f"Edited since this kernel imported it, and new in the job: {', '.join(edited[:_MOST_EDITED])}{more}."
        yield CellWarning(code="edited_module", message=said)


def _find_root(path: str) -> str:
    """Return the name of the module or package at the root of the folder to which a file belongs."""
    return path.partition("/")[0].removesuffix(".py")


def _find_history(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the history and the magics by which a cell reads numbered cells."""
    names = (node.id for node in list_nodes(tree) if isinstance(node, ast.Name))
    yield from (name for name in names if _HISTORY.fullmatch(name))
    for call in list_calls(tree):
        magic = read_magic(call)
        if magic is not None and magic.name in _HISTORY_MAGICS:
            yield f"%{magic.name}"


def _reads_store(tree: ast.Module) -> bool:
    """Return whether a cell assigns what was stored outside of the notebook."""
    magics = (read_magic(call) for call in list_calls(tree))
    return any(magic is not None and magic.reads_store for magic in magics)


def _list_assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the names to which a cell assigns."""
    yield from (node.id for node in list_nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _imports_widgets(tree: ast.Module) -> bool:
    names = Names.read(tree)
    return any(full.partition(".")[0] == "ipywidgets" for full in names.modules.values())


def _reads_value(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "value" and isinstance(node.ctx, ast.Load)
        for node in list_nodes(tree)
    )
