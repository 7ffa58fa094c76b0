"""How a job uses its GPUs is kept in memory, and a job that uses none is told so."""

from dataclasses import replace

import pytest

from jupyter_gq.client.models import Heartbeat
from jupyter_gq.controller.gpu_use import FIRST_WIDTH, MOST_POINTS, UseSeries
from jupyter_gq.controller.loop import gpu_use_watch
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.errors import NotFound
from tests.fakes import a_node

from .world import ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio

#: The kernel of the job.
KERNEL = 71


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


async def a_job(world, gpus="1", **changes):
    """Start a job of ann; return its id."""
    job = world.send(ANN, "vision", gpus, **changes)
    await world.step(2)
    world.backend.runs[(job, 1)].pids = (70, KERNEL)
    world.clock.forward(5)
    return job


async def see(world, use, seconds):
    """Go on for this time with a sample of this use every five seconds; None = the driver does not tell."""
    world.probe.blind, world.probe.used = use is None, {KERNEL: use}
    for _ in range(seconds // 5):
        await world.step(seconds=5)


def usage(world, job):
    return world.controller.jobs.read_usage(ANN, job)


async def test_use_is_a_series_of_points_with_gaps(world):
    job = await a_job(world)
    assert (usage(world, job).since, usage(world, job).points, usage(world, job).run) == (None, [], 0)
    began = world.clock.now()
    await see(world, 40, 10)
    await see(world, 70, 5)
    await see(world, None, 60)
    await see(world, 10, 15)
    found = usage(world, job)
    assert (found.run, found.since, found.seconds) == (1, began, FIRST_WIDTH)
    assert [(point.at - began, point.utilisation, point.highest, point.memory_mib) for point in found.points] == [
        (0, 50, 70, 1024),
        (75, 10, 10, 1024),
    ]
    assert found.memory_limit_mib == a_node(2).devices[0].memory
    assert found.sentence == "The job uses 10 % of its GPU and 1 GiB of 40 GiB of GPU memory."
    view = world.job(job)
    assert (view.utilisation, view.gpu_memory_used_mib, view.gpu_memory_limit_mib) == (10, 1024, 40960)
    await see(world, None, 5)
    assert "is not known now" in usage(world, job).sentence
    assert (world.job(job).utilisation, world.job(job).gpu_memory_used_mib) == (None, None)


async def test_owner_and_those_who_may_change_the_job_see_its_use(world):
    job = await a_job(world)
    with pytest.raises(NotFound):
        world.controller.jobs.read_usage(BOB, job)
    with pytest.raises(NotFound):
        world.controller.jobs.read_usage(CAROL, job)
    assert usage(world, job).run == 0


async def test_part_of_a_gpu_has_the_limit_of_its_part(world):
    job = await a_job(world, "0.5")
    await see(world, 5, 5)
    assert usage(world, job).memory_limit_mib == 20480


async def test_job_without_gpu_has_no_use(world):
    job = await a_job(world, "0")
    await see(world, 40, 10)
    assert (usage(world, job).points, usage(world, job).sentence) == ([], "The job has no GPU.")


async def test_series_begins_anew_with_each_run_and_after_a_restart(world):
    job = await a_job(world)
    await see(world, 40, 30)
    world.restart()
    assert usage(world, job).points == []
    await see(world, 60, 10)
    assert usage(world, job).since > world.job(job).running_since
    world.controller._context.use_series[job] = (0, UseSeries(0.0))
    await see(world, 60, 5)
    assert (usage(world, job).run, len(usage(world, job).points)) == (1, 1)


async def test_use_of_the_last_run_is_kept_for_some_jobs_that_ended(world, monkeypatch):
    monkeypatch.setattr(gpu_use_watch, "KEPT", 1)
    ids = []
    for _ in range(3):
        ids.append(await a_job(world))
        await see(world, 40, 5)
        world.backend.end(ids[-1])
        await see(world, 40, 10)
    assert [len(usage(world, job).points) for job in ids] == [0, 0, 1]
    assert usage(world, ids[-1]).sentence == "The job does not run now."


async def test_long_run_is_folded_into_few_points():
    series = UseSeries(1000.0)
    for number in range(10_000):
        series.add(1000.0 + 5 * number, number % 100, number % 7)
    series.add(999.0, 100, 100)
    points = series.points()
    assert MOST_POINTS / 2 <= len(points) <= MOST_POINTS
    assert points[0].at == 1000
    assert points[-1].at + series.width >= 1000 + 5 * 9_999
    assert min(point.highest for point in points[:-1]) >= 95
    assert all(abs(point.mean - 49.5) < 5 for point in points[:-1])
    assert {point.memory for point in points} == {6}


async def test_driver_that_knows_processes_by_other_ids_is_not_believed(tmp_path):
    node = a_node(2)
    devices = tuple(replace(each, id=f"GPU-5c1e{each.index}") for each in node.devices)
    world = World(tmp_path, nodes=(replace(node, devices=devices),))
    world.controller._context.host_pids = False
    job = await a_job(world)
    await see(world, 0, 3600)
    assert (usage(world, job).points, world.job(job).utilisation, world.job(job).unused_gpu) == ([], None, None)
    world.close()


async def test_use_that_agents_report_needs_no_processes_here(world):
    reported = {}

    class Reports:
        def measure(self, shares):
            return {name: reported.get(name, ShareUse(memory=None, utilisation=None)) for name in shares}

    context = world.controller._context
    world.backend.capabilities = replace(world.backend.capabilities, agent_reports=object())
    context.meter, context.host_pids = Reports(), False
    job = world.send(ANN, "vision", "1")
    await world.step(2)
    reported[job] = ShareUse(memory=2048, utilisation=33)
    await world.step(seconds=5)
    await world.step(seconds=5)
    assert (world.job(job).utilisation, world.job(job).gpu_memory_used_mib) == (33, 2048)


# --- jobs that use no GPU


async def test_owner_is_told_that_no_gpu_was_used(world):
    told = []
    job = await a_job(world)
    world.controller._gpu_use_watch._announce = told.append
    await see(world, 0, 895)
    assert (world.job(job).unused_gpu, told) == (None, [])
    await see(world, 0, 15)
    found = world.job(job).unused_gpu
    assert found.sentence == (
        "This job has used no GPU for 15 min, although it holds 1 GPU. Cancel it, or let its code use the GPU."
    )
    assert world.job(job).sentence.endswith(found.sentence)
    await see(world, 0, 3600)
    assert "for 75 min" in world.job(job).sentence
    assert (world.job(job).unused_gpu.since, told) == (found.since, [job])
    await see(world, 50, 5)
    assert (world.job(job).unused_gpu, told) == (None, [job, job])
    assert "no GPU" not in world.job(job).sentence


@pytest.mark.parametrize(("gap", "is_told"), [(60, True), (120, False)])
async def test_time_without_samples_does_not_count(world, gap, is_told):
    job = await a_job(world)
    await see(world, 0, 800)
    await see(world, None, gap)
    await see(world, 0, 200)
    assert (world.job(job).unused_gpu is not None) == is_told
    await see(world, 0, 720)
    assert world.job(job).unused_gpu is not None
    await see(world, None, 120)
    assert world.job(job).unused_gpu is None


async def test_restart_begins_the_time_anew(world):
    job = await a_job(world)
    await see(world, 0, 800)
    world.restart()
    await see(world, 0, 890)
    assert world.job(job).unused_gpu is None
    await see(world, 0, 30)
    assert world.job(job).unused_gpu is not None


async def test_little_use_is_none_on_simulated_gpus_only(tmp_path):
    node = a_node(2)
    devices = tuple(replace(each, id=f"GPU-5c1e{each.index}") for each in node.devices)
    for name, nodes, is_told in (("simulated", (node,), True), ("real", (replace(node, devices=devices),), False)):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, nodes=nodes)
        world.controller._context.host_pids = True
        job = await a_job(world)
        await see(world, 5, 1000)
        assert (world.job(job).unused_gpu is not None) == is_told
        world.close()


@pytest.mark.parametrize(("after", "seconds", "is_told"), [(0, 5000, False), (60, 70, True)])
async def test_settings_decide_when(tmp_path, after, seconds, is_told):
    world = World(tmp_path, settings=story_settings(TrainingQueues={"unused_after": after}))
    job = await a_job(world)
    await see(world, 0, seconds)
    assert (world.job(job).unused_gpu is not None) == is_told
    world.close()


async def test_job_that_ended_is_not_told(world):
    job = await a_job(world)
    await see(world, 0, 1000)
    world.backend.end(job)
    await see(world, 0, 10)
    assert world.job(job).unused_gpu is None
    assert world.controller._context.unused == {}


async def test_time_of_the_last_checkpoint_is_shown(world):
    job = await a_job(world)
    assert world.job(job).saved_at is None
    saved = world.clock.now() - 30
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=saved))
    assert world.job(job).saved_at == saved
