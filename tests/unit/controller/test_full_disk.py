"""A full disk costs no job: starts wait, and the reason is shown."""

import pytest

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import StorageFull
from tests.fakes import HasNoRoom

from .world import ADMIN, ANN, World, a_submission

pytestmark = pytest.mark.asyncio


async def test_job_that_cannot_start_for_lack_of_room_waits_and_starts_later(tmp_path):
    world = World(tmp_path, backend=HasNoRoom)
    job = world.send(ANN, "vision")
    await world.step(3)
    assert world.job(job).phase in ("waiting", "paused")
    assert "no room for a start" in world.job(job).sentence
    world.backend.full = False
    world.clock.forward(600)
    await world.step(3)
    assert world.job(job).phase == "running"
    world.close()


async def test_shortage_refuses_new_jobs_with_a_sentence_and_is_the_reason_in_health(world):
    running = world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.sql._database.shortage = "The disk is full."
    with pytest.raises(StorageFull, match="The disk is full"):
        world.controller.jobs.submit(ANN, a_submission(), None)
    health = world.controller.status.check_health()
    assert (health.status, health.code, health.failures) == ("degraded", "disk_full", ["The disk is full."])
    world.controller.jobs.cancel(ADMIN, running)
    await world.step(10)
    assert world.job(running).phase == "cancelled"


async def test_job_above_the_limit_of_disk_space_is_ended_and_others_go_on(world):
    world.settings.change(max_job_disk=MiB(1024))
    large, small = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.bundles.used = {large: MiB(1536), small: MiB(1024)}
    await world.controller.disk_limit.measure()
    assert (world.job(large).disk, world.job(small).disk) == ("1.5 GiB", "1 GiB")
    await world.step(10)
    assert world.job(large).phase == "cancelled"
    assert "its files take 1.5 GiB of disk, and at most 1 GiB are allowed" in world.job(large).sentence
    assert world.job(small).phase == "running"
    await world.controller.disk_limit.measure()
    assert world.job(large).disk is None, "the job has ended, and its files may be deleted"


async def test_limit_of_zero_is_no_limit(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.settings.change(max_job_disk=MiB(0))
    world.bundles.used = {job: MiB(10**9)}
    await world.controller.disk_limit.measure()
    await world.step(2)
    assert world.job(job).phase == "running"
