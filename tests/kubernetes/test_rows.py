"""What goes wrong around a job, as its owner sees it: the service, a real control plane, pods that are processes."""

import asyncio
import contextlib

import pytest

from jupyter_gq.scheduling.wording import UNOBSERVED
from tests.cells import TRAINS
from tests.kubernetes.job_world import ANN
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

NODE = "gpu-rows"
TICKS = """
import time
tick = 0
while True:
    tick += 1
    print("tick", tick, flush=True)
    time.sleep(0.05)
"""


async def test_a_job_that_somebody_evicts_says_who_and_goes_on_where_it_was(installed, tmp_path):
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    core, train = installed.world.plane.core, installed.world.namespaces.train
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}  # so that it waits for a moment
    await asyncio.to_thread(core.patch_node, NODE, {"spec": {"taints": [taint]}})
    await eventually(
        lambda: not any(each.healthy for each in installed.controller.overview.list_devices(ANN).devices), "the taint"
    )
    (pod,) = await asyncio.to_thread(installed.world.pods)
    body = {"metadata": {"name": pod.metadata.name, "namespace": train}}
    await asyncio.to_thread(core.create_namespaced_pod_eviction, pod.metadata.name, train, body)

    await installed.phase(job, "paused")
    assert installed.job(job).sentence.startswith("Somebody drained the node, or evicted the pod")
    assert "The job continues by itself." in installed.job(job).sentence
    await asyncio.to_thread(core.patch_node, NODE, {"spec": {"taints": []}})
    await installed.phase(job, "done")
    first, until, again, _ = installed.text(job).splitlines()
    assert (first, again) == ("from 0", f"from {until.removeprefix('until ')}")
    assert installed.job(job).run == 2


async def test_while_the_api_server_is_away_all_is_as_it_was_and_that_is_said(installed, tmp_path):
    job = installed.send(TICKS, tmp_path / "home")
    await eventually(lambda: "tick" in installed.text(job), "it runs")
    health = installed.controller.status.check_health
    await asyncio.to_thread(installed.world.plane.stop_api)
    try:
        await eventually(lambda: health().runs == UNOBSERVED, "that it is away")
        ticks = len(installed.text(job))
        late = installed.send("print('late')", tmp_path / "home")
        await eventually(lambda: UNOBSERVED[1:] in installed.job(late).sentence, lambda: f"{installed.job(late)}")
        await eventually(lambda: len(installed.text(job)) > ticks, "its output goes on")
        assert (health().status, installed.controller.status.explain_unready()) == ("degraded", "")
        assert (installed.job(job).phase, installed.job(late).phase) == ("running", "waiting")
        installed.controller.jobs.cancel(ANN, job)
        assert installed.job(job).phase == "cancelling", "what its owner wants is remembered"
    finally:
        await asyncio.to_thread(installed.world.plane.start_api)
        await asyncio.to_thread(installed.world.plane.restart_followers)
    await installed.phase(late, "done")
    await installed.phase(job, "cancelled")
    assert (health().status, health().runs) == ("ok", "ok")
    assert installed.job(job).run == installed.job(late).run == 1


@contextlib.contextmanager
def no_pods_allowed(world):
    core, train = world.plane.core, world.namespaces.train
    core.create_namespaced_resource_quota(train, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    try:
        yield
    finally:
        core.delete_namespaced_resource_quota("none", train)


async def test_a_quota_that_refuses_is_named_and_not_asked_again_and_again(installed, tmp_path):
    world = installed.world
    core, train = world.plane.core, world.namespaces.train
    with no_pods_allowed(world):
        await eventually(lambda: core.read_namespaced_resource_quota("none", train).status.hard, "the quota counts")
        job = installed.send("print('x')", tmp_path / "home")
        await eventually(lambda: "exceeded quota: none" in installed.job(job).sentence, lambda: f"{installed.job(job)}")
        assert "The scheduler tries again after a pause of 20 s." in installed.job(job).sentence
        asked = installed.backend.cluster.requests["POST"]
        other = installed.send("print('y')", tmp_path / "home")
        await eventually(lambda: "exceeded quota: none" in installed.job(other).sentence, "the other is refused too")
        await eventually(lambda: installed.job(job).run == 2, lambda: f"{installed.job(job)}")
        assert asked < installed.backend.cluster.requests["POST"] <= asked + 3, "each was asked for once in 20 seconds"
        for each in (job, other):
            installed.controller.jobs.cancel(ANN, each)
            await installed.phase(each, "cancelled")
