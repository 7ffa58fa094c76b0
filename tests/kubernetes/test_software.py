"""A job runs in the image that its owner chose, in each of its runs: its Python starts the kernel."""

import asyncio

import pytest
from traitlets.config import Config

from jupyter_gq.lab.bundle.software import PORTABLE_COMMAND
from tests.kubernetes.job_world import ANN, CONFIG, a_cell
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

NODE = "gpu-software"
#: Runs until it is told to stop, or until there is a file of that name.
WAITS = """
import jupyter_gq, os, time
print("begun", flush=True)
while not (os.path.exists({file!r}) or jupyter_gq.should_stop()):
    time.sleep(0.01)
"""
IMAGES = Config(TrainingQueues={"images": {"PyTorch 2.9": "tests/torch:2.9"}})


async def test_a_job_runs_and_resumes_in_the_image_that_was_chosen(installed, tmp_path):
    await installed.stop()
    installed.config = Config(CONFIG)
    installed.config.merge(IMAGES)
    await installed.start()
    go = tmp_path / "go"
    submission = a_cell(WAITS.format(file=str(go)), tmp_path / "home", software="PyTorch 2.9")
    submission.bundle.manifest.kernel.argv = list(PORTABLE_COMMAND)
    job = installed.controller.jobs.submit(ANN, submission, None)[0].id
    await eventually(lambda: installed.text(job) == "begun\n", "it runs")
    first = await pod_of(installed)
    await installed.stop()
    installed.config = CONFIG  # the image is no longer on offer
    await installed.start()
    core, train = installed.world.plane.core, installed.world.namespaces.train
    await asyncio.to_thread(core.delete_namespaced_pod, first.metadata.name, train)
    await eventually(lambda: installed.job(job).run == 2 and installed.job(job).phase == "running", "it runs again")
    second = await pod_of(installed)
    go.touch()
    await installed.phase(job, "done")
    assert [pod.spec.containers[0].image for pod in (first, second)] == ["tests/torch:2.9"] * 2
    assert installed.job(job).software == "PyTorch 2.9"


async def pod_of(installed):
    """The pod of the only job."""
    train = installed.world.namespaces.train

    async def found():
        pods = [pod for pod in await asyncio.to_thread(installed.world.pods) if pod.metadata.namespace == train]
        return pods[0] if len(pods) == 1 else None

    return await eventually(found, "one pod")
