"""Variables that a job takes along are there before its first cell, or the run fails with a sentence that says why."""

import json
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.environment.kernel import CARRY_FILE
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.lab.carrying.packages import find_versions
from tests.frozen import digest, split

from .conftest import Job

THIS_PYTHON = "{}.{}".format(*sys.version_info)
_SAVE = "import runpy, sys; exec(sys.argv[3]); runpy.run_path(sys.argv[1])['call']('save', sys.argv[2])"


def take_along(job: Job, code: str, *names: str, python: str = THIS_PYTHON) -> JsonObject:
    """Let a job take variables along that this code has made in another process."""
    folder = job.folder.parent / "saved"
    folder.mkdir()
    request = {"names": names, "folder": str(folder), "limit": 10**8, "cwd": str(job.cwd), "makers": {}, "staying": {}}
    subprocess.run([sys.executable, "-c", _SAVE, str(CARRY_FILE), json.dumps(request), code], check=True)
    report = json.loads((folder / "report.json").read_text())
    assert not [each for each in report["variables"] if each["why"]]
    carry(job, [(each["names"], (folder / each["file"]).read_bytes()) for each in report["pickles"]], python)
    carried: JsonObject = job.manifest["carried"]
    carried["packages"] = find_versions(report["modules"], report["path"])
    return carried


def carry(job: Job, pickles: list[tuple[list[str], bytes]], python: str = THIS_PYTHON) -> None:
    entries = [
        {"names": names, "bytes": len(content), "parts": [digest(part) for part in split(content)]}
        for names, content in pickles
    ]
    job.manifest["carried"] = {"python": python, "pickles": entries}
    job.pickles = [content for _, content in pickles]


def shown(job: Job) -> str:
    return "".join(output.get("text", "") for output in job.notebook()["cells"][-1]["outputs"])


def test_target_finds_its_variables_and_no_cell_ran_before(job: Job) -> None:
    code = (
        "import math\nfactor = [2]\n"
        "class Net:\n    def __init__(self):\n        self.weights = [1.0]\n"
        "def scale(x):\n    return math.sqrt(x) * factor[0]\n"
        "net = Net()\nclass Optimizer:\n    def __init__(self, net):\n        self.parameters = net.weights\n"
        "optimizer = Optimizer(net)"
    )
    take_along(job, code, "scale", "net", "optimizer")
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.target(
        "import model\nfactor[0] = 3\noptimizer.parameters.append(model.WIDTH)\nprint(scale(4), net.weights, __name__)"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    assert shown(job) == "6.0 [1.0, 7] __main__\n"
    kept = list((job.folder / "carried").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept} == {0o600}
    assert stat.S_IMODE((job.folder / "carried").stat().st_mode) == 0o700


def test_a_later_run_has_the_variables_as_they_were_at_sending(job: Job) -> None:
    take_along(job, "steps = []", "steps")
    job.target("steps.append(1); print(steps)").run()
    job.run(2)
    assert shown(job).endswith("[1]\n")
    assert "[1, 1]" not in shown(job)


def test_cells_that_run_first_find_the_variables_and_may_replace_them(job: Job) -> None:
    take_along(job, "path = 'a'", "path")
    job.prefix("handle = path + 'b'").target("print(handle)").run()
    assert shown(job) == "ab\n"


class Deadly:
    def __reduce__(self) -> tuple[object, tuple[int]]:
        return __import__("os")._exit, (9,)


class Raises:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return int, ("no number",)


@pytest.mark.parametrize(
    ("content", "python", "said"),
    [
        (pickle.dumps({"x": 1}), "3.8", "they were made by Python 3.8, and the job has Python"),
        (b"cnot_installed\nthing\n.", THIS_PYTHON, "x needs the package not_installed, which is not installed here"),
        (pickle.dumps({"x": Raises()}), THIS_PYTHON, "x raised ValueError: invalid literal"),
        (pickle.dumps({"x": Deadly()}), THIS_PYTHON, "the kernel ended"),
    ],
    ids=["another Python", "missing package", "error", "kernel dies"],
)
def test_what_cannot_be_loaded_ends_the_run_before_its_cells(
    job: Job, tmp_path: Path, content: bytes, python: str, said: str
) -> None:
    carry(job, [(["x"], content)], python)
    result = job.target(f"open({str(tmp_path / 'ran')!r}, 'w')").run()
    assert (result["outcome"], said in result["sentence"]) == ("FAILED", True), result
    assert "Send the cell again without them" in result["sentence"]
    assert not (tmp_path / "ran").exists()


def test_incomplete_variables_end_the_run_with_a_sentence(job: Job) -> None:
    carry(job, [(["x"], b"12345")])
    job.pickles = [b"1234"]
    assert job.target("1").run()["sentence"] == "The variable x of this job is incomplete. Send the cell again."


def test_packages_of_variables_are_those_of_their_types_and_functions(job: Job) -> None:
    carried = take_along(job, "import json, math\nimport numpy as np\nx = np.zeros(3); y = [json, math.sqrt]", "x", "y")
    assert list(carried["packages"]) == ["cloudpickle", "numpy"]
    assert job.target("print(x.sum())").run()["outcome"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("numpy", "they were made with numpy 1.0.1, and the job has numpy "),
        ("not-installed", "they need the package not-installed 1.0.1, which is not installed here"),
    ],
)
def test_other_versions_of_packages_end_the_run_before_anything_is_loaded(job: Job, package: str, said: str) -> None:
    carry(job, [(["x"], pickle.dumps({"x": Deadly()}))])
    job.manifest["carried"]["packages"] = {package: "1.0.1"}
    assert said in job.target("1").run()["sentence"]


