"""A service on a cluster whose pods are real processes: what is sent to it runs."""

import asyncio
import contextlib

from tornado.netutil import bind_sockets
from traitlets.config import Config

from jupyter_gq.api.app import make_server
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.devices.meter import ReportedMeter
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedSettings
from tests.kubernetes.backend_world import World
from tests.kubernetes.waiting import eventually
from tests.ports import claim_port
from tests.runner.conftest import PYTHON_KERNEL
from tests.serving import application_of

ANN = Caller(user="ann", groups=frozenset({"vision"}), admin=False)
CONFIG = Config(
    TrainingQueues={"queues": {"vision": {"quota": "2", "groups": ["vision"]}}},
    Pools={"pools": {"train": {"nodes": {}, "resource": "nvidia.com/gpu"}}},
)


def a_cell(source, folder, **request):
    """What sends that cell to training."""
    ref = {"cell_id": "target", "source_hash": "0" * 64}
    cell = {"cell_type": "code", "id": "target", "source": source, "metadata": {}, "outputs": []}
    bundle = {
        "manifest": {"notebook_path": "a.ipynb", "cwd": str(folder), "kernel": PYTHON_KERNEL, "targets": [ref]},
        "notebook": {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell | {"execution_count": None}]},
    }
    return JobSubmission.model_validate({"queue": "vision", "gpus": "1", "bundle": bundle, **request})


def a_controller(store, backend, config=CONFIG):
    """Decides with the settings above, and says when something is not as it must be."""
    return Controller(
        store=store,
        backends=(backend,),
        settings=FixedSettings(build_settings(config, ())),
        clock=SystemClock(),
        bundles=StoredBundles(store, store),
        meter=ReportedMeter(backend.find_uses),
        check_invariants=True,
    )


class Installed:
    """A service on a cluster with two devices. It can end and begin anew; its store and address stay."""

    def __init__(self, world, folder, devices=2, config=CONFIG):
        self.world, self._folder, self._devices, self.config = world, folder, devices, config
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self._port = claim_port()
        self.url = f"http://127.0.0.1:{self._port}/services/jupyter-gq/"

    async def start(self):
        copies = (self._folder / "copies").as_uri()
        self.backend = self.world.new_backend(service_url=self.url, checkpoint_url=copies)
        self.controller = a_controller(self.store, self.backend, self.config)
        spaces, review = self.world.namespaces, self.backend.cluster.review_token
        pods = PodAuthenticator(review, nodes_namespace=spaces.nodes, training_namespace=spaces.train)
        self._server = make_server(application_of(self.controller, None, "/services/jupyter-gq/", pods=pods))
        self._server.add_sockets(bind_sockets(self._port, "127.0.0.1"))
        self._loop = asyncio.create_task(self.controller.run())
        await eventually(
            lambda: len(self.controller.overview.list_devices(ANN).devices) == self._devices, "all devices"
        )

    async def stop(self):
        self._loop.cancel()
        await asyncio.wait({self._loop})
        self._server.stop()
        await self._server.close_all_connections()
        await self.backend.close()

    def send(self, source, folder, **request):
        return self.controller.jobs.submit(ANN, a_cell(source, folder, **request), None)[0].id

    def job(self, job):
        return self.controller.jobs.show(ANN, job)

    async def phase(self, job, phase):
        return await eventually(lambda: self.job(job).phase == phase, lambda: f"{phase}: {self.job(job)}")

    def text(self, job):
        outputs = fold(self.controller.jobs.read_outputs(ANN, job, 0).events).get("target", [])
        return "".join(output.get("text", "") for output in outputs)


@contextlib.asynccontextmanager
async def a_service(control_plane, installation, folder, *, devices=2, config=CONFIG, **options):
    """One that is up; in the end nothing of it is left on the cluster. `options` are of the backend."""
    world = World(control_plane, installation, pools=build_settings(config, ()).pod_pools, **options)
    made = Installed(world, folder, devices, config)
    await made.start()
    yield made
    await made.stop()
    await world.close()
    await asyncio.to_thread(world.clean_up)
    made.store.close()
