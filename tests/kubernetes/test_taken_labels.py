"""A running pod from which somebody takes a label of ours holds its device all the same, against a real API server."""

import asyncio

import pytest

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.protocol import Outcome, Phase
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


async def take(world, runs, workload, label):
    """Take the label from the pod of the workload, and return the pod once the backend has seen that."""
    (view,) = runs.pods.of_run((workload.id, 1))
    core = world.plane.core
    await asyncio.to_thread(
        core.patch_namespaced_pod, view.name, view.namespace, {"metadata": {"labels": {label: None}}}
    )

    def known():
        return next((pod for pod in runs.pods.of_run((workload.id, 1)) if label in pod.lost_marks), None)

    return await eventually(known, f"{label} is taken")


async def list_again(watch):
    """Break this watch off, and wait until it has listed its pods again."""
    lists, watch._version = watch.lists, ""
    watch._stream.end()
    await eventually(lambda: watch.lists > lists and not watch.failure, "listed again")


@pytest.mark.parametrize("label", [names.INSTALLATION, names.WORKLOAD])
async def test_a_job_goes_on_until_its_pod_is_gone(world, kwok, label):
    (node,) = kwok.add_nodes(1, gpus=1)
    job = world.job("taken", (node, 0), gpus="0.75")
    await world.launch(job)
    await world.held(f"{node}/0", node)
    await world.running(job)
    pod = await take(world, world.backend.training, job, label)
    await list_again(world.backend._job_pods)
    assert (await world.observed(job)).phase is Phase.RUNNING
    assert world.backend.training.pods.by_uid(pod.uid) is not None
    await asyncio.to_thread(world.plane.core.delete_namespaced_pod, pod.name, pod.namespace)
    assert (await world.end(job)).outcome is Outcome.LOST


async def test_a_server_goes_on_until_its_pod_is_gone(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    notebook = world.notebook("ann", node, 0, gpus="0.75")
    await world.launch(notebook)
    await world.held(f"{node}/0", node)
    world.start_server(notebook, world.backend.notebooks.pod_additions(notebook.id, 1))
    await world.running(notebook)
    await take(world, world.backend.notebooks, notebook, names.WORKLOAD)
    await list_again(world.backend._server_pods)
    assert (await world.observed(notebook)).phase is Phase.RUNNING
    assert world.hub.asked == []
    await asyncio.to_thread(world.delete_server, "ann")
    assert (await world.end(notebook)).phase is Phase.ENDED