def test_objects_that_hold_each_other_do_so_in_the_job(job: Job) -> None:
    take_along(job, "left = {}; right = [left]; left['right'] = right\ndef f(): return g\ndef g(): return f", *PAIRS)
    job.target("print(left['right'] is right, right[0] is left, f()() is f)").run()
    assert shown(job) == "True True True\n"


PAIRS = ("left", "right", "f", "g")


def test_an_instance_keeps_its_class_when_a_cell_has_defined_that_anew(job: Job) -> None:
    code = "class Net:\n    size = 1\nfirst, other = Net(), Net()\nclass Net:\n    size = 2\nsecond = Net()"
    take_along(job, code, "Net", "first", "other", "second")
    job.target("print(first.size, second.size, type(first) is type(other), type(first) is Net, type(second) is Net)")
    job.run()
    assert shown(job) == "1 2 True False True\n"


def test_relative_paths_lead_to_the_files_of_the_job(job: Job) -> None:
    code = "from pathlib import Path\nplace = Path('data/rows.txt')\ndef read(): return open(place).read()"
    take_along(job, code, "read")
    job.files = {"data/rows.txt": b"frozen"}
    job.target("print(read())").run()
    assert shown(job) == "frozen\n"


def test_plain_containers_are_shared_in_the_job_as_they_were(job: Job) -> None:
    code = "rows = [1, 2]; alias = rows; names = {'a': 'x'}; both = {'rows': rows}; text = 'long'; none = None"
    take_along(job, code, "rows", "alias", "names", "both", "text", "none")
    job.target("print(alias is rows, both['rows'] is rows, rows, names, text, none)").run()
    assert shown(job) == "True True [1, 2] {'a': 'x'} long None\n"


