"""The variables of a real kernel go along with a job: asked for, checked in a new process, sent, loaded by a runner."""

import asyncio
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.bounds import MOST_CARRIED
from jupyter_gq.lab.carrying import captures
from tests.patience import scaled

from .test_kernels import kernel  # noqa: F401 - a fixture
from .test_send import a_notebook, a_request, code


def asks_for(kernel, target, *before, **fields):  # noqa: F811
    """A request for a target cell after these cells, in the order in which they ran."""
    cells = [code(f"c{number}", source) for number, source in enumerate(before)]
    prefix = [{"cell_id": cell["id"], "source": cell["source"], "seconds": 40} for cell in cells]
    notebook = a_notebook(*cells, code("train", target))
    return a_request(notebook=notebook, prefix=prefix, kernel_id=kernel.id, **fields)


async def run_all(kernel, *sources):  # noqa: F811
    for source in sources:
        reply = await kernel.run(source)
        assert reply["content"]["status"] == "ok", reply["content"]


def reasons(answer):
    return {each["name"]: each["why"] for each in answer["variables"]}


async def test_plan_suggests_variables_when_the_cells_before_took_long(kernel, fetch):  # noqa: F811
    _, plan = await fetch("POST", "check", body=asks_for(kernel, "train(data)", "data = 1"))
    assert plan["carry"] == {"offered": True, "suggested": True}
    quick = asks_for(kernel, "train(data)", "data = 1")
    quick["prefix"][0]["seconds"] = 2
    _, plan = await fetch("POST", "check", body=quick)
    assert plan["carry"] == {"offered": True, "suggested": False}
    _, plan = await fetch("POST", "check", body={**quick, "kernel_id": None})
    assert plan["carry"] == {"offered": False, "suggested": False}


async def test_variables_of_a_kernel_reach_the_target_of_a_job(kernel, service, fetch, jp_root_dir, tmp_path):  # noqa: F811
    (jp_root_dir / "work").mkdir()
    (jp_root_dir / "work" / "nets.py").write_text("WIDTH = 7\ndef widen(x):\n    return x * WIDTH\n")
    before = (
        f"import os, sys; os.chdir({str(jp_root_dir / 'work')!r}); sys.path.insert(0, '')\nimport math\nimport nets",
        "class Net:\n    def __init__(self):\n        self.weights = [1.0]\nnet = Net()",
        "class Optimizer:\n    def __init__(self, net):\n        self.parameters = net.weights\nopt = Optimizer(net)",
        "import threading\nlock = threading.Lock()\nsize = 3",
        "def step():\n    with lock:\n        opt.parameters.append(math.sqrt(nets.widen(size)))",
    )
    await run_all(kernel, *before)
    target = "step()\nprint(len(net.weights), type(net) is Net, step.__globals__ is globals())"
    request = asks_for(kernel, target, *before, cwd=str(jp_root_dir / "work"))
    status, answer = await fetch("POST", "variables", body=request)
    assert status == 200, answer
    assert {name for name, why in reasons(answer).items() if not why} == {
        *("Net", "Optimizer", "math", "nets", "net", "opt", "size", "step")
    }
    assert reasons(answer)["lock"].startswith("It cannot be pickled: cannot pickle '_thread.lock' object")
    assert answer["replayed"] == [3]
    assert answer["bytes"] < 20_000
    replayed = [request["prefix"][place] for place in answer["replayed"]]
    sent = {**request, "prefix": replayed, "capture": answer["id"], "live_folder": True}
    status, problem = await fetch("POST", "send", body=sent)
    assert status == 201, problem
    bundle = service.bodies[-1]["bundle"]
    assert [cell["source"] for cell in bundle["notebook"]["cells"]] == [before[3], target]
    assert "cloudpickle" in bundle["manifest"]["carried"]["packages"], "the job checks the versions"
    # The module is not on the machine of the job.
    (jp_root_dir / "work" / "nets.py").unlink()
    outputs = run_job(tmp_path / "job", bundle, service.parts)
    assert outputs == "2 True True\n"


