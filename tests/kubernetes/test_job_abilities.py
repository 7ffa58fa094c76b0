"""What the owner of a job can do on a cluster: jobs grow and shrink, take things along, bring things back, change.

One service for each test, two nodes for all: `gpu-old` with one GPU and `gpu-new` with two of another model. The tests
of one machine say more of each ability; here each has its way through pods.
"""

import asyncio
import base64
import pickle
from dataclasses import replace

import pytest
import pytest_asyncio
from traitlets.config import Config

from jupyter_gq.client.models import JobChange, JobSubmission
from jupyter_gq.domain.mentions import reveal
from tests.cells import KEEPS, MEETS_AGAIN
from tests.frozen import list_frozen
from tests.kubernetes.job_world import ANN, CONFIG, a_cell, a_service
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

QUEUES = Config(CONFIG)
QUEUES.merge(
    Config(
        TrainingQueues={
            "queues": {"vision": {"quota": "3", "groups": ["vision"]}, "later": {"quota": "0", "groups": ["vision"]}},
            "secrets": ["HF_*"],
        },
        Placement={"topology": ["rack"]},
    )
)
OWNER = replace(ANN, admin=True)  # may give any priority
#: Each task meets the others, says how many they are, and ends when it is told to or when there is a file `enough`.
ELASTIC = f"""{KEEPS}
import pathlib, threading, time
import jupyter_gq
folder, number = pathlib.Path(FOLDER), jupyter_gq.tasks().number
(folder / f"began-{{number}}").touch()
threading.Thread(target=exec, args=({MEETS_AGAIN!r}, dict()), daemon=True).start()
while not (folder / "enough").exists():
    if number == 0:
        keep(folder / "size", jupyter_gq.tasks().count)
    if jupyter_gq.should_stop():
        (folder / f"saved-{{number}}").touch()
        break
    time.sleep(0.05)
"""
#: Runs until it is told to stop, or until there is a file of that name.
WAITS = """
import jupyter_gq, os, time
print("begun", flush=True)
while not (os.path.exists({file!r}) or jupyter_gq.should_stop()):
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def nodes(make_kubelet):
    models = {"gpu-old": ("A100-40GB", "left", 1), "gpu-new": ("H100-80GB", "right", 2)}
    return {
        name: make_kubelet(name, gpus=gpus, labels={"nvidia.com/gpu.product": model, "rack": rack})
        for name, (model, rack, gpus) in models.items()
    }


@pytest_asyncio.fixture
async def installed(control_plane, installation, nodes, tmp_path):
    async with a_service(control_plane, installation, tmp_path, devices=3, config=QUEUES) as made:
        yield made


def send(installed, submission):
    return installed.controller.jobs.submit(OWNER, submission, None)[0].id


async def pods_of(installed, job):
    """The node of each task of that job, by the number of the task."""
    pods = await asyncio.to_thread(installed.world.pods)
    of_job = [pod for pod in pods if pod.metadata.labels.get("jupyter-gq.org/workload") == job]
    return {int(pod.metadata.labels["jupyter-gq.org/task"]): pod.spec.node_name for pod in of_job}


async def test_a_job_gives_a_gpu_back_and_gets_it_again_also_over_a_restart(installed, tmp_path):
    folder, go = tmp_path / "home", tmp_path / "go"
    folder.mkdir()
    source = ELASTIC.replace("FOLDER", repr(str(folder)))
    job = send(installed, a_cell(source, folder, tasks=3, min_tasks=1))

    def size(count):
        told = folder / "size"
        view = installed.job(job)
        return view.tasks_now == count and told.exists() and told.read_text() == str(count)

    await eventually(lambda: size(3), lambda: f"three tasks: {installed.job(job)}")
    await eventually(lambda: "group of 3" in installed.text(job), lambda: f"they meet: {installed.text(job)}")
    urgent = send(installed, a_cell(WAITS.format(file=str(go)), folder, priority=5))
    await eventually(lambda: installed.job(job).tasks_now == 2, "a task is told to leave")
    await installed.stop()
    await installed.start()
    await installed.phase(urgent, "running")
    await eventually(lambda: size(2), lambda: f"two tasks: {installed.job(job)}")
    (left,) = {1, 2} - (await pods_of(installed, job)).keys()
    assert (folder / f"saved-{left}").exists(), "it was told to stop, and could save its state"
    assert "Runs on with 2 of its 3 tasks" in reveal(installed.job(job).sentence)
    assert (await pods_of(installed, job)).keys() == {0, 1, 2} - {left}
    assert not (folder / "saved-0").exists()

    (folder / f"began-{left}").unlink()
    go.touch()
    await eventually(lambda: (folder / f"began-{left}").exists(), lambda: f"it joins again: {installed.job(job)}")
    await eventually(lambda: size(3), lambda: f"three tasks again: {installed.job(job)}")
    groups = ["group of 3", "group of 2", "group of 3"]
    await eventually(lambda: installed.text(job).splitlines()[-3:] == groups, lambda: f"meets: {installed.text(job)}")
    (folder / "enough").touch()
    await installed.phase(job, "done")
    assert installed.job(job).run == 1
    log = installed.controller.jobs.read_log(OWNER, job, left)
    assert log.count("This is task") == 2, "the log of its number goes on with that of the second pod"


async def test_what_goes_along_is_there_and_what_comes_back_can_be_loaded(installed, tmp_path):
    code = b"def double(number):\n    return 2 * number\n"
    await installed.controller.files.add("ann", [base64.b64encode(code).decode()])
    core, train = installed.world.plane.core, installed.world.namespaces.train
    secret = {"metadata": {"name": "gq-ann"}, "stringData": {"HF_TOKEN": "hf-secret"}}
    await asyncio.to_thread(core.create_namespaced_secret, train, secret)
    source = """
