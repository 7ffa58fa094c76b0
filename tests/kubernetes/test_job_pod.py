"""Jobs as pods, from sending to the result: service, backend, API server, scheduler, and the runner as a real process.

The kubelet is the stand-in; the service runs in this process, with the rights that the chart gives it.
"""

import asyncio

import pytest

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.pods.additions import PodAdditions
from tests.builders import a_notebook
from tests.cells import MEETS, TRAINS
from tests.kubernetes.job_world import ANN
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

NODE = "gpu-job"


async def test_a_job_runs_as_a_pod_to_its_end(installed, tmp_path):
    job = installed.send("import os\nprint('on', os.environ['JUPYTER_GQ_GPUS'])\n6 * 7", tmp_path / "home")
    await installed.phase(job, "done")
    assert installed.text(job) == "on 1\n"
    notebook = await installed.controller.jobs.read_notebook(ANN, job)
    assert notebook["cells"][0]["outputs"][1]["data"]["text/plain"] == "42"
    log = installed.controller.jobs.read_log(ANN, job)
    assert " Done." in log
    assert f"although its devices were not checked. The agent of the node {NODE} has not reported yet." in log
    await eventually(lambda: not installed.world.pods(), "its pod is gone")


async def test_a_job_that_fails_says_why(installed, tmp_path):
    job = installed.send("1 / 0", tmp_path / "home")
    await installed.phase(job, "failed")
    assert "ZeroDivisionError" in installed.job(job).sentence


async def test_the_tasks_of_a_gang_meet(installed, tmp_path):
    job = installed.send(MEETS, tmp_path / "home", tasks=2)
    await installed.phase(job, "done")
    assert installed.text(job) == "met rank 1 of 2\n"


async def test_a_pod_that_somebody_deletes_saves_its_state_and_goes_on_in_a_new_one(installed, tmp_path):
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    train = installed.world.namespaces.train
    core = installed.world.plane.core
    (pod,) = [pod for pod in await asyncio.to_thread(installed.world.pods) if pod.metadata.namespace == train]
    await asyncio.to_thread(core.delete_namespaced_pod, pod.metadata.name, train)
    await installed.phase(job, "done")
    first, until, again, end = installed.text(job).splitlines()
    reached = int(until.removeprefix("until "))
    assert (first, again, end) == ("from 0", f"from {reached}", f"until {reached + 1}")
    assert installed.job(job).run == 2


async def test_a_job_outlives_its_service(installed, tmp_path):
    go = tmp_path / "go-on"
    wait = f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)"
    job = installed.send(f"{wait}\nprint('ended')", tmp_path / "home")
    await eventually(lambda: "begun" in installed.text(job), "it runs")
    await installed.stop()
    go.touch()
    await installed.start()
    await installed.phase(job, "done")
    assert (installed.text(job), installed.job(job).run) == ("begun\nended\n", 1)
    assert "ended" in installed.controller.jobs.read_log(ANN, job)


async def test_a_job_that_is_cancelled_ends_in_its_time(installed, tmp_path):
    source = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.01)"
    job = installed.send(source, tmp_path / "home")
    await eventually(lambda: "begun" in installed.text(job), "it runs")
    installed.controller.jobs.cancel(ANN, job)
    await installed.phase(job, "cancelled")
    await eventually(lambda: not installed.world.pods(), "its pod is gone")
    assert installed.text(job) == "begun\n"


async def test_a_notebooks_pod_that_nobody_knows_is_named_once_with_what_to_do(installed, tmp_path, caplog):
    world = installed.world
    additions = PodAdditions(
        node=NODE,
        labels={
            names.INSTALLATION: world.namespaces.release,
            names.WORKLOAD: "ticket-of-a-backup",
            names.ATTEMPT: "1",
        },
        annotations={names.SLOTS: f"{NODE}/0"},
    )
    stray = await asyncio.to_thread(world.start_server, a_notebook("zoe"), additions)
    notebooks, told = installed.backend.notebooks, f"{stray.metadata.namespace}/jupyter-zoe on {NODE} is in no record"
    await eventually(lambda: f"{NODE}/0" in notebooks.blocked_slots(), "its device is nobody else's")
    await installed.phase(installed.send("1 + 1", tmp_path / "home"), "done")
    assert told not in caplog.text, "a server that has just ended takes some time to go"
    world.clock.ahead += 61
    await eventually(lambda: told in caplog.text, lambda: caplog.text)
    await installed.phase(installed.send("1 + 1", tmp_path / "home"), "done")
    assert caplog.text.count(told) == 1
    assert "keeps 1 devices from others; it is left alone. Stop its server in the Hub" in caplog.text
    await eventually(lambda: [pod.metadata.name for pod in world.pods()] == ["jupyter-zoe"], "it is left alone")
