"""What a failed cell has done before its error is told if the job reads it, and nothing else."""

from dataclasses import replace

import pytest

from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.plan.hidden_inputs import find_differences
from jupyter_gq.lab.reading import names
from jupyter_gq.lab.reading.cells import parse_cell

from .test_hidden_inputs import steps


def ran(*sources, failed=()):
    """Executions of cells c0, c1 and so on."""
    return [
        RanCell(code=source, execution_count=number + 1, seconds=1.0, cell_id=f"c{number}", failed=number in failed)
        for number, source in enumerate(sources)
    ]


def told(target, *sources, failed, included=()):
    """The last cell is sent; of the others, those run first that did not fail, or are included."""
    kept = [(n, each) for n, each in enumerate(sources) if n not in failed or n in included]
    planned = [
        step if step.why == "target" else type(step)(**{**fields(step), "cell_id": f"c{kept[n][0]}"})
        for n, step in enumerate(steps(*(each for _, each in kept), target))
    ]
    found = find_differences(planned, [], ran(*sources, failed=failed))
    return [each.message for each in found if each.code == "failed_cell"]


def fields(step):
    return {name: getattr(step, name) for name in ("id", "cell_id", "source", "seconds", "why", "index")}


def test_a_name_that_a_failed_cell_has_set_is_told_if_the_target_reads_it():
    (message,) = told("print(rate)", "rate = 1", "rate = 5\nraise ValueError", failed=[1])
    assert message == (
        "“rate = 5” ended with an error here and is left out, but it had set rate before. "
        "Set this in a cell without an error, if the job needs it."
    )


@pytest.mark.parametrize(
    ("failed", "target"),
    [
        ("items.append(2)\nitems.missing()", "print(items)"),
        ("net.width = 3\nboom()", "train(net)"),
        ("table['a'] = 3\nboom()", "table"),
        ("import numpy as np\nimport missing", "np.zeros(3)"),
        ("total += 1\nboom()", "print(total)"),
    ],
)
def test_what_it_has_changed_or_imported_is_told(failed, target):
    assert len(told(target, "start = 0", failed, failed=[1])) == 1


def test_it_is_told_if_a_cell_that_runs_first_reads_it():
    assert len(told("print(twice)", "rate = 5\nboom()", "twice = rate * 2", failed=[0])) == 1


@pytest.mark.parametrize(
    ("sources", "target", "failed", "included"),
    [
        (["rate = boom()"], "print(rate)", [0], []),
        (["rate = 5\nboom()", "rate = 6"], "print(rate)", [0], []),
        (["rate = 5\nboom()"], "print(other)", [0], []),
        (["rate = 5\nboom()"], "print(rate)", [0], [0]),
        (["rate = 5\nboom()"], "print(rate)", [], []),
        (["def boom():\n    rate = 5\nboom()"], "print(rate)", [0], []),
        (["twice = rate * 2", "rate = 5\nboom()"], "print(twice)", [1], []),
    ],
    ids=["failed at once", "made anew", "not read", "included", "no error", "in a function", "read before"],
)
def test_other_failed_cells_are_not_told(sources, target, failed, included):
    assert told(target, *sources, failed=failed, included=included) == []


def test_a_cell_that_failed_often_is_told_once():
    done = ran(*["rate = 5\nboom()"] * 3, failed=[0, 1, 2])
    again = [replace(each, cell_id="c0") for each in done]
    assert len(list(find_differences(steps("print(rate)"), [], again))) == 1
    assert len(told("print(rate)", "rate = 5\nboom()", "rate = 6\nboom()", failed=[0, 1])) == 2, "other code"


def test_what_any_of_its_executions_has_set_is_told():
    failed = "low = 1\nhigh = 2\nboom()"
    cells = [failed, "print(low)\nlow = 0", failed, "high = 3"]
    done = [replace(cell, cell_id=name) for cell, name in zip(ran(*cells, failed=[0, 2]), "abad", strict=True)]
    *before, target = steps(cells[1], cells[3], "print(low)")
    planned = [*(replace(step, cell_id=name) for step, name in zip(before, "bd", strict=True)), target]
    (message,) = [each.message for each in find_differences(planned, [], done)]
    assert "it had set low before" in message, "the job makes high anew"


def test_each_cell_is_read_once_however_many_have_failed(monkeypatch):
    read = []
    monkeypatch.setattr(names, "parse_cell", lambda source: read.append(source) or parse_cell(source))
    count = 30
    cells = [each for n in range(count) for each in (f"a{n} = 1\nboom()", f"b{n} = a{n}")]
    assert len(told("1", *cells, failed=range(0, 2 * count, 2))) == count
    assert len(read) < 4 * count


def test_a_failed_cell_that_runs_in_part_is_not_told_as_left_out():
    before, target = steps("rate = 5", "print(rate)")
    written = "rate = 5\njupyter_gq.submit('t')"
    done = ran(written, failed=[0])
    assert list(find_differences([replace(before, is_cut=True, whole=written), target], [], done)) == []
    left_out = replace(before, source="# Left out", lacks=("net",), whole=written)
    assert [each.code for each in find_differences([left_out, target], [], done)] == ["failed_cell"]


def test_it_is_not_told_of_values_that_go_along():
    planned, done = steps("print(rate)"), ran("rate = 5\nboom()", failed=[0])
    assert [each.code for each in find_differences(planned, [], done)] == ["failed_cell"]
    assert list(find_differences(planned, [], done, carries=True)) == []
