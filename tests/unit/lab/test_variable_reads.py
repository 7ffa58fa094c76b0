"""The environment variables that cells read are found in their sources."""

import pytest

from jupyter_gq.lab.bundle.variable_reads import find_read_variables


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ('import os\nos.environ["X"]', {"X": True}),
        ('from os import environ\nenviron["X"]', {"X": True}),
        ('import os as o\no.environ.get("X", "1")', {"X": False}),
        ('import os\nos.getenv("X")', {"X": False}),
        ('from os import getenv\nint(getenv("X"))', {"X": False}),
        ('"X" in os.environ and os.environ["X"]', {"X": True}),
        ('def f():\n    return os.environ.pop("X")', {"X": False}),
        ('os.environ.setdefault("X", "1")\nos.environ["X"]', {"X": False}),
        ("%env X", {"X": False}),
        ("%env X=1", {}),
        ('%%time\nos.environ["X"]', {"X": True}),
        ('%timeit -n 3 os.getenv("X")', {"X": False}),
        ("%env X 1", {}),
        ('os.environ["X"] = "1"\nos.environ["X"]', {}),
        ('os.environ["X"] = os.environ["X"] + "1"', {"X": True}),
        ('os.environ[f"X{1}"]', {}),
        ("os.environ[name]", {}),
        ('settings["X"]', {}),
        ('os.environ["not a name"]', {}),
        ("%%bash\necho $X", {}),
    ],
)
def test_reads_of_one_cell(source, read):
    assert find_read_variables([source]).read == read


def test_a_variable_that_an_earlier_cell_sets_is_not_read_from_outside():
    assert find_read_variables(['os.environ["X"] = "1"', 'os.environ["X"]']).read == {}
    assert find_read_variables(['os.environ["X"]', 'os.environ["X"] = "1"']).read == {"X": True}


def test_imported_packages_are_found():
    found = find_read_variables(["import wandb, a.b", "from transformers.models import x", "from . import here"])
    assert found.packages == {"wandb", "a", "transformers"}
