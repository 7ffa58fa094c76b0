"""A pool that a cluster autoscaler makes larger: the test is the autoscaler, kube-scheduler says what fits nowhere."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio
from kubernetes.client import SchedulingV1Api
from traitlets.config import Config

from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.errors import NeverFits
from jupyter_gq.domain.pod_pool import Hold
from jupyter_gq.store.sql import SqlStore
from tests.chart.render import CHART
from tests.fakes import FixedSettings
from tests.kubernetes.backend_world import World
from tests.kubernetes.chart import rendered
from tests.kubernetes.waiting import eventually
from tests.runner.conftest import PYTHON_KERNEL

pytestmark = pytest.mark.asyncio

ANN = Caller(user="ann", groups=frozenset(), admin=False)
LABELS = {"pool": "growing"}
CONFIG = Config(
    TrainingQueues={"queues": {"own": {"quota": "4"}, "borrows": {"quota": "0"}}},
    Pools={"pools": {"gpu": {"nodes": LABELS, "scale_up": {"gpus": 2, "nodes": 2}}}},
)
FULLER = build_settings(Config(CONFIG, TrainingQueues={"queues": {"own": {"quota": "6"}}}), ())
BUNDLE = {
    "manifest": {
        "notebook_path": "a.ipynb",
        "cwd": "/",
        "kernel": PYTHON_KERNEL,
        "targets": [{"cell_id": "target", "source_hash": "0" * 64}],
    },
    "notebook": {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {"cell_type": "code", "id": "target", "source": "", "metadata": {}, "outputs": [], "execution_count": None}
        ],
    },
}


class Growing:
    """A service whose steps the test makes, and the autoscaler of its cluster."""

    def __init__(self, world, kwok, folder):
        self.world, self.kwok = world, kwok
        self.settings = FixedSettings(build_settings(CONFIG, ()))
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self.controller = None
        self.start()

    def start(self):
        self.backend = self.world.backend = self.world.new_backend()
        self.controller = Controller(
            store=self.store,
            backends=(self.backend,),
            settings=self.settings,
            clock=self.world.clock,
            bundles=StoredBundles(self.store, self.store),
            check_invariants=True,
        )

    async def restart(self):
        await self.backend.close()
        self.start()

    def send(self, gpus=2, queue="own", **request):
        wanted = {"queue": queue, "gpus": gpus, "bundle": BUNDLE, **request}
        return self.controller.jobs.submit(ANN, JobSubmission.model_validate(wanted), None)[0].id

    def job(self, job):
        return self.controller.jobs.show(ANN, job)

    async def until(self, condition, what):
        async def met():
            await self.controller.step()
            found = condition()
            return await found if asyncio.iscoroutine(found) else found

        return await eventually(
            met,
            lambda: f"{what() if callable(what) else what}; pods: {[pod.metadata.name for pod in self.world.pods()]}",
        )

    async def steps(self, seconds, count=20):
        """Time goes by."""
        for _ in range(count):
            self.world.clock.ahead += seconds / count
            await self.controller.step()
            await asyncio.sleep(0)  # what was begun goes on

    async def placeholders(self):
        pods = await asyncio.to_thread(self.world.pods)
        return [pod for pod in pods if pod.metadata.labels[names.COMPONENT] == "gq-placeholder"]

    async def refused(self, count, hurry=0):
        """So many, and kube-scheduler has found no node for any; `hurry`: seconds that pass at each look."""

        async def seen():
            self.world.clock.ahead += hurry
            found = await self.placeholders()
            told = [c for pod in found for c in pod.status.conditions or () if c.reason == "Unschedulable"]
            return found if len(found) == len(told) == count else None

        return await self.until(seen, f"{count} placeholders that fit nowhere")

    async def none_left(self):
        async def gone():
            return not await self.placeholders()

        await self.until(gone, "no placeholder")

    async def add_node(self):
        """The autoscaler adds one, and its agent begins to speak."""
        (node,) = await asyncio.to_thread(self.kwok.add_nodes, 1, 2, name="new", labels=LABELS)
        await self.world.agents.tell(node)
        return node

    async def runs(self, job):
        await self.until(lambda: self.job(job).phase == "running", lambda: f"{self.job(job)}")
        return self.job(job).node

    @property
    def written(self):
        """What was asked of the API server beside looking."""
        requests = self.backend.cluster.requests
        return requests["POST"], requests["DELETE"]


@pytest.fixture(scope="module")
def priority_class(control_plane, installation):
    """The one that the chart makes where a pool grows."""
    found = rendered(installation, CHART / "ci/growing-values.yaml")
    (one,) = [e for e in found if e["kind"] == "PriorityClass" and e["metadata"]["name"].endswith("placeholder")]
    api = SchedulingV1Api(control_plane.client())
    api.create_priority_class(one)
    yield one["metadata"]["name"]
    api.delete_priority_class(one["metadata"]["name"])


@pytest_asyncio.fixture
async def growing(control_plane, installation, kwok, priority_class, tmp_path):
    pools = build_settings(CONFIG, ()).pod_pools
    world = World(control_plane, installation, pools=pools, placeholder_priority_class=priority_class)
    made = Growing(world, kwok, tmp_path)
    yield made
    await world.close()
    await asyncio.to_thread(world.clean_up)
    await asyncio.to_thread(kwok.remove_all)
    made.store.close()


async def test_a_job_that_is_entitled_makes_the_first_node_come_and_runs_there(growing):
    job = growing.send()
    (pod,) = await growing.refused(1)
    assert pod.metadata.name == "gq-grow-gpu-0"
    assert pod.spec.affinity is None, "it is not pinned"
    assert pod.spec.node_selector == LABELS
    assert (pod.spec.priority, pod.spec.preemption_policy) == (-10, "Never")
    assert pod.spec.containers[0].resources.requests["nvidia.com/gpu"] == "2"
    await growing.until(lambda: "was asked for a moment ago" in growing.job(job).sentence, "it is told")
    await growing.steps(180)
    assert "A new node of gpu was asked for 3 min ago." in growing.job(job).sentence
    await growing.steps(500)
    ((said,),) = [[c.message for c in pod.status.conditions] for pod in await growing.placeholders()]
    sentence = growing.job(job).sentence
    assert "has not come: the cluster's autoscaler may be at its maximum" in sentence
    assert f"The cluster says: {said}" in sentence
    assert growing.written == (1, 0), "it is asked for once"
    node = await growing.add_node()
    assert await growing.runs(job) == node
    await growing.none_left()
    await growing.steps(600)
    assert growing.written == (2, 1), "the job's pod was made, and one placeholder was deleted"


async def test_a_loan_makes_no_node_come(growing):
    job = growing.send(queue="borrows")
    await growing.steps(600)
    assert await growing.placeholders() == []
    assert growing.written == (0, 0)
    assert "new node" not in growing.job(job).sentence


async def test_a_gang_makes_as_many_come_as_it_needs_and_never_more_than_the_pool_may_have(growing):
    gang = growing.send(tasks=2)
    await growing.refused(2)
    first = await growing.add_node()
    # kube-scheduler may put the second one where the first has been: then it is asked for again after a while.
    await growing.refused(1, hurry=2)
    second = await growing.add_node()
    await growing.until(lambda: growing.job(gang).phase == "running", lambda: f"{growing.job(gang)}")
    pods = await asyncio.to_thread(growing.world.pods)
    tasks = {pod.spec.node_name for pod in pods if pod.metadata.labels[names.COMPONENT] == names.TRAINING}
    assert tasks == {first, second}
    growing.settings.change(training=FULLER.training)
    more = growing.send()
    await growing.steps(600)
    assert await growing.placeholders() == [], "the pool is as large as it may be"
    assert growing.job(more).phase == "waiting"
    with pytest.raises(NeverFits):
        growing.send(tasks=3)


async def test_a_gang_that_has_one_node_and_needs_another_makes_one_come(growing):
    free = await growing.add_node()
    gang = growing.send(tasks=2)
    (pod,) = await growing.refused(1)
    assert pod.spec.node_name is None, "the node that is free is no new one"
    new = await growing.add_node()
    await growing.until(lambda: growing.job(gang).phase == "running", lambda: growing.job(gang))
    pods = await asyncio.to_thread(growing.world.pods)
    tasks = {pod.spec.node_name for pod in pods if pod.metadata.labels[names.COMPONENT] == names.TRAINING}
    assert tasks == {free, new}
    await growing.none_left()


async def test_a_service_that_begins_anew_makes_none_twice(growing):
    growing.send()
    (before,) = await growing.refused(1)
    await growing.restart()
    await growing.steps(300)
    (after,) = await growing.refused(1)
    assert after.metadata.uid == before.metadata.uid
    assert growing.written == (0, 0)


async def test_a_cancelled_job_needs_no_node_and_the_pool_waits_before_it_asks_again(growing):
    job = growing.send()
    await growing.refused(1)
    growing.world.clock.stand()
    growing.controller.jobs.cancel(ANN, job)
    await growing.none_left()
    again = growing.send()
    await growing.steps(50)
    assert await growing.placeholders() == []
    assert "The cluster is asked for a new node of gpu." in growing.job(again).sentence
    await growing.steps(20)
    await growing.refused(1)


async def test_a_placeholder_of_nobody_goes(growing):
    """The pool does not grow any more, or the job ended while no service was there."""
    growing.send()
    await growing.refused(1)
    growing.world.pools = []
    await growing.none_left()
    assert growing.written == (1, 1)


async def test_while_a_node_gets_ready_for_shares_its_placeholder_keeps_it(growing):
    job = growing.send(gpus="0.5")
    await growing.refused(1)
    (node,) = await asyncio.to_thread(growing.kwok.add_nodes, 1, 2, name="new", labels=LABELS)
    await growing.until(lambda: f"{node}, has come" in growing.job(job).sentence, "it is told")
    assert growing.job(job).phase == "waiting", "its agent has not spoken yet"
    assert not any(device.healthy for device in growing.controller.overview.list_devices(ANN).devices), "it is kept"
    (pod,) = await growing.placeholders()
    assert pod.spec.node_name == node

    async def runs():
        await growing.world.agents.tell(node)
        return growing.job(job).phase == "running"

    await growing.until(runs, lambda: growing.job(job))
    await growing.none_left()


async def test_a_pool_that_keeps_its_devices_takes_those_of_a_new_node_when_it_is_ready(growing):
    growing.world.pools = [replace(pool, hold=Hold.ALWAYS) for pool in growing.world.pools]
    job = growing.send(gpus="0.5")
    await growing.refused(1)
    (node,) = await asyncio.to_thread(growing.kwok.add_nodes, 1, 2, name="new", labels=LABELS)
    await growing.until(lambda: f"{node}, has come" in growing.job(job).sentence, "it is told")
    await growing.steps(30)
    pods = await asyncio.to_thread(growing.world.pods)
    assert [pod.metadata.labels[names.COMPONENT] for pod in pods] == ["gq-placeholder"], "nothing is in its way"
    assert not growing.backend.cluster_nodes.back_off.until(node)

    async def runs():
        await growing.world.agents.tell(node)
        return growing.job(job).phase == "running"

    await growing.until(runs, lambda: growing.job(job))
    await growing.none_left()
