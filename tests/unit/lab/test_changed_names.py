"""The names that a cell changes in place are proposed to come back, and few others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.lab.effects import changed_names
from jupyter_gq.lab.effects.changed_names import find_changed_names
from jupyter_gq.lab.reading.names import find_deleted_names, find_made_names

_FOLDER = Path(__file__).with_name("changing_cells")


def _read_cases(name):
    """Return of each case what earlier cells hold, the cell, and the earlier names that it changes."""
    for text in (_FOLDER / name).read_text().split("====\n"):
        before, cell, changed = text.split("\n----")
        yield before, cell.removeprefix("\n"), set(changed.split())


def _find_proposed(before, cell):
    """Return the earlier names that are proposed if a later cell reads all of them."""
    return find_changed_names([before], [cell]).union(find_made_names([cell])).intersection(find_made_names([before]))


@pytest.mark.parametrize(("before", "cell", "changed"), _read_cases("known.txt"))
def test_changed_are_the_names_that_a_cell_changes_in_place(before, cell, changed):
    assert _find_proposed(before, cell) == changed


def _run_cells(setup, cells, folder):
    """Return the names that each cell changes in IPython after a cell that all have in common, and those found."""
    program = [sys.executable, Path(__file__).with_name("run_cells.py")]
    environ = {**os.environ, "IPYTHONDIR": str(folder), "PYTHONPATH": str(_FOLDER)}
    given = json.dumps([setup, *cells])
    ran = subprocess.run(program, input=given, env=environ, check=True, capture_output=True, text=True, cwd=folder)
    found = [
        find_changed_names([setup], [cell]).union(find_made_names([cell]), find_deleted_names([cell])) for cell in cells
    ]
    return [*map(set, json.loads(ran.stdout.splitlines()[-1]))], found


def test_changed_names_are_those_that_ipython_changes_when_it_runs_the_cell(tmp_path):
    setup, *cells = (_FOLDER / "run.txt").read_text().split("====\n")
    changed, found = _run_cells(setup, cells, tmp_path)
    assert dict(zip(cells, found, strict=True)) == dict(zip(cells, changed, strict=True))


def test_names_that_ipython_changes_by_kept_results_and_given_functions_are_found_and_no_others(tmp_path):
    """The cells were written before the rules were."""
    setup = (_FOLDER / "run.txt").read_text().split("====\n")[0]
    cells = (_FOLDER / "run_kept.txt").read_text().split("====\n")
    changed, found = _run_cells(setup, cells, tmp_path)
    assert dict(zip(cells, found, strict=True)) == dict(zip(cells, changed, strict=True))


def test_names_that_partial_functions_and_callbacks_of_a_library_change_are_found_and_no_others(tmp_path):
    """The cells were written before the rules were. They import `fitting`, whose code is not read."""
    setup, *cells = (_FOLDER / "run_handed.txt").read_text().split("====\n")
    changed, found = _run_cells(setup, cells, tmp_path)
    assert dict(zip(cells, found, strict=True)) == dict(zip(cells, changed, strict=True))


@pytest.mark.parametrize(("name", "recall"), [("unseen.txt", 0.96), ("unseen_kept.txt", 0.93)])
def test_of_unseen_cells_most_changed_names_are_found_and_no_others(name, recall):
    """The cells were written before the rules were, which were never fitted to them."""
    found = [(_find_proposed(before, cell), changed) for before, cell, changed in _read_cases(name)]
    right = sum(len(proposed & changed) for proposed, changed in found)
    assert right >= recall * sum(len(changed) for _, changed in found)
    assert right == sum(len(proposed) for proposed, _ in found)


def test_functions_that_are_given_to_each_other_are_read_a_bounded_number_of_times(monkeypatch):
    monkeypatch.setattr(changed_names, "_MOST_BODIES", 50)
    defined = [f"def f{number}(g): g(rows); f{number + 1}(g)" for number in range(15)]
    calls = [f"f0(lambda x: x.append({number}))" for number in range(100)]
    assert "rows" in find_changed_names(["rows = []", *defined], ["\n".join(calls)])
