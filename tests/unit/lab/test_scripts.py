"""The script that a cell runs by `%run` is read like the cell itself."""

import json
from pathlib import Path

import pytest

from jupyter_gq.lab.cells import parse_cell
from jupyter_gq.lab.dependents import find_dependents
from jupyter_gq.lab.effects import find_effects, find_effects_in_order
from jupyter_gq.lab.job_senders import leave_out_senders
from jupyter_gq.lab.lookups import find_lookups
from jupyter_gq.lab.names import find_free_names, find_made_names
from jupyter_gq.lab.process_state import find_process_state
from jupyter_gq.lab.project.needed import Caps, Code, find_needed
from jupyter_gq.lab.scripts import find_script, reading_scripts
from jupyter_gq.lab.variable_reads import find_read_variables

SCRIPT = """
import os, numpy as np
np.random.seed(3)
rate = float(os.environ["RATE"]) * factor
def keep(table):
    table.to_csv("kept.csv")
if __name__ == "__main__":
    open("log.txt", "w")
    name = input()
    print(__file__)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path):
    (tmp_path / "other.py").write_text(SCRIPT)
    with reading_scripts(tmp_path):
        yield tmp_path


def kinds(source):
    return {(each.kind, each.what) for each in find_effects(source)}


@pytest.mark.parametrize(
    "line",
    ["%run other.py", "%run other", "run other.py", "%run -i other.py --lr 0.1", "%run -m other", "%run 'other.py'"],
)
def test_the_script_has_the_effects_of_its_cell(line):
    assert kinds(line) == {("writes_files", "log.txt"), ("asks_for_input", "")}
    assert kinds(f"if True:\n    {line}" if line.startswith("%") else line) == kinds(line)


def test_what_the_script_defines_is_known_to_later_cells():
    effects = find_effects_in_order(["%run other.py", "keep(1)"])
    assert [each.what for each in effects[1]] == ["kept.csv"]
    assert find_made_names(["%run other.py"]) == ["keep", "name", "rate"]
    assert "keep" not in find_free_names(["%run other.py", "keep(1)"])
    assert find_dependents(["%run other.py\nprint(rate)", "print(net)"], ["net = rate = 1"]) == [[], ["net"]]


def test_the_script_reads_names_of_the_notebook_only_if_it_shares_them():
    assert "factor" not in find_free_names(["%run other.py"])
    assert "factor" in find_free_names(["%run -i other.py"])
    assert not {"__file__", "__name__"}.intersection(find_free_names(["%run -i other.py"]))
    assert "lr" in find_free_names(["%run other.py --lr {lr}"])
    assert find_lookups(parse_cell("%run -i other.py")) == []
    assert find_lookups(parse_cell("%run -i unknown.py")) == ["%run"]


def test_variables_and_the_state_of_the_process_are_found_in_the_script():
    assert find_read_variables(["%run other.py"]).read == {"RATE": True}
    assert find_process_state(["%run other.py"]) == [["numpy.random.seed"]]


def test_a_cell_whose_script_sends_jobs_is_left_out(folder):
    (folder / "sends.py").write_text("import jupyter_gq as gq\njob = gq.submit(len)\n")
    kept, lost = leave_out_senders(["x = 1\n%run sends.py"])
    assert ("sends.py" in kept[0], lost) == (False, {"gq", "job"})


@pytest.mark.parametrize("source", ["%run 'my script.py'", "%time x = 1\n%run 'my script.py'", "%run -m pack"])
def test_the_script_and_what_it_reads_go_along(folder, source):
    for path in ("my script.py", "pack/__main__.py"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("import nets\nopen('data.csv').read()\nopen('out.csv', 'w')")
    for name in ("nets.py", "data.csv", "out.csv"):
        (folder / name).write_text("1")
    found = find_needed(folder, Code(trees=[parse_cell(source)]), (), Caps(file=1000, job=1000))
    assert {"nets.py", "data.csv"} < set(found.going)
    assert {"my script.py", "pack/__main__.py"}.intersection(found.going)
    assert found.written == ["out.csv"]


def test_the_cells_of_a_notebook_are_read(folder):
    cells = [
        {"cell_type": "markdown", "source": "input()"},
        {"cell_type": "code", "source": ["%pip install torch\n", "a = 1"]},
        {"cell_type": "code", "source": "%%time\nb = 2"},
    ]
    (folder / "nets.ipynb").write_text(json.dumps({"cells": cells}))
    assert kinds("%run nets.ipynb") == {("installs_packages", "")}
    assert find_made_names(["%run nets.ipynb"]) == ["a", "b"]


def test_scripts_that_run_each_other_are_read_once(folder):
    (folder / "a.ipy").write_text("%run b.ipy\n%run a.ipy\nx = input()")
    (folder / "b.ipy").write_text("%run a.ipy")
    assert kinds("%run a.ipy") == {("asks_for_input", "")}


@pytest.mark.parametrize("content", [b"x = " + b"1" * 2**20, b"for", b"\xff\xfe = 1", b"{", b"[]", b'{"cells": [1]}'])
def test_a_script_that_cannot_be_read_has_no_effect(folder, content):
    for name in ("bad.py", "bad.ipynb"):
        (folder / name).write_bytes(content)
        assert kinds(f"%run {name}") == set()


@pytest.mark.parametrize("line", ["", "-x y", "'", "none.py", "\0.py", "pack", "-m", "{name}.py", "../other.py", "~no"])
def test_a_line_without_a_script_has_none(folder, line):
    (folder / "pack").mkdir()
    assert find_script(line) is None


def test_scripts_are_read_for_one_request_only_and_not_endlessly_many(folder):
    for number in range(30):
        (folder / f"s{number}.py").write_text("input()")
    assert sum(bool(kinds(f"%run s{number}.py")) for number in range(30)) == 20
    (folder / "other.py").write_text("")
    with reading_scripts(folder):
        assert kinds("%run other.py") == set()
