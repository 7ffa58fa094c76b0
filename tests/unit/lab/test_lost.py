"""What a job with variables lacks is told with its cells: what no variable holds, and what was done with others."""

import pytest

from jupyter_gq.client.models import Kernel
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.lab.bundle.bundle import plan_steps
from jupyter_gq.lab.carrying.lost import explain_lost
from jupyter_gq.lab.requests import CellsRequest, PrefixCell

from .test_hidden_inputs import steps

MADE = "The job makes these variables anew, without what these cells have done with them since: "
REMEDY = " If the job needs it, give such a cell the tag gq-setup, or replay the cells."


def told(*sources, staying=("it",), replayed=(0,)):
    """The first cell makes `it`, runs in the job, and the last cell is sent."""
    return explain_lost(staying, replayed, steps(*sources, "print(it)"))


def test_what_cells_have_done_with_a_variable_that_stays_is_told():
    assert told("it = count()", "print(next(it))", "x = 1") == [f"{MADE}“print(next(it))” (it).{REMEDY}"]


@pytest.mark.parametrize(
    "source",
    [
        "for x in it: break",
        "first = [x for x in it]",
        "it.execute('create table t (x)')",
        "it.set(5)",
        "it()",
        "del it",
        "it.rows['a'] = 1",
        "it += [1]",
        "@it.register\ndef _(x: int): return 1",
        "%time next(it)",
        "train(data, source=it)",
        "with it.transaction() as t: t.run()",
    ],
)
def test_each_way_to_change_it_is_told(source):
    assert len(told("it = make()", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "print(it)",
        "with it: n = 1",
        "it",
        "def f(): return next(it)",
        "x = it",
        "isinstance(it, list)",
        "other.append(1)",
    ],
)
def test_what_only_reads_it_is_not_told(source):
    assert told("it = make()", source) == []


def test_only_cells_that_do_not_run_and_variables_that_stay_are_told():
    cells = ("it = make()", "next(it)", "next(it)")
    assert told(*cells, replayed=(0, 1, 2)) == []
    assert told(*cells, staying=()) == []
    assert told("next(it)", "it = make()", replayed=(1,)) == [], "an earlier one of this name"


def test_the_first_cells_are_named_and_the_others_counted():
    (sentence,) = told("it = make()", *(f"it.add({n})" for n in range(5)))
    assert sentence == f"{MADE}“it.add(0)” (it); “it.add(1)” (it); “it.add(2)” (it), and 2 more cells.{REMEDY}"


def test_what_no_variable_holds_is_told_before():
    state, done = told("it = make()", "import random\nrandom.seed(1)\nnext(it)")
    assert state.startswith("Not in the job, since no variable holds it: what these cells set in this kernel: “import")
    assert done.startswith(MADE)


def test_what_cells_have_done_that_a_job_without_variables_leaves_out_is_told():
    sources = ["batches = iter(load())", "torch.manual_seed(0); net.eval()", "next(batches); net(1)"]
    cells = [PrefixCell(cell_id=f"c{number}", source=source) for number, source in enumerate(sources)]
    target: JsonObject = {"cell_type": "code", "id": "t", "source": "net = train(batches)"}
    request = CellsRequest(notebook_path="a.ipynb", notebook={"cells": [target]}, targets=["t"], prefix=cells)
    planned = plan_steps(request, Kernel(name="python3", argv=["python3"]))
    assert [bool(step.lacks) for step in planned] == [False, True, True, False]
    state, done = explain_lost(["batches"], [0], planned)
    assert "“torch.manual_seed(0); net.eval()” (torch.manual_seed)" in state
    assert "“next(batches); net(1)” (batches)" in done


@pytest.mark.parametrize(
    ("target", "way"),
    [
        ("if 'net' in globals(): print(1)", "globals()"),
        ("[name for name in dir()]", "dir()"),
        ("%whos", "%whos"),
        ("%run -i script.py", "%run"),
        ("import __main__\ngetattr(__main__, 'net')", "__main__"),
        ("for kind in Shape.__subclasses__(): kind()", "__subclasses__()"),
    ],
)
def test_a_cell_that_looks_for_variables_among_all_of_them_is_told(target, way):
    (sentence,) = explain_lost((), (), steps("net = 1", target))
    assert f"looks for variables by {way}, and the job has only those above" in sentence
    assert explain_lost((), (), steps(target, "print(1)")) == [], "a cell that is not sent"


@pytest.mark.parametrize(
    "target", ["dir(net)", "vars(net)", "%run script.py", "def f(): return globals()", "net.dir()"]
)
def test_other_lookups_are_not_told(target):
    assert explain_lost((), (), steps("net = 1", target)) == []
