"""What a replay does not bring back is told, and nothing else."""

import pytest

from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.plan.hidden_inputs import find_earlier_versions, find_edited_modules, find_hidden_inputs
from jupyter_gq.lab.project.needed import NeededFile


def steps(*sources):
    """The last cell is sent, the others run first."""
    *before, target = sources
    ran = [
        Step(id=f"c{number}", cell_id=f"c{number}", source=source, seconds=1, why="ran", index=number)
        for number, source in enumerate(before)
    ]
    return [*ran, Step(id="t", cell_id="t", source=target, seconds=None, why="target")]


def codes(*sources, searches=True):
    return [(each.code, each.index) for each in find_hidden_inputs(steps(*sources), searches=searches)]


@pytest.mark.parametrize(
    "source",
    [
        "print(Out[3])",
        "%%time\nprint(Out[3])",
        "%time x = _3",
        "x = _3 * 2",
        "exec(In[2])",
        "%rerun 4",
        "y = _i5",
        "%recall 2",
    ],
)
def test_the_numbered_history_is_told_beside_the_cell(source):
    assert codes(source, "1") == [("reads_history", 0)]
    assert codes("1", source) == [("reads_history", None)]


@pytest.mark.parametrize("source", ["for _ in range(3): pass", "_", "In = 3\nprint(In)", "x_3 = 1", "history = []"])
def test_other_names_are_no_history(source):
    assert codes(source) == []


def test_a_name_that_another_cell_assigns_is_no_history():
    assert codes("Out = {3: 1}", "print(Out[3])") == []


@pytest.mark.parametrize("source", ["%store -r", "%store -r model rate", "%time\n%store -r model"])
def test_what_was_stored_outside_of_the_notebook_is_told_beside_the_cell(source):
    assert codes(source, "1") == [("reads_store", 0)]


@pytest.mark.parametrize("source", ["%store", "%store model", "%store -d model", "store -r"])
def test_other_uses_of_the_store_read_nothing(source):
    assert codes(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "list(Path('.').rglob('*.csv'))",
        "%%capture\nlist(Path('.').rglob('*.csv'))",
        "import os\nfor x in os.walk('.'): pass",
        "!find . -name '*.csv'",
    ],
)
def test_a_search_that_does_not_enter_links_is_told_if_files_go_along(source):
    assert codes(source) == [("does_not_enter_links", None)]
    assert codes(source, searches=False) == []


@pytest.mark.parametrize("source", ["Path('.').glob('*.csv')", "os.walk('.', followlinks=True)", "!ls", "find('x')"])
def test_a_search_that_sees_the_same_is_not_told(source):
    assert codes(source) == []


def test_a_search_is_told_beside_one_that_enters_links():
    both = "import os\nos.walk('.', followlinks=True)\nlist(Path('.').rglob('*.csv'))"
    assert codes(both) == [("does_not_enter_links", None)]


def test_values_that_were_set_on_the_page_are_told():
    slider = "import ipywidgets as w\ns = w.IntSlider(value=5)"
    assert codes(slider, "print(s.value)") == [("widget_values", None)]
    assert codes(f"%%capture\n{slider}", "%time print(s.value)") == [("widget_values", None)]
    assert codes(slider, "print(s)") == []
    assert codes("s = read()", "print(s.value)") == []


def ran(code, cell_id="t", **fields):
    return RanCell(code=code, execution_count=1, cell_id=cell_id, **{"seconds": 1.0, **fields})


def told(target, *cells):
    return [each.message for each in find_earlier_versions(steps(target), cells)]


def test_an_earlier_version_that_made_what_the_cell_reads_is_told():
    (message,) = told("acc.append(a)", ran("a += 1\nacc.append(a)"))
    assert message == ("reads a, which an earlier version of it has changed here; that version does not run in the job")


@pytest.mark.parametrize(
    "cell",
    [
        ran("a += 1\nacc.append(a)", cell_id="other"),
        ran("acc.append(a) "),
        ran("b = 1\nacc.append(a)"),
        ran("a += 1\nacc.append(a)", seconds=None),
    ],
    ids=["another cell", "the same code", "made what is not read", "has not ended"],
)
def test_other_executions_are_not_told(cell):
    assert told("acc.append(a)", cell) == []


def edited(files, *cells):
    going = [
        NeededFile(path=path, bytes=1, why=why, executable=False, modified_at=at) for path, (why, at) in files.items()
    ]
    return [each.message for each in find_edited_modules(going, cells)]


IMPORTS = (
    ran("import nets", began=10.0),
    ran("from pkg.layers import conv", began=20.0),
    ran("import nets", began=99.0),
)


def test_modules_that_were_edited_since_their_first_import_are_named():
    (message,) = edited({"nets.py": ("imported", 15.0), "pkg/layers.py": ("imported", 21.0)}, *IMPORTS)
    assert message == "Edited since this kernel imported it, and new in the job: nets.py, pkg/layers.py."


@pytest.mark.parametrize(
    ("files", "cells"),
    [
        ({"nets.py": ("imported", 9.0)}, IMPORTS),
        ({"nets.py": ("opened", 15.0)}, IMPORTS),
        ({"other.py": ("imported", 15.0)}, IMPORTS),
        ({"nets.py": ("imported", 15.0)}, (ran("%load_ext autoreload"), *IMPORTS)),
        ({"nets.py": ("imported", 15.0)}, (*IMPORTS, ran("importlib.reload(nets)"))),
    ],
    ids=["older", "data", "not imported here", "autoreload", "reloaded"],
)
def test_other_files_are_not_named(files, cells):
    assert edited(files, *cells) == []
