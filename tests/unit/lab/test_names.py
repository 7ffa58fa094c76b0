"""The names that a cell makes, and those of them that later cells need, follow the order of evaluation."""

import pytest

from jupyter_gq.lab.names import find_made_names, find_needed_names


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
        ("%time x = 1\n!ls", []),
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
