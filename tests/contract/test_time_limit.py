"""A job at its maximum running time is told to stop, and what it saves then is kept, with real service and runner."""

import pytest
import pytest_asyncio

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobChange

from .test_elastic_job import with_code
from .test_killed_service import a_job, running_service, until

pytestmark = pytest.mark.asyncio

#: Goes on from the file beside the notebook, if there is one. Saves a checkpoint, and a file to bring back, only when
#: it is told to stop.
SAVES = """
import pathlib, time
import jupyter_gq
beside = pathlib.Path("epochs.txt")
epoch = first = int(beside.read_text()) if beside.exists() else 0
print("from", first, flush=True)
while not jupyter_gq.should_stop() and not first:
    epoch += 1
    time.sleep(0.02)
for folder in (jupyter_gq.checkpoint_dir(), jupyter_gq.results_dir()):
    _ = (folder / "epochs.txt").write_text(str(epoch))
"""


@pytest_asyncio.fixture
async def service(tmp_path):
    async with running_service(tmp_path) as service:
        yield service


async def test_a_job_that_is_sent_again_goes_on_from_what_the_first_saved_at_its_maximum_running_time(
    service, tmp_path
):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    await until(client.health, "the service", service)

    async def begins(key: str, text: str) -> str:
        job, _ = await client.submit(with_code(a_job(tmp_path), SAVES), key)
        await until(lambda: prints(job.id, text), text, service)
        return job.id

    async def prints(job: str, text: str) -> bool:
        return text in str((await client.outputs(job)).events)

    async def ended(job: str):
        view = await client.job(job)
        return view if view.finished_at else None

    job = await begins("key-1", "from 0")
    await client.change(job, JobChange(max_seconds=1))
    view = await until(lambda: ended(job), "the end at the limit", service)
    told = "Ended: it reached the maximum running time of 1 s that you set for it. What it saved is kept."
    assert (view.phase, view.sentence) == ("cancelled", told)
    (kept,) = tmp_path.glob(f"*/jobs/{job}/checkpoint/epochs.txt")
    assert int(kept.read_text()) > 0

    assert [file.path for file in (await client.results(job)).files] == ["epochs.txt"]
    (tmp_path / "epochs.txt").write_bytes(await client.result_part(job, "files/epochs.txt", 0))
    again = await begins("key-2", f"from {kept.read_text()}")
    assert (await until(lambda: ended(again), "the end of the second job", service)).phase == "done"
    client.close()