async def test_replayed_cells_do_not_take_the_place_of_variables_that_go_along(kernel, service, fetch, tmp_path):  # noqa: F811
    before = (
        "import socket\nmodel = {'w': 0}; conn = socket.socket()",
        "model['w'] = 42; model2 = dict(model)",
        "model = {'w': 43, 'trained': True}",
    )
    outputs, answer = await send_and_run(
        kernel, service, fetch, tmp_path / "job", "print(model, model2); conn.close()", *before
    )
    assert {name for name, why in reasons(answer).items() if not why} >= {"model", "model2"}
    assert (bool(reasons(answer)["conn"]), answer["replayed"]) == (True, [0])
    assert outputs == "{'w': 43, 'trained': True} {'w': 42}\n"


async def test_instances_whose_class_uses_a_module_can_be_loaded(kernel, service, fetch, tmp_path):  # noqa: F811
    before = (
        "import json\nSCALE = [3]",
        "class Model:\n    def __getstate__(self): return json.dumps([1])\n"
        "    def __setstate__(self, state): self.w = json.loads(state) * SCALE[0]\nm = Model()",
    )
    outputs, answer = await send_and_run(kernel, service, fetch, tmp_path / "job", "print(m.w)", *before)
    assert reasons(answer) == {"m": "", "Model": "", "json": "", "SCALE": ""}
    assert (outputs, answer["replayed"]) == ("[1, 1, 1]\n", [])


async def test_functions_with_a_cache_go_along(kernel, service, fetch, tmp_path):  # noqa: F811
    before = (
        "import functools\nSTEP = 1\nclass Net:\n    @functools.lru_cache(maxsize=7)\n    def size(self): return 5",
        "@functools.lru_cache(maxsize=None, typed=True)\ndef fib(n): return n if n < 2 else fib(n - STEP) + fib(n - 2)",
        "count = fib(9)\nagain = fib",
    )
    target = "print(fib(10), again is fib, fib.cache_parameters(), Net().size(), Net.size.cache_info().maxsize)"
    outputs, answer = await send_and_run(kernel, service, fetch, tmp_path / "job", target, *before)
    assert (set(reasons(answer).values()), answer["replayed"]) == ({""}, [])
    assert outputs == "55 True {'maxsize': None, 'typed': True} 5 7\n"


async def send_and_run(kernel, service, fetch, folder: Path, target, *before):  # noqa: F811
    """Send a target with its variables and the cells that the answer replays; return the job's text, and the answer."""
    await run_all(kernel, *before)
    request = asks_for(kernel, target, *before)
    status, answer = await fetch("POST", "variables", body=request)
    assert status == 200, answer
    replayed = [request["prefix"][place] for place in answer["replayed"]]
    sent = {**request, "prefix": replayed, "capture": answer["id"], "live_folder": True}
    status, problem = await fetch("POST", "send", body=sent)
    assert status == 201, problem
    return run_job(folder, service.bodies[-1]["bundle"], service.parts), answer


def run_job(folder: Path, bundle, parts):
    """Run a job by a real runner, and return the text of its last cell."""
    folder.mkdir()
    (folder / "bundle.json").write_text(json.dumps(bundle))
    pickles = bundle["manifest"]["carried"]["pickles"]
    (folder / "files.pack").write_bytes(b"".join(parts[part] for each in pickles for part in each["parts"]))
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_gq.runner", str(folder), "--run", "1", "--task", "0"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )
    result = json.loads((folder / "runs" / "1" / "0" / "result.json").read_text())
    assert result["outcome"] == "SUCCEEDED", (result, done.stderr)
    cells = json.loads((folder / "output.ipynb").read_text())["cells"]
    return "".join(output.get("text", "") for output in cells[-1]["outputs"])


