"""The software of a job: an image on offer, or the kernel of its bundle; it stays the same for all runs."""

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobRequest
from jupyter_gq.domain.audit import AuditFilter
from jupyter_gq.domain.errors import UnknownSoftware
from tests.fakes import RunsPods

from .world import ANN, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio

OFFER = {"images": {"PyTorch 2.9": "torch:2.9"}}


@pytest.fixture
def pods(tmp_path):
    world = World(tmp_path, backend=RunsPods, settings=story_settings(TrainingQueues=OFFER))
    yield world
    world.close()


async def test_a_job_runs_again_in_the_image_with_which_it_was_sent(pods):
    job = pods.send(ANN, "vision", software="PyTorch 2.9")
    await pods.step(2)
    pods.settings.change(images={})
    pods.restart()
    pods.backend.end(job, Outcome.LOST)
    await pods.step(3)
    runs = [(launch.workload.run, launch.detail.image) for launch in pods.backend.launches]
    assert list(dict.fromkeys(runs)) == [(1, "torch:2.9"), (2, "torch:2.9")]
    assert pods.job(job).software == "PyTorch 2.9"
    with pytest.raises(UnknownSoftware, match=r"'PyTorch 2\.9'\. No other software is offered here"):
        pods.send(ANN, "vision", software="PyTorch 2.9")


async def test_where_jobs_are_processes_no_image_is_offered(tmp_path):
    world = World(tmp_path, settings=story_settings(TrainingQueues=OFFER))
    assert world.controller.overview.describe_user(ANN).images == []
    with pytest.raises(UnknownSoftware, match="No other software is offered here"):
        world.send(ANN, "vision", software="PyTorch 2.9")
    job = world.send(ANN, "vision", software="python3")
    assert (world.job(job).software, world.sql.get(job).detail.image) == ("python3", "")
    world.close()


async def test_a_preview_refuses_software_as_the_job_would_be(pods):
    previews = pods.controller.previews
    await previews.preview(ANN, JobRequest(queue="vision", software="PyTorch 2.9"))
    await previews.preview(ANN, JobRequest(queue="vision", software="py311"), kernel="py311")
    with pytest.raises(UnknownSoftware, match=r"'py311'\. Offered are: PyTorch 2\.9\."):
        await previews.preview(ANN, JobRequest(queue="vision", software="py311"))


async def test_the_audit_log_names_the_software(pods):
    pods.controller.jobs.submit(ANN, a_submission(software="PyTorch 2.9"), None)
    (entry,) = pods.sql.audit(AuditFilter())
    assert entry.details["software"] == "PyTorch 2.9"
