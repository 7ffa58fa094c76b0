"""Functions that share a variable of the function around them go along only if nobody assigns it."""

import json
from pathlib import Path

import pytest

from jupyter_gq.notebook.carrying.save import Request, save

MAKE = """
def make():
    n = 0
    def add():
        {}
        return n
    def get():
        return n
    return add, get
"""


def staying(folder: Path, source: str, *names: str) -> set[str]:
    """Return the names of the variables that stay."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(source, namespace)
    request = Request(names=names, folder=str(folder), limit=10**6, cwd=str(folder), makers={}, staying={})
    report = json.loads(json.dumps(save(namespace, request)))
    return {each["name"] for each in report["variables"] if each["why"]}


@pytest.mark.parametrize(
    ("body", "made", "names"),
    [
        ("nonlocal n; n += 1", "add, get = make()", {"add", "get"}),
        ("nonlocal n; n += 1", "both = make()", {"both"}),
        ("nonlocal n; n += 1", "add = make()[0]", set()),
        ("def inner():\n            nonlocal n; n += 1\n        inner()", "add, get = make()", {"add", "get"}),
        ("n", "add, get = make()", set()),
        ("m = n", "both = make()", set()),
        ("nonlocal n; n += 1", "add, other = make()[0], make()[0]", set()),
    ],
    ids=["two variables", "one variable", "alone", "assigned deeper", "only read", "another one", "one for each"],
)
def test_functions_stay_that_share_what_one_assigns(tmp_path: Path, body: str, made: str, names: set[str]) -> None:
    targets = [each.strip() for each in made.partition("=")[0].split(",")]
    assert staying(tmp_path, MAKE.format(body) + made, *targets) == names