MAKES = {
    "a generator": ("steps = (i for i in range(3))", "generator"),
    "an open file": ("import os\nsteps = open(os.__file__)", "It holds an open file"),
    "a file to write": ("steps = [open('/dev/null', 'w')]", "It holds an open file"),
    "a lock": ("import threading\nsteps = threading.Lock()", "lock"),
    "a socket": ("import socket\nsteps = socket.socket()", "socket"),
    "a database handle": ("import sqlite3\nsteps = sqlite3.connect(':memory:')", "sqlite3.Connection"),
    "a thread": ("import threading\nsteps = threading.Thread()", "cannot pickle"),
    "a circle": ("steps = []; steps.append(steps)", ""),
    "Windows line ends": ("if True:\r\n    import threading\r\n    steps = threading.Lock()\r\n", "lock"),
    "functions that share": (
        "def count():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n    def get(): return n\n"
        "    return add, get\nsteps = count()",
        "Its functions share a variable that one of them assigns with nonlocal",
    ),
    "huge": ("steps = bytes(20_000_000)", "more than the 9.5 MiB that are left"),
    "a module elsewhere": (
        "import sys, types\nm = types.ModuleType('elsewhere')\nexec('def steps(): pass', vars(m))\n"
        "sys.modules['elsewhere'] = m\nm.__file__ = '/elsewhere.py'\nsteps = m.steps\nsteps.__module__ = 'elsewhere'",
        "A new process cannot load it: steps needs the package elsewhere, which is not installed here",
    ),
    "cannot be loaded": (
        "class Bad:\n    def __reduce__(self):\n        return int, ('no',)\nsteps = Bad()",
        "A new process cannot load it: steps raised ValueError",
    ),
    "kills its reader": (
        "import os\nclass Bad:\n    def __reduce__(self):\n        return os._exit, (5,)\nsteps = Bad()",
        "A new process that loaded it ended with status 5",
    ),
    "raises": (
        "class Bad:\n    def __reduce__(self):\n        raise RuntimeError('only here')\nsteps = Bad()",
        "It cannot be pickled: only here",
    ),
}


@pytest.mark.parametrize("kind", MAKES)
async def test_what_cannot_go_along_has_its_reason_and_its_cell_runs_instead(kernel, fetch, kind):  # noqa: F811
    source, said = MAKES[kind]
    before = ("good = [1]\nscale = 2", source)
    await run_all(kernel, *before)
    status, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(good, steps)", *before))
    assert status == 200, answer
    assert reasons(answer)["good"] == ""
    assert (said in reasons(answer)["steps"], answer["replayed"]) == (True, [1] if said else []), answer


async def test_a_variable_with_too_long_a_name_comes_from_its_cell(kernel, fetch):  # noqa: F811
    before = f"{'n' * 300} = 2"
    await run_all(kernel, before)
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, f"print({'n' * 300})", before))
    assert reasons(answer) == {"n" * 300: "Its name has more than 255 characters."}
    assert answer["replayed"] == [0]


async def test_names_in_a_kernel_without_them_come_from_their_cells(kernel, fetch):  # noqa: F811
    """So it is after a restart of the kernel between the run and the sending."""
    before = ("rate = 2", "base = rate * 2")
    await run_all(kernel, "rate = 2")
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(base, unknown, Out)", *before))
    assert reasons(answer)["base"] == "The kernel has no variable of this name."
    assert reasons(answer)["Out"] == "It belongs to the history of this kernel, which a job does not have."
    assert (reasons(answer)["rate"], answer["replayed"]) == ("", [1])
    assert answer["notes"] == ["No cell is known that makes Out, unknown, so the job does not have it."]


async def test_a_name_that_the_user_leaves_out_comes_from_its_cell(kernel, fetch):  # noqa: F811
    await run_all(kernel, "rate = 2", "base = rate * 2")
    request = asks_for(kernel, "print(base)", "rate = 2", "base = rate * 2", left_out_variables=["base"])
    _, answer = await fetch("POST", "variables", body={**request, "more_variables": ["rate"]})
    assert (reasons(answer), answer["replayed"]) == ({"base": "You left it out.", "rate": ""}, [1])


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (["base", "lost"], "No cell is known that makes lost, so the job does not have it."),
        (["print"], "Each job has print of its own, so nothing is taken along for that."),
    ],
    ids=["unknown", "built in"],
)
async def test_variables_that_the_user_adds_go_along_or_it_is_told(kernel, fetch, added, said):  # noqa: F811
    await run_all(kernel, "base = [1]")
    request = asks_for(kernel, "lost = eval('ba' + 'se')", "base = [1]", more_variables=added)
    status, answer = await fetch("POST", "variables", body=request)
    assert (status, answer["notes"]) == (200, [said]), answer
    expected = {"base": "", "lost": "The kernel has no variable of this name."}
    assert reasons(answer) == {name: why for name, why in expected.items() if name in added}