REPLAYS = {
    "assigned anew": ("model = {'w': 43}", "model = {'w': 0}", "print(model)", "{'w': 43}"),
    "changed in place": ("model = {'w': 43}", "model['w'] = 0; model['x'] = 1", "print(model)", "{'w': 43}"),
    "deleted": ("model = {'w': 43}", "del model", "print(model)", "{'w': 43}"),
    "used": ("model = [43]", "class Trainer: pass\nt = Trainer(); t.model = model", "print(t.model is model)", "True"),
    "an instance that is used": (
        "class Model:\n    def size(self): return 43\nmodel = Model()",
        "made = [model, Model]; model.size(); repr(model)",
        "print(made[0] is model, made[1] is type(model) is Model)",
        "True True",
    ),
    "held by another one": (
        "model = {'w': 43}; holders = [{'model': model}]",
        "model['w'] = 0",
        "print(holders[0]['model'] is model, model)",
        "True {'w': 43}",
    ),
    "beside one that changed": (
        "model = [43]; calls = []; both = (model, calls)",
        "made = [model]; calls.append(1)",
        "print(made[0] is model, calls, both[0] is model, both[1] is calls)",
        "True [] True True",
    ),
    "a class": (
        "class Model:\n    size = 43\nmodel = Model()",
        "class Model:\n    size = 0",
        "print(model.size, type(model) is Model)",
        "43 True",
    ),
    "a function": (
        "rate = 43\ndef model(): return rate",
        "rate = 0\ndef model(): return 'other'",
        "print(model(), model.__globals__ is globals())",
        "43 True",
    ),
    "no pickle here": (
        "class Model:\n    def __init__(self): self.w = 43\nmodel = Model()",
        "model.w = __import__('threading').Lock()",
        "print(model.w)",
        "43",
    ),
}


@pytest.mark.parametrize("kind", REPLAYS)
def test_variables_have_their_values_again_after_the_replayed_cells(job: Job, kind: str) -> None:
    made, replayed, target, expected = REPLAYS[kind]
    names = [name for name in ("Model", "model", "calls", "both", "holders", "rate") if name in made]
    take_along(job, made, *names)
    assert job.prefix(replayed).prefix("1 + 1", "second").target(target).run()["outcome"] == "SUCCEEDED"
    assert shown(job) == f"{expected}\n"


def test_each_run_and_each_task_has_the_values_again(job: Job) -> None:
    take_along(job, "steps = [43]", "steps")
    job.prefix("steps.append(1)").target("assert steps == [43]; steps.append(2); print(steps)").run()
    for run, task in ((2, 0), (1, 1)):
        assert job.run(run, task=task)["outcome"] == "SUCCEEDED"
    assert shown(job) == "[43, 2]\n"


def test_loading_again_shows_nothing_and_counts_no_cell(job: Job) -> None:
    code = (
        "class Loud:\n    def __setstate__(self, state):\n        print('loaded')\n        self.x = 0\n"
        "loud = Loud()\nloud.x = 1"
    )
    take_along(job, code, "loud")
    job.prefix("loud.x = 2").target("print(loud.x)").run()
    outputs = [cell["outputs"] for cell in job.notebook()["cells"]]
    assert [len(each) for each in outputs] == [0, 1]
    assert shown(job) == "0\n"
    assert job.notebook()["cells"][-1]["execution_count"] == 2


def test_a_value_that_cannot_be_loaded_again_ends_the_run_before_its_targets(job: Job, tmp_path: Path) -> None:
    code = (
        "class Once:\n    def __setstate__(self, state):\n"
        "        import os\n        os.mkdir(state['place'])\n        self.place = state['place']\n"
        f"once = Once()\nonce.place = {str(tmp_path / 'once')!r}"
    )
    take_along(job, code, "once")
    result = job.prefix("once.place = ''").target(f"open({str(tmp_path / 'ran')!r}, 'w')").run()
    assert "could not be loaded again after the cells that ran first: once raised FileExistsError" in result["sentence"]
    assert not (tmp_path / "ran").exists()


CODE = {
    "module": ("import json", "json.loads('1')"),
    "function": ("def read(): return 1", "read()"),
    "data": ("zzz = [1]", "zzz[0]"),
    "data by a function": ("zzz = [1]\ndef read(): return zzz[0]", "read()"),
}


@pytest.mark.parametrize("kind", CODE)
def test_what_a_class_uses_is_there_before_its_instances_are_loaded(job: Job, kind: str) -> None:
    made, used = CODE[kind]
    state = f"class Model:\n    def __getstate__(self): return 1\n    def __setstate__(self, _): self.x = {used}\n"
    take_along(job, f"{made}\n{state}m = Model()", "m")
    assert job.target("print(m.x)").run()["outcome"] == "SUCCEEDED"
    assert shown(job) == "1\n"
