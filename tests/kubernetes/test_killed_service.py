"""A service that is killed again and again, at any point: nothing is lost, nothing is doubled, no pod is left.

`JUPYTER_GQ_KILLS`: how often (CI: 25). The moments are drawn from a fixed seed.
"""

import asyncio
import os
import random

import pytest
from traitlets.config import Config

from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings import build_settings
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedSettings
from tests.kubernetes.backend_world import World, give_rights
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

KILLS = int(os.environ.get("JUPYTER_GQ_KILLS", "25"))
ANN = Caller(user="ann", groups=frozenset(), admin=False)
CONFIG = Config(TrainingQueues={"queues": {"all": {"quota": 8}}}, Pools={"pools": {"train": {"nodes": {}}}})
#: What jobs ask for: GPUs of a task, and tasks.
SIZES = ((1, 1), (2, 1), (1, 2), (2, 2))


class Service:
    """One life of the service: over the same database and cluster as those before it."""

    def __init__(self, world, database):
        self.backend = world.new_backend()
        self.backend._pools = lambda: self.settings.current.pod_pools
        self.settings = FixedSettings(build_settings(CONFIG, ()))
        self.store = SqlStore(f"sqlite:///{database}")
        self.controller = Controller(
            store=self.store,
            backends=(self.backend,),
            settings=self.settings,
            clock=SystemClock(),
            bundles=StoredBundles(self.store, self.store),
            check_invariants=True,
        )

    async def live(self, seconds):
        """It decides and acts for so long, then it is gone in the middle of whatever it does."""
        loop = asyncio.create_task(self.controller.run())
        await asyncio.wait([loop], timeout=seconds)
        assert not loop.done(), loop
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    async def end(self):
        await self.backend.close()
        self.store.close()


def submission(gpus, tasks):
    manifest = {
        "notebook_path": "train.ipynb",
        "cwd": "/home/ann",
        "kernel": {"name": "python3", "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]},
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    bundle = {"manifest": manifest, "notebook": {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}}
    return JobSubmission.model_validate({"queue": "all", "gpus": gpus, "tasks": tasks, "bundle": bundle})


async def test_killed_again_and_again(control_plane, namespace_set, kwok, tmp_path):
    give_rights(control_plane, namespace_set)
    kwok.add_nodes(2, 4, name="ending")  # whatever runs there has done its work after a second
    world, chance = World(control_plane, namespace_set), random.Random(20)
    mark, sent = control_plane.mark(), []
    for life in range(KILLS):
        service = Service(world, tmp_path / "service.sqlite")
        if life % 2 == 0:
            await service.backend.observe()  # as the service does before it answers
            sent.append(service.controller.submit(ANN, submission(*chance.choice(SIZES)), None)[0].id)
        await service.live(chance.uniform(0.02, 0.6))
        await service.end()
    last = Service(world, tmp_path / "service.sqlite")
    loop = asyncio.create_task(last.controller.run())

    def phases():
        return [last.controller.job(ANN, job).phase for job in sent]

    await eventually(lambda: set(phases()) == {"done"}, lambda: f"all jobs are done: {phases()}", 240)
    await eventually(lambda: not world.pods(), lambda: f"no pod is left: {[p.metadata.name for p in world.pods()]}")
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    jobs = [last.controller.job(ANN, job) for job in sent]
    assert {job.run for job in jobs} == {1}, "a run was lost"
    made = control_plane.requests(mark, verb="create", resource="pods", namespace=namespace_set.train, status=201)
    wanted = [f"gq-{job.id}-1-{task}" for job in jobs for task in range(job.tasks)]
    assert sorted(request.name for request in made) == sorted(wanted), "a pod was made twice"
    services = control_plane.core.list_namespaced_service(namespace_set.train).items
    assert not services, "headless services of gangs go with them"
    await last.end()