async def test_a_text_that_is_no_name_is_refused_at_its_field(kernel, fetch):  # noqa: F811
    status, answer = await fetch("POST", "variables", body=asks_for(kernel, "1", more_variables=["my-model"]))
    assert (status, answer["field"]) == (422, "more_variables")
    assert answer["message"].startswith("'my-model' is not the name of a variable. Write names such as model")


async def test_values_are_neither_shown_nor_left_behind(kernel, service, fetch, tmp_path, monkeypatch, extension):  # noqa: F811
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await run_all(kernel, "word = 'hunter2'")
    _, first = await fetch("POST", "variables", body=asks_for(kernel, "print(word)"))
    (folder,) = tmp_path.glob("gq-variables-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(word)"))
    assert "hunter2" not in str(answer)
    assert not folder.exists(), "a new capture of the kernel takes the place of the earlier one"
    status, problem = await fetch("POST", "send", body=asks_for(kernel, "print(word)", capture=first["id"]))
    assert (status, problem["field"]) == (422, "capture")
    assert (await fetch("POST", "send", body=asks_for(kernel, "print(word)", capture=answer["id"])))[0] == 201
    assert [pickle.loads(part) for part in service.parts.values()] == [{"word": "hunter2"}]
    (await extension.connect())._captures.close()
    assert not list(tmp_path.glob("gq-variables-*"))


async def test_a_kernel_keeps_its_namespace_its_count_and_its_pickling(kernel, fetch):  # noqa: F811
    await run_all(kernel, "import cloudpickle\ndata = [1]\nbefore = sorted(globals())")
    await fetch("POST", "variables", body=asks_for(kernel, "print(data)"))
    reply = await kernel.run(
        "names = set(globals()) - set(before) - {'before', '_i', '_ii', '_iii', '_i1', '_i2'}\n"
        "assert not names, names\nassert not cloudpickle.list_registry_pickle_by_value()\n"
        "assert type(__builtins__).__name__ == 'module'"
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    assert reply["content"]["execution_count"] == 2


async def test_variables_on_a_gpu_go_along_only_with_a_job_that_has_one(kernel, fetch):  # noqa: F811
    tensor = "class TensorOnGpu:\n    is_cuda = True\nweights = TensorOnGpu()\nloose = [weights]"
    await run_all(kernel, tensor)
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(weights)"))
    assert {each["name"]: each["on_gpu"] for each in answer["variables"]}["weights"] is True
    request = asks_for(kernel, "print(weights)", capture=answer["id"])
    status, problem = await fetch("POST", "send", body={**request, "gpus": "0"})
    assert (status, problem["field"]) == (422, "capture")
    assert "weights is in the memory of a GPU, and this job has none" in problem["message"]
    assert (await fetch("POST", "send", body=request))[0] == 201


async def test_a_busy_kernel_is_not_asked(kernel, fetch, extension, until):  # noqa: F811
    kernel.client.execute("import time; time.sleep(600)")
    await until(lambda: any(state.busy for state in extension.watch.get_activity()), "a busy kernel")
    status, answer = await fetch("POST", "variables", body=asks_for(kernel, "1"))
    assert (status, "The kernel is busy" in answer["message"]) == (422, True), answer
    await kernel.manager.interrupt_kernel(kernel.id)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kernel_id": None}, "No kernel runs for this notebook"),
        (
            {"kernel_id": None, "notebook": a_notebook(code("train", "for\n"), kernel="echo")},
            "Only variables of Python",
        ),
        ({"notebook_path": ""}, "Save it once"),
    ],
    ids=["no kernel", "another language", "unsaved"],
)
async def test_without_a_kernel_of_python_cells_run_instead(kernel, fetch, fields, said):  # noqa: F811
    status, problem = await fetch("POST", "variables", body={**asks_for(kernel, "1"), **fields})
    assert (status, said in problem["message"]) == (422, True), problem


