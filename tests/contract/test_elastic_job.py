"""A job with a least number of tasks gives GPUs back and gets them again, with the real service and runners."""

from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobSubmission
from tests.api.hubs import Hub

from .test_killed_service import RealService, a_job, until

pytestmark = pytest.mark.asyncio

CONFIG = """
c.SchedulerService.check_invariants = True
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "3x A100-40GB"
c.TrainingQueues.queues = {"vision": {"quota": 1}, "nlp": {"quota": 1}}
"""
#: Each task says that it is there, how many they are, and that it was told to stop.
TRAINS = """
import pathlib, time
import jupyter_gq
number = jupyter_gq.tasks().number
pathlib.Path(f"began-{number}").touch()
while not pathlib.Path("enough").exists():
    if number == 0:
        pathlib.Path("size.new").write_text(str(jupyter_gq.tasks().count))
        pathlib.Path("size.new").replace("size")
    if jupyter_gq.should_stop():
        pathlib.Path(f"saved-{number}").touch()
        break
    time.sleep(0.05)
"""


def with_code(submission: JobSubmission, code: str, **fields) -> JobSubmission:
    document = submission.model_dump()
    document["bundle"]["notebook"]["cells"][0]["source"] = code
    return JobSubmission.model_validate({**document, **fields})


@pytest_asyncio.fixture
async def service(tmp_path):
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    (tmp_path / "jupyterhub_config.py").write_text(CONFIG)
    service.start()
    yield service
    service.clean_up()
    await hub.stop()


def has(folder: Path, *names: str) -> bool:
    return all((folder / name).exists() for name in names)


async def test_a_job_shrinks_for_another_queue_and_grows_again_over_a_kill_of_the_service(service, tmp_path):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")
    await until(client.health, "the service", service)
    job, _ = await client.submit(with_code(a_job(tmp_path), TRAINS, tasks=3, min_tasks=1), "key-1")

    async def size(count: int) -> bool:
        view = await client.job(job.id)
        told = has(tmp_path, "size") and (tmp_path / "size").read_text() == str(count)
        return view.phase == "running" and view.tasks_now == count and told

    async def began(*tasks: int) -> bool:
        return has(tmp_path, *(f"began-{task}" for task in tasks))

    await until(lambda: began(0, 1, 2), "all tasks", service)
    await until(lambda: size(3), "all tasks in the record", service)
    waits = "import pathlib, time\nwhile not pathlib.Path('ended').exists():\n    time.sleep(0.05)"
    other, _ = await client.submit(with_code(a_job(tmp_path), waits, queue="nlp"), "key-2")
    service.kill()
    service.start()

    async def runs(name: str) -> bool:
        return (await client.job(name)).phase == "running"

    await until(lambda: runs(other.id), "the job of the other queue", service)
    await until(lambda: size(2), "two tasks", service)
    assert has(tmp_path, "saved-2"), "the task that left was told to stop, and could save its state"
    assert not has(tmp_path, "saved-0")
    assert "Runs on with 2 of its 3 tasks: nlp needed its 1 GPU back." in (await client.job(job.id)).sentence

    (tmp_path / "began-2").unlink()
    (tmp_path / "ended").touch()
    await until(lambda: began(2), "the task that joins again", service)
    await until(lambda: size(3), "three tasks", service)
    (tmp_path / "enough").touch()

    async def done() -> bool:
        return (await client.job(job.id)).phase == "done"

    await until(done, "the end of the job", service)
    assert (await client.job(job.id)).run == 1
    assert "task 2" in (await client.log(job.id))
    client.close()
