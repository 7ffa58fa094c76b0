"""What cells import is read soon after they began to run, so that the plan of the dialog has not to read it."""

import asyncio
import logging
import os
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gq.lab.project.modules import ReadModules
from jupyter_gq.lab.project.needed import Caps, Code, find_needed
from jupyter_gq.lab.project.reading_ahead import ReadingAhead
from jupyter_gq.lab.reading.cells import parse_cell
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


class Openings:
    """The names of the modules of one folder that are opened; those in `failing` cannot be, for an odd reason."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.failing = folder, set[str]()
        self.names: list[str] = []

    def note(self, path: str) -> None:
        if path.endswith(".py") and path.startswith(f"{self._folder}/"):
            self.names.append(Path(path).name)
            if self.names[-1] in self.failing:
                raise ZeroDivisionError


_OPENINGS: Openings | None = None


def _note_opening(event: str, given: tuple[object, ...]) -> None:
    if _OPENINGS is not None and event == "open":
        _OPENINGS.note(str(given[0]))


sys.addaudithook(_note_opening)


@pytest.fixture
def openings(folder: Path) -> Iterator[Openings]:
    """Return what is opened as long as the test runs."""
    global _OPENINGS
    _OPENINGS = Openings(folder)
    yield _OPENINGS
    _OPENINGS = None


@pytest.fixture
def opened(openings: Openings) -> list[str]:
    return openings.names


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
    return sorted(find_needed(folder, Code(trees=[tree]), (), Caps(file=10_000, job=10_000_000)).going)


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


async def test_a_plan_beside_the_reading_ahead_opens_no_module_a_second_time(folder, reading, opened):
    names = [f"part{number}" for number in range(200)]
    for name in names:
        (folder / f"{name}.py").write_text("def f(x):\n    return x\n" * 30)
    opened.clear()
    source = f"import {', '.join(names)}"
    reading.note_cells(folder, [source])
    await eventually(lambda: opened, every=0.0)
    assert len(await asyncio.to_thread(plan, folder, source)) == 200
    await reading.finish()
    assert sorted(opened) == sorted(f"{name}.py" for name in names)


async def test_a_module_that_could_not_be_opened_for_a_moment_is_read_by_the_next_plan(folder, reading):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    modules = ReadModules()
    found = (folder / "nets.py").stat()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        assert modules.read(str(folder / "nets.py"), found) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    references = modules.read(str(folder / "nets.py"), found)
    assert references is not None
    assert [each.name for each in references.imports] == ["layers"]


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


async def test_cells_whose_module_fails_in_an_odd_way_are_logged_and_leave_others_to_be_read(
    folder, reading, openings, caplog
):
    caplog.set_level(logging.INFO)
    openings.failing.add("nets.py")
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    assert "could not be read ahead" in caplog.text
    reading.note_cells(folder, ["import layers"])
    await reading.finish()
    assert "layers.py" in openings.names
    openings.names.clear()
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    assert openings.names == [], "it would fail at each run of the cell"


@pytest.mark.parametrize(("modules", "most"), [(8, 8), (100, 20)])
async def test_a_reading_that_is_cut_goes_on_a_few_times(folder, reading, opened, monkeypatch, modules, most):
    """To open a module takes two seconds, and a search has five."""
    monkeypatch.setattr("jupyter_gq.lab.project.needed.monotonic", lambda: 2.0 * len(opened))
    for number in range(modules):
        (folder / f"m{number}.py").write_text(f"import m{number + 1}\n")
    opened.clear()
    reading.note_cells(folder, ["import m0"])
    await reading.finish()
    assert 3 < len(opened) <= most
    assert len(set(opened)) == len(opened)
    opened.clear()
    reading.note_cells(folder, ["import m0"])
    await reading.finish()
    assert opened == []
    assert len(plan(folder, "import m0")) >= min(modules, 9)
    assert bool(opened) is (modules > most)


async def test_a_cell_that_runs_again_while_it_waits_is_read_once(folder, reading, opened):
    reading.note_cells(folder, ["import nets", "import nets"])
    reading.note_cells(folder, ["import nets", "import layers"])
    reading.note_cells(folder, ["import nets"])
    await reading.finish()
    assert sorted(opened) == ["layers.py", "nets.py"]


async def test_a_server_that_ends_reads_no_more(folder, opened):
    reading = ReadingAhead(1000, logging.getLogger(__name__), pause=3600.0)
    reading.note_cells(folder, ["import nets"])
    await reading.close()
    assert opened == []


async def test_large_cells_that_wait_take_little_memory(folder):
    reading = ReadingAhead(1000, logging.getLogger(__name__), pause=3600.0)
    tracemalloc.start()
    try:
        for number in range(200):
            reading.note_cells(folder, [f"import nets\nx{number} = {'a' * 2**19!r}"])
        assert tracemalloc.get_traced_memory()[0] < 20 * 2**20
    finally:
        tracemalloc.stop()
        await reading.close()


async def test_large_cells_that_were_read_take_little_memory(folder, reading):
    tracemalloc.start()
    try:
        for number in range(60):
            reading.note_cells(folder, [f"import nets\nx{number} = {'a' * 2**19!r}"])
            await reading.finish()
        assert tracemalloc.get_traced_memory()[0] < 20 * 2**20
    finally:
        tracemalloc.stop()