async def test_names_of_a_star_import_go_along_or_are_imported_again(kernel, fetch, jp_root_dir):  # noqa: F811
    (jp_root_dir / "tools.py").write_text("import threading\nRATE = 3\nguard = threading.Lock()\n")
    before = (f"import sys; sys.path.insert(0, {str(jp_root_dir)!r})", "from tools import *")
    await run_all(kernel, *before)
    request = asks_for(kernel, "print(RATE)", *before, cwd=str(jp_root_dir))
    _, answer = await fetch("POST", "variables", body=request)
    assert (reasons(answer), answer["replayed"]) == ({"RATE": ""}, [])
    request = asks_for(kernel, "print(RATE, guard)", *before, cwd=str(jp_root_dir))
    _, answer = await fetch("POST", "variables", body=request)
    assert (reasons(answer)["RATE"], answer["replayed"]) == ("", [1])
    (told,) = answer["notes"]
    assert "(sys.path.insert)" in told, "the cell that is not replayed has set it"


async def test_a_cell_can_be_sent_twice_with_the_same_variables(kernel, service, fetch):  # noqa: F811
    await run_all(kernel, "steps = [1]")
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(steps)"))
    for key in ("one", "two"):
        await run_all(kernel, "steps.append(2)")
        request = asks_for(kernel, "print(steps)", capture=answer["id"], key=key)
        assert (await fetch("POST", "send", body=request))[0] == 201
    first, second = (body["bundle"]["manifest"]["carried"] for body in service.bodies[-2:])
    assert first == second
    assert [pickle.loads(part) for part in service.parts.values()] == [{"steps": [1]}]


