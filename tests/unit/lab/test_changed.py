"""The dialog says what a variable loses on its way to the job: a filled cache, and memory that arrays share."""

import json
from pathlib import Path

import pytest

from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.carrying.changed import explain_changed
from jupyter_gq.notebook.carrying.save import Request, save

CACHE = """
import functools
@functools.lru_cache
def square(x):
    return x * x
class Model:
    @functools.lru_cache
    def forward(self):
        return 1
"""
VIEWS = (
    "import numpy\nimages = numpy.zeros((4, 3))\nfirst = images[:2]\nother = numpy.zeros(3)\npair = {'part': images.T}"
)


def explain(folder: Path, source: str, target: str, *names: str) -> list[str]:
    """Return the notes about these variables of a kernel that has run a source, for a cell that is sent."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(source, namespace)
    request = Request(names=names, folder=str(folder), limit=10**6, cwd=str(folder), makers={}, staying={})
    report = json.loads(json.dumps(save(namespace, request)))
    assert [each["why"] for each in report["variables"] if each["name"] in names] == [""] * len(names)
    return explain_changed(report, [Step(id="t", cell_id="t", source=target, seconds=None, why="target")])


@pytest.mark.parametrize(
    ("call", "name", "named"),
    [("", "square", ""), ("square(3)", "square", "square"), ("Model().forward()", "Model", "Model")],
)
def test_a_cache_is_named_if_there_is_something_in_it(tmp_path: Path, call: str, name: str, named: str) -> None:
    notes = explain(tmp_path, CACHE + call, f"{name}(3)", name)
    assert [note.split(",")[0] for note in notes] == ([f"Empty in the job: the cache of {named}"] if named else [])


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("first[0] = 1", "what the cell changes in first does not show in images there."),
        ("images += 1", "what the cell changes in images does not show in first there."),
        ("images += 1; first += 1", "what the cell changes in images and first does not show in images and first"),
    ],
)
def test_arrays_that_share_memory_are_named_if_the_cell_changes_one(tmp_path: Path, target: str, sentence: str) -> None:
    [note] = explain(tmp_path, VIEWS, target, "images", "first", "other")
    assert note.startswith("images and first share their memory in this kernel")
    assert sentence in note


def test_arrays_in_other_values_count_and_arrays_of_their_own_do_not(tmp_path: Path) -> None:
    [note] = explain(tmp_path, VIEWS, "pair['part'][0] = 1; other[0] = 1", "images", "pair", "other")
    assert note.startswith("images and pair share their memory")
    assert explain(tmp_path, VIEWS, "print(images); model.fit(images)", "images", "first", "other") == []
    assert explain(tmp_path, VIEWS, "other[0] = 1", "images", "first", "other") == []


def test_variables_that_hold_the_same_array_share_it_in_the_job_too(tmp_path: Path) -> None:
    same = "import numpy\nimages = numpy.zeros(3)\ntrain = {'x': images}\ntest = {'x': images}"
    assert explain(tmp_path, same, "train['x'][0] = 1", "train", "test") == []
    assert len(explain(tmp_path, f"{same}\npart = images[1:]", "train['x'][0] = 1", "train", "part")) == 1
