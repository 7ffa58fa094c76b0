"""Variables that a job returns and files that its cells write are there after the run, or have a reason."""

import hashlib
import json
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Job, eventually


def returned(job: Job) -> dict[str, dict]:
    """Return the entries of the variables that the job returned, by name."""
    return {entry["name"]: entry for entry in listed(job)["variables"]}


def listed(job: Job) -> dict:
    return json.loads((job.folder / "results.json").read_text())


def test_a_returned_variable_is_a_private_pickle_with_its_size_hash_and_python(job: Job) -> None:
    job.returns = ["numbers"]
    assert job.prefix("start = 40").target("numbers = {'a': start + 2}").run()["outcome"] == "SUCCEEDED"
    entry = returned(job)["numbers"]
    file = job.folder / "results" / entry["path"]
    content = file.read_bytes()
    assert pickle.loads(content) == {"a": 42}
    assert (entry["bytes"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (entry["type"], entry["reason"]) == ("dict", "")
    assert listed(job)["python"] == "{}.{}".format(*sys.version_info)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_cannot_be_returned_says_why_and_the_rest_is_returned(job: Job) -> None:
    (job.folder.parent / "home").mkdir(exist_ok=True)
    job.max_result_bytes = 4_000_000
    job.returns = ["steps", "lock", "log", "nested", "reading", "huge", "missing", "good"]
    job.target(
        "import threading\n"
        "steps = (i for i in range(3))\n"
        "lock = threading.Lock()\n"
        "log = open('log.txt', 'w')\n"
        "nested = {'deep': [open(__import__('os').__file__)]}\n"
        "reading = open(__import__('os').__file__)\n"
        "huge = bytes(8_000_000)\n"
        "good = 'kept'"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    reasons = {name: entry["reason"] for name, entry in returned(job).items()}
    assert "generator" in reasons["steps"]
    assert "lock" in reasons["lock"]
    assert "open file" in reasons["log"]
    assert "open file" in reasons["nested"]
    assert "open file" in reasons["reading"]
    assert "3.8 MiB that are left" in reasons["huge"]
    assert reasons["missing"] == "The cells have not defined this name."
    assert reasons["good"] == ""
    assert [file.name for file in (job.folder / "results" / "vars").iterdir()] == ["7.pickle"]


def test_all_variables_together_have_one_limit(job: Job) -> None:
    job.max_result_bytes = 1_500_000
    job.returns = ["first", "second", "third"]
    job.target("first = bytes(1_000_000); second = bytes(1_000_000); third = 3").run()
    assert [bool(entry["reason"]) for entry in listed(job)["variables"]] == [False, True, False]


def test_functions_and_classes_of_cells_and_of_own_modules_load_where_those_are_not(job: Job, tmp_path: Path) -> None:
    job.cwd.mkdir()
    (job.cwd / "layers.py").write_text("class Layer:\n    def size(self):\n        return WIDTH\nWIDTH = 7\n")
    job.returns = ["layer", "double"]
    job.target("import layers\nlayer = layers.Layer()\ndef double(x):\n    return 2 * x").run()
    for name, call in (("layer", "value.size()"), ("double", "value(4)")):
        file = job.folder / "results" / returned(job)[name]["path"]
        code = f"import pickle, sys; value = pickle.load(open(sys.argv[1], 'rb')); print({call})"
        done = subprocess.run(
            [sys.executable, "-c", code, str(file)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() in ("7", "8"), done.stderr


def test_names_of_the_user_do_not_disturb_the_saving(job: Job) -> None:
    job.returns = ["open", "json"]
    job.target("open = print = str = dict = len = globals = 5\njson = 'mine'").run()
    values = [pickle.loads((job.folder / "results" / entry["path"]).read_bytes()) for entry in listed(job)["variables"]]
    assert values == [5, "mine"]


def test_a_value_that_kills_the_kernel_fails_nothing_else(job: Job) -> None:
    job.returns = ["good", "deadly", "late"]
    job.target(
        "import os\nclass Deadly:\n    def __reduce__(self):\n        os._exit(3)\ngood, deadly, late = 1, Deadly(), 2"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    reasons = {name: entry["reason"] for name, entry in returned(job).items()}
    assert reasons["good"] == ""
    assert "kernel ended" in reasons["deadly"]
    assert "kernel ended" in reasons["late"]


def test_a_job_that_fails_returns_no_variable_but_its_files(job: Job) -> None:
    job.returns = ["x"]
    job.target(
        "import jupyter_gq\nx = 1\n(jupyter_gq.results_dir() / 'a').mkdir()\n"
        "(jupyter_gq.results_dir() / 'a' / 'loss.csv').write_text('1,2')\nraise ValueError('no')"
    )
    assert job.run()["outcome"] == "FAILED"
    assert "did not reach its end" in returned(job)["x"]["reason"]
    assert listed(job)["files"] == [{"path": "a/loss.csv", "bytes": 3}]


def test_links_in_the_result_folder_are_not_listed(job: Job) -> None:
    job.target("import os\nos.symlink('/etc/passwd', os.environ['GQ_RESULTS_DIR'] + '/passwd')").run()
    assert not (job.folder / "results.json").exists()


def test_a_stop_ends_a_saving_that_takes_too_long(job: Job) -> None:
    job.returns = ["good", "slow"]
    job.env["GQ_STOP_GRACE"] = "6"
    job.target(
        "import time\nclass Slow:\n    def __reduce__(self):\n        open('saving', 'w').close()\n"
        "        time.sleep(600)\n"
        "good, slow = 1, Slow()"
    )
    job.start()
    eventually((job.cwd / "saving").exists)
    job.stop()
    assert job.finish()["outcome"] == "SUCCEEDED"
    assert returned(job)["slow"]["reason"] == "There was no time left to save it."
    assert returned(job)["good"]["reason"] == ""


@pytest.mark.parametrize("language", ["R"])
def test_other_languages_return_no_variables(job: Job, language: str) -> None:
    job.kernel = {**job.kernel, "language": language}
    job.returns = ["x"]
    assert job.target("x = 1").run()["outcome"] == "SUCCEEDED"
    assert "Only variables of Python" in returned(job)["x"]["reason"]
