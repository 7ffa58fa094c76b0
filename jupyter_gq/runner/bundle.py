"""What came along with the job: the manifest and its cells, paired. Standard library only."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_gq.runner.problems import BundleError

Role = Literal["prefix", "target"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellToRun:
    """One code cell, in its place."""

    #: Position in the notebook of the bundle.
    index: int
    #: Id under which its outputs are known. A cell that ran several times has its own id only the last time.
    id: str
    role: Role
    source: str

    @property
    def first_line(self) -> str:
        """Enough to recognise it by."""
        line = self.source.strip().split("\n", 1)[0].strip()
        return line if len(line) <= 60 else line[:57] + "..."


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A job's cells and how to start their kernel."""

    #: nbformat 4, without outputs; the ids of its cells are unique.
    notebook: dict[str, Any]
    #: In the order in which they run.
    cells: tuple[CellToRun, ...]
    #: Working folder of the kernel.
    cwd: str
    kernel_name: str
    #: For sentences.
    kernel_title: str
    language: str
    argv: tuple[str, ...]
    #: Of the kernelspec.
    env: dict[str, str]


def read_bundle(path: Path) -> Bundle:
    """Read a job's bundle; raise `BundleError` with a sentence when it cannot be run."""
    try:
        document = json.loads(path.read_bytes())
        manifest, notebook = document["manifest"], document["notebook"]
        kernel = manifest["kernel"]
        refs: list[tuple[str, Role]] = [(ref["cell_id"], "prefix") for ref in manifest["prefix"]]
        refs += [(ref["cell_id"], "target") for ref in manifest["targets"]]
        return Bundle(
            notebook=notebook,
            cells=_pair(notebook["cells"], refs),
            cwd=manifest["cwd"],
            kernel_name=kernel["name"],
            kernel_title=kernel.get("display_name") or kernel["name"],
            language=kernel.get("language", ""),
            argv=tuple(kernel["argv"]),
            env=dict(kernel.get("env", {})),
        )
    except OSError as error:
        raise BundleError(f"The job's bundle could not be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"The job's bundle is damaged ({type(error).__name__}: {error}).") from error


def _pair(cells: list[dict[str, Any]], refs: list[tuple[str, Role]]) -> tuple[CellToRun, ...]:
    """Give each cell of the manifest its code cell, both in run order; make the ids of the notebook unique."""
    paired: list[CellToRun] = []
    waiting = list(refs)
    for index, cell in enumerate(cells):
        if waiting and cell["cell_type"] == "code" and cell.get("id", waiting[0][0]) == waiting[0][0]:
            wanted, role = waiting.pop(0)
            later = {ref for ref, _ in waiting}
            cell["id"] = _free_id(wanted, {c.id for c in paired} | later)
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            paired.append(CellToRun(index=index, id=cell["id"], role=role, source=text))
    if waiting:
        missing = ", ".join(ref for ref, _ in waiting)
        raise BundleError(f"The job's bundle lacks cells that its manifest names: {missing}.")
    return tuple(paired)


def _free_id(wanted: str, taken: set[str]) -> str:
    if wanted not in taken:
        return wanted
    number = 1
    while (candidate := f"{wanted[:58]}-{number}") in taken:
        number += 1
    return candidate