@pytest.fixture
def pickles(tmp_path, monkeypatch):
    """The folder in which captures have their folders."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


async def test_a_second_dialog_takes_no_variables_from_a_job_that_is_being_sent(kernel, service, fetch, pickles, until):  # noqa: F811
    await run_all(kernel, "steps = [1]")
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(steps)"))
    service.files_gate.clear()
    request = asks_for(kernel, "print(steps)", capture=answer["id"], live_folder=True)
    sending = asyncio.create_task(fetch("POST", "send", body=request))
    await until(lambda: service.files_waiting, "a question about the parts")
    assert (await fetch("POST", "variables", body=asks_for(kernel, "print(steps)")))[0] == 200
    assert len(list(pickles.glob("gq-variables-*"))) == 2
    service.files_gate.set()
    status, problem = await sending
    assert status == 201, problem
    assert [pickle.loads(part) for part in service.parts.values()] == [{"steps": [1]}]
    assert len(list(pickles.glob("gq-variables-*"))) == 1, "the pickles of the first dialog are deleted once sent"


async def test_variables_that_are_lost_while_they_are_sent_are_a_refusal(kernel, service, fetch, pickles, until):  # noqa: F811
    await run_all(kernel, "steps = [1]")
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(steps)"))
    service.files_gate.clear()
    request = asks_for(kernel, "print(steps)", capture=answer["id"], live_folder=True)
    sending = asyncio.create_task(fetch("POST", "send", body=request))
    await until(lambda: service.files_waiting, "a question about the parts")
    (folder,) = pickles.glob("gq-variables-*")
    shutil.rmtree(folder)
    service.files_gate.set()
    status, problem = await sending
    assert (status, problem["field"]) == (422, "capture")
    assert "The variables cannot be read: No such file or directory." in problem["message"]


async def test_files_of_functions_that_go_along_go_along_as_well(kernel, fetch, jp_root_dir):  # noqa: F811
    for name in ("rows.csv", "big.csv"):
        (jp_root_dir / name).write_text("1")
    before = ("def read():\n    return open('rows.csv').read()", "data = open('big.csv').read()")
    await run_all(kernel, before[0], "data = '1,2'.split(',')")
    request = asks_for(kernel, "print(read(), data)", *before, cwd=str(jp_root_dir))
    _, answer = await fetch("POST", "variables", body=request)
    _, plan = await fetch("POST", "check", body={**request, "prefix": [], "capture": answer["id"]})
    assert [file["path"] for file in plan["files"]["going"]] == ["rows.csv"]


async def test_a_deep_value_ends_no_kernel_with_a_raised_limit_of_recursions(kernel, fetch):  # noqa: F811
    """Pickling such a value overflows the stack of C before Python 3.12: the user would lose all variables."""
    makes = "import sys\nsys.setrecursionlimit(10**6)\ndeep = []\nfor _ in range(200_000): deep = [deep]\nsize = 3"
    await run_all(kernel, makes)
    status, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(len(deep), size)", makes))
    assert status == 200, answer
    assert "nested too deeply" in reasons(answer)["deep"]
    assert reasons(answer)["size"] == ""
    await run_all(kernel, "assert len(deep) == 1 and sys.getrecursionlimit() == 10**6")


async def test_a_kernel_that_ends_meanwhile_is_said_at_once(kernel, fetch, monkeypatch):  # noqa: F811
    monkeypatch.setattr(captures, "PICKLE_TIMEOUT", 10_000.0)
    makes = "import os\nclass Ends:\n    def __reduce__(self): os._exit(1)\nends = Ends()"
    await run_all(kernel, makes)
    status, problem = await fetch("POST", "variables", body=asks_for(kernel, "print(ends)", makes))
    assert (status, problem["code"]) == (422, "no_variables")
    assert problem["message"].startswith("The kernel ended while it pickled its variables.")
    kernel.client.stop_channels()
    await kernel.connect()  # it was started again


async def test_more_variables_than_a_job_takes_are_refused(kernel, fetch):  # noqa: F811
    makes = f"for number in range({MOST_CARRIED + 1}): globals()[f'v{{number}}'] = number"
    await run_all(kernel, makes)
    target = "print(" + ", ".join(f"v{number}" for number in range(MOST_CARRIED + 1)) + ")"
    status, problem = await fetch("POST", "variables", body=asks_for(kernel, target, makes))
    assert (status, problem["code"]) == (422, "no_variables")
    assert problem["message"].startswith(f"The cells need {MOST_CARRIED + 1:,} variables")


async def test_what_no_variable_holds_is_told(kernel, fetch):  # noqa: F811
    before = ("import random\nrandom.seed(1)", "data = [random.random()]")
    await run_all(kernel, *before)
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "print(data)", *before))
    assert (answer["replayed"], reasons(answer)) == ([], {"data": ""})
    (told,) = answer["notes"]
    assert "what these cells set in this kernel: “import random” (random.seed)" in told


async def test_a_cell_that_always_runs_does_so_beside_variables_and_is_not_told(kernel, fetch):  # noqa: F811
    before = ("import random\nrandom.seed(seed)", "seed = 3", "data = [seed]")
    await run_all(kernel, "seed = 2", *before)
    request = asks_for(kernel, "print(data)", *before)
    request["notebook"]["cells"][0]["metadata"]["tags"] = ["gq-setup"]
    _, answer = await fetch("POST", "variables", body=request)
    assert (answer["replayed"], answer["notes"]) == ([0], [])
    assert reasons(answer) == {"data": "", "seed": ""}


async def test_a_name_in_an_annotation_goes_along_and_one_of_the_shell_may_lack(kernel, fetch):  # noqa: F811
    await run_all(kernel, "class Batch: pass")
    target = "def step(batch: Batch) -> Missing:\n    return batch\n!ls $HOME"
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, target, "class Batch: pass"))
    assert (reasons(answer), answer["notes"]) == ({"Batch": ""}, [])


async def test_an_empty_cache_and_arrays_that_shared_their_memory_are_told(kernel, fetch):  # noqa: F811
    before = (
        "import functools, numpy\n@functools.cache\ndef square(x):\n    return x * x\nsquare(3)",
        "images = numpy.zeros((4, 2))\nfirst = images[:2]",
    )
    await run_all(kernel, *before)
    _, answer = await fetch("POST", "variables", body=asks_for(kernel, "first[0] = square(2)\nimages.sum()", *before))
    empty, copied = answer["notes"]
    assert empty.startswith("Empty in the job: the cache of square,")
    assert copied.startswith("images and first share") or copied.startswith("first and images share")