import os, pathlib
import jupyter_gq
from helpers.double import double
print(os.environ["BATCH"], os.environ["HF_TOKEN"] == "hf-" + "secret", os.environ["HF_TOKEN"])
total = double(21)
(jupyter_gq.results_dir() / "model.bin").write_bytes(b"m" * 3)
"""
    submission = a_cell(source, tmp_path / "home").model_dump()
    manifest = submission["bundle"]["manifest"]
    manifest |= {"files": list_frozen({"helpers/double.py": code}), "environment": {"BATCH": "16"}}
    manifest |= {"secrets": ["HF_TOKEN"], "returns": ["total"]}
    job = send(installed, JobSubmission.model_validate(submission))
    await installed.phase(job, "done")
    first, second, shown = installed.text(job).split()
    assert (first, second) == ("16", "True")
    assert "hf-secret" not in shown, "its value is masked"
    results = installed.controller.jobs.read_results(OWNER, job)
    assert [(file.path, file.bytes) for file in results.files] == [("model.bin", 3)]
    (variable,) = results.variables
    assert variable.name == "total"
    assert await installed.controller.jobs.read_result_part(OWNER, job, "files/model.bin", 0) == b"mmm"
    content = await installed.controller.jobs.read_result_part(OWNER, job, variable.path, 0)
    assert pickle.loads(content) == 42


async def test_a_job_continues_from_the_checkpoints_of_one_that_failed(installed, tmp_path):
    source = """
import jupyter_gq
at = jupyter_gq.checkpoint_dir() / "epoch"
start = int(at.read_text()) if at.exists() else 0
print("from", start)
at.write_text(str(start + 17))
assert start
"""
    cell = a_cell(source, tmp_path / "home")
    first = send(installed, cell)
    await installed.phase(first, "failed")
    second = send(installed, cell.model_copy(update={"continue_from": first}))
    await installed.phase(second, "done")
    assert installed.text(second) == "from 17\n"


async def test_a_job_is_changed_while_it_waits_and_while_it_runs(installed, tmp_path):
    go, jobs = tmp_path / "go", installed.controller.jobs
    cell = a_cell(WAITS.format(file=str(go)), tmp_path / "home")

    def change(job, **wanted):
        return installed.controller.job_changes.change(OWNER, job, JobChange(**wanted))

    first = send(installed, cell.model_copy(update={"gpus": 2, "max_seconds": 3600.0}))
    await installed.phase(first, "running")
    node = installed.job(first).node
    waits, others = send(installed, cell.model_copy(update={"gpus": 2})), []
    assert installed.job(waits).phase == "waiting"
    change(waits, gpus="1", priority=3, queue="later")
    await installed.phase(waits, "running")
    assert installed.job(waits).node != node
    change(first, held=True)
    await eventually(lambda: installed.job(first).phase == "paused", lambda: f"it is paused: {installed.job(first)}")

    async def is_gone():
        return 0 not in await pods_of(installed, first)

    await eventually(is_gone, "its pod is gone")  # a moment after its end was seen
    change(first, held=False)
    await eventually(lambda: installed.job(first).phase == "running", lambda: f"it goes on: {installed.job(first)}")
    assert installed.job(first).run == 2
    change(first, max_seconds=1)
    await eventually(lambda: installed.job(first).phase in ("failed", "cancelled", "done"), "its time is over")
    assert "1 s" in reveal(installed.job(first).sentence)
    others = [send(installed, cell.model_copy(update={"gpus": 2})) for _ in range(3)]
    await eventually(lambda: any(installed.job(each).phase == "running" for each in others), "one of them runs")
    assert sorted(each.id for each in jobs.cancel_many(OWNER, others).jobs) == sorted(others)
    await eventually(lambda: {installed.job(each).phase for each in others} == {"cancelled"}, "all are cancelled")
    go.touch()
    await installed.phase(waits, "done")


async def test_tasks_are_where_their_job_wants_them(installed, tmp_path):
    go = tmp_path / "go"
    cell = a_cell(WAITS.format(file=str(go)), tmp_path / "home")
    wanted = {
        "near": {"tasks": 2, "within": "rack"},
        "old": {"preferred_gpu_models": ["A100-40GB"]},
        "new": {"gpu_model": "H100-80GB"},
    }
    sent = {name: send(installed, cell.model_copy(update=fields)) for name, fields in wanted.items()}
    for name in ("near", "old"):
        await installed.phase(sent[name], "running")
    places = {name: await pods_of(installed, sent[name]) for name in ("near", "old")}
    assert places == {"near": {0: "gpu-new", 1: "gpu-new"}, "old": {0: "gpu-old"}}
    assert installed.job(sent["new"]).phase == "waiting"
    go.touch()
    await installed.phase(sent["new"], "done")
    assert installed.job(sent["new"]).node == "gpu-new"
