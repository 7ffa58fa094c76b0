"""The names that a cell changes in place are proposed to come back, and few others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_changed_names_are_those_that_ipython_changes_when_it_runs_the_cell(tmp_path):
    setup, *cells = (_FOLDER / "run.txt").read_text().split("====\n")
    program = [sys.executable, Path(__file__).with_name("run_cells.py")]
    environ = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    given = json.dumps([setup, *cells])
    ran = subprocess.run(program, input=given, env=environ, check=True, capture_output=True, text=True, cwd=tmp_path)
    found = {}
    for cell in cells:
        names = find_changed_names([setup], [cell]).union(find_made_names([cell]), find_deleted_names([cell]))
        found[cell] = sorted(names)
    assert found == dict(zip(cells, json.loads(ran.stdout.splitlines()[-1]), strict=True))


def test_of_unseen_cells_most_changed_names_are_found_and_few_others():
    """The cells were written before the rules were, which were never fitted to them."""
    found = [(_find_proposed(before, cell), changed) for before, cell, changed in _read_cases("unseen.txt")]
    right = sum(len(proposed & changed) for proposed, changed in found)
    assert right >= 0.9 * sum(len(changed) for _, changed in found)
    assert right >= 0.9 * sum(len(proposed) for proposed, _ in found)
