"""What cells import is read once they have run, so that the plan of the dialog has not to read it."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gq.lab.project.needed import Caps, Code, find_needed
from jupyter_gq.lab.project.reading_ahead import ReadingAhead
from jupyter_gq.lab.reading.cells import parse_cell
from tests.patience import eventually

pytestmark = pytest.mark.asyncio

_OPENED: list[str] | None = None


def _note_opening(event: str, given: tuple[object, ...]) -> None:
    if _OPENED is not None and event == "open" and str(given[0]).endswith(".py"):
        _OPENED.append(Path(str(given[0])).name)


sys.addaudithook(_note_opening)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Return the names of the modules that are opened, as long as the test runs."""
    global _OPENED
    _OPENED = []
    yield _OPENED
    _OPENED = None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("")
    return tmp_path


@pytest.fixture
def reading() -> ReadingAhead:
    return ReadingAhead(1000, logging.getLogger(__name__), pause=0.0)


def plan(folder: Path, source: str) -> list[str]:
    tree = parse_cell(source)
    assert tree is not None
    return sorted(find_needed(folder, Code(trees=[tree]), (), Caps(file=1000, job=2000)).going)


async def test_a_plan_opens_no_module_that_was_read_when_its_cell_ran(folder, reading, opened):
    reading.note_cells(folder, ["import nets"])
    await eventually(lambda: "layers.py" in opened)
    await reading.finish()
    opened.clear()
    assert plan(folder, "import nets") == ["layers.py", "nets.py"]
    assert opened == []


async def test_a_plan_reads_a_module_that_was_changed_since(folder, reading, opened):
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    (folder / "layers.py").write_text("import more\n")
    (folder / "more.py").write_text("")
    opened.clear()
    assert plan(folder, "import nets") == ["layers.py", "more.py", "nets.py"]
    assert "nets.py" not in opened


async def test_cells_without_imports_and_cells_that_run_again_are_not_read(folder, reading, opened):
    reading.note_cells(folder, ["x = 1"])
    await reading.finish()
    assert opened == []
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    (folder / "nets.py").write_text("import json\n")
    opened.clear()
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    assert opened == []


async def test_cells_that_cannot_be_read_leave_others_to_be_read(folder, reading, opened):
    reading.note_cells(folder / "nowhere", ["import gone", "import ("])
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    assert "nets.py" in opened


async def test_a_server_that_ends_reads_no_more(folder, opened):
    reading = ReadingAhead(1000, logging.getLogger(__name__), pause=3600.0)
    reading.note_cells(folder, ["import nets"])
    await reading.close()
    assert opened == []
