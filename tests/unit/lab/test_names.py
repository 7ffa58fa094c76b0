"""The names that a cell makes, and those of them that later cells need, follow the order of evaluation."""

import pytest

from jupyter_gq.lab.names import find_free_names, find_made_names, find_makers, find_needed_names


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("model = train()", ["model"]),
        ("import numpy as np\nfrom math import pi\nx = 1", ["x"]),
        ("_private = 1\n__dunder__ = 2", []),
        ("def f():\n    inner = 1\nclass C:\n    field = 1", ["C", "f"]),
        ("a, (b, *c) = 1, (2, 3)", ["a", "b", "c"]),
        (
            "for step in range(3):\n    loss = step\nwith open('x') as file:\n    text = file.read()",
            ["file", "loss", "step", "text"],
        ),
        ("squares = [n * n for n in range(3)]", ["squares"]),
        ("if (found := search()):\n    pass", ["found"]),
        ("%time x = 1\n!ls", ["x"]),
        ("%timeit -n 3 x = 1", []),
        ("obj.field = 1\nlist[0] = 2", []),
        ("this is no python", []),
    ],
)
def test_made_names_are_what_the_cell_assigns(source, made):
    assert find_made_names([source]) == made


@pytest.mark.parametrize(
    ("later", "needed"),
    [
        (["model.predict(x)"], ["model"]),
        (["model = load()", "model.predict()"], []),
        (["model += 1"], ["model"]),
        (["model = model.eval()"], ["model"]),
        (["for loss in losses:\n    print(loss)"], []),
        (["print([model for model in models])"], []),
        (["print([m for m in model])"], ["model"]),
        (["def show():\n    return model"], ["model"]),
        (["def show(model):\n    return model"], []),
        (["f = lambda model: model"], []),
        (["f'{loss:.3f}'"], ["loss"]),
        (["%%bash\necho model"], []),
        (["# model"], []),
        (["import model", "model.run()"], []),
        ([], []),
    ],
)
def test_needed_is_what_a_later_cell_reads_before_it_assigns(later, needed):
    assert find_needed_names(["loss", "model"], later) == needed


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("print(len(data))", ["data", "len", "print"]),
        ("data = 1\nuse(data)", ["use"]),
        ("x = 1\r\nif x:\r\n    y = scale(x)\r\n", ["scale"]),
        ("%%time\nfit(net)", ["fit", "get_ipython", "net"]),
        ("%timeit -n 10 -r 3 fit(net)", ["fit", "get_ipython", "net"]),
        ("!ls {folder} $name", ["folder", "get_ipython", "name"]),
        ("del net", ["net"]),
        ("net = 1\ndel net\nprint(net)", ["net", "print"]),
        ("%%bash\necho $net", ["get_ipython"]),
        ("for\n", []),
    ],
    ids=["read", "own", "Windows line ends", "cell magic", "timeit", "command", "del", "gone", "bash", "no Python"],
)
def test_free_names_are_read_before_the_cells_assign_them(source, free):
    assert find_free_names([source]) == free


def test_makers_are_the_cells_that_assign_or_import_a_name():
    cells = ["import math", "x = 1", "x += 1\ndef f(): y = 2", "from nets import *"]
    assert find_makers(cells) == {"math": [0], "x": [1, 2], "f": [2], "*": [3]}
