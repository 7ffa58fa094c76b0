"""Objects that variables share in a notebook are shared in the job: a target computes there what it computes here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.environment.kernel import CARRY_FILE
from jupyter_gq.domain.json_types import JsonObject

SLOTTED = "class Slotted:\n    __slots__ = ('value',)\n    def __init__(self):\n        self.value = 1\n"
COUNTING = (
    "total = 0\n"
    "def step():\n    global total\n    total += 1\n"
    "def count():\n    return total\n"
    "def assign(value):\n    global total\n    total = value\n"
    "class Left:\n    def add(self):\n        step()\n"
    "class Right:\n    def add(self):\n        step()\n    def show(self):\n        return total\n"
)
LIBRARY = "calls = 0\ndef wrap():\n    def call():\n        global calls\n        calls += 1\n    return call\n"
PACKAGE = "from .inner import count\n"
#: Cells, the names of their variables that go along, and a target. `counting` is a module of the notebook's folder.
CASES = {
    "two functions of a module": ("from counting import step, count", "step count", "step(), step(), count()"),
    "a module and its function": (
        "import counting; from counting import step",
        "counting step",
        "step(), counting.count()",
    ),
    "a module under two names": (
        "import counting; other = counting",
        "counting other",
        "counting.step(), other.count()",
    ),
    "the module assigns": ("import counting; count = counting.count", "counting count", "counting.assign(5), count()"),
    "others assign": (
        "import counting; count = counting.count",
        "counting count",
        "setattr(counting, 'total', 7), count()",
    ),
    "two classes": ("import counting; a = counting.Left(); b = counting.Right()", "a b", "a.add(), b.add(), b.show()"),
    "inside of values": ("import counting; a = [counting.step]; b = [counting.count]", "a b", "a[0](), b[0]()"),
    "a package": (
        "import package.inner; from package.inner import step; from package import count",
        "package step count",
        "step(), count(), package.inner.count()",
    ),
    "slots": (
        SLOTTED + "s = Slotted(); a = [s]; b = [s]",
        "a b",
        "setattr(a[0], 'value', 2), b[0].value, a[0] is b[0]",
    ),
    "slots, equal by value": (
        SLOTTED
        + "    __eq__ = lambda self, other: True\n    __hash__ = lambda self: 0\ns = Slotted(); a = [s]; b = [s]",
        "a b",
        "setattr(a[0], 'value', 2), b[0].value, a[0] is b[0]",
    ),
    "iterator": ("a = [iter([1, 2, 3])]; b = [a[0]]", "a b", "next(a[0]), next(b[0])"),
    "random numbers": (
        "import numpy; a = [numpy.random.default_rng(1)]; b = [a[0]]",
        "a b",
        "a[0].random(), b[0].random()",
    ),
    "a closure of a library": (
        "import library; f = library.wrap(); g = library.wrap()",
        "f g",
        "f(), g(), __import__('library').calls",
    ),
}
_SAVE = """
import sys
exec(sys.argv[3])
import runpy
runpy.run_path(sys.argv[1])["call"]("save", sys.argv[2])
print(eval(sys.argv[4]))
"""
_LOAD = """
import json, runpy, sys
request = json.loads(sys.argv[2])
runpy.run_path(sys.argv[1])["call"]("load", sys.argv[2])
assert open(request["report"]).read() == "", open(request["report"]).read()
print(eval(sys.argv[3]))
"""


def run(code: str, *arguments: str, cwd: Path) -> str:
    command = [sys.executable, "-c", code, str(CARRY_FILE), *arguments]
    environment = os.environ | {"PYTHONPATH": str(cwd.parent / "installed")}
    return subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True).stdout


def save(folder: Path, names: str, cells: str, target: str) -> tuple[JsonObject, str]:
    """Let a process make variables and save them in a folder; return its report and what the target shows there."""
    project, saved = folder / "project", folder / "saved"
    for name, code in {"counting.py": COUNTING, "package/inner.py": COUNTING, "package/__init__.py": PACKAGE}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(code)
    for each in (saved, folder / "installed"):
        each.mkdir()
    (folder / "installed" / "library.py").write_text(LIBRARY)
    request = {"names": names.split(), "folder": str(saved), "limit": 10**7, "cwd": str(project)}
    shown = run(_SAVE, json.dumps(request | {"makers": {}, "staying": {}}), cells, target, cwd=project)
    return json.loads((saved / "report.json").read_text()), shown


@pytest.mark.parametrize("case", CASES)
def test_a_target_computes_with_its_variables_what_it_computes_here(case: str, tmp_path: Path) -> None:
    cells, names, target = CASES[case]
    report, here = save(tmp_path, names, cells, target)
    assert not [each for each in report["variables"] if each["why"]]
    job = tmp_path / "job"
    job.mkdir()
    loading = {"step": "load", "report": str(tmp_path / "loaded"), "folder": str(tmp_path / "saved"), "replays": False}
    loading |= {"python": report["python"], "packages": {}, "pickles": report["pickles"]}
    assert run(_LOAD, json.dumps(loading), target, cwd=job) == here


def test_values_that_are_written_by_name_alone_keep_no_variables_together(tmp_path: Path) -> None:
    cells = "import numpy; a = [numpy.sin, str.upper, numpy.ones(2)]; b = [numpy.sin, str.upper, numpy.ones(2)]"
    report, _ = save(tmp_path, "a b", cells, "0")
    assert [each["names"] for each in report["pickles"]] == [["a"], ["b"]]
