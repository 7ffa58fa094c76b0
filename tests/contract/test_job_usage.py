"""What a job does on a simulated GPU arrives as its GPU use: with the real service, runner and kernel."""

import pytest
import pytest_asyncio

from jupyter_gq.client.connection.http import ServiceClient

from .test_killed_service import a_job, running_service, until

pytestmark = pytest.mark.asyncio

#: Holds memory, and uses the CPU, which stands for the use of a simulated GPU, until it is told to stop.
WORKS = """
import jupyter_gq
jupyter_gq.simulate_memory(5000)
(jupyter_gq.checkpoint_dir() / "epoch").write_text("1")
while not jupyter_gq.should_stop():
    sum(range(100_000))
"""


@pytest_asyncio.fixture
async def service(tmp_path):
    async with running_service(tmp_path) as service:
        yield service


async def test_memory_and_use_of_a_simulated_gpu_arrive_in_the_usage_of_the_job(service, tmp_path):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    await until(client.health, "the service", service)
    submission = a_job(tmp_path)
    submission.bundle.notebook["cells"][0]["source"] = WORKS
    job = (await client.submit(submission))[0].id

    async def used():
        found = await client.usage(job)
        return found if any(point.utilisation and point.memory_mib == 5000 for point in found.points) else None

    found = await until(used, "its use", service)
    assert (found.run, found.memory_limit_mib) == (1, 40960)
    assert max(point.highest or 0 for point in found.points) > 5

    async def saved():
        view = await client.job(job)
        return view if view.saved_at and view.utilisation is not None else None

    view = await until(saved, "its last checkpoint", service)
    assert (view.gpu_memory_used_mib, view.unused_gpu) == (5000, None)
    await client.cancel(job)
    client.close()
