"""Jobs as pods, from sending to the result: service, backend, API server, scheduler, and the runner as a real process.

The kubelet is the stand-in; the service runs in this process, with the rights that the chart gives it.
"""

import asyncio

import pytest
import pytest_asyncio
from tornado.netutil import bind_sockets
from traitlets.config import Config

from jupyter_gq.api.app import make_application, make_server
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.client.outputs import fold
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings import build_settings
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedSettings
from tests.kubernetes.backend_world import World, give_rights, make_runtime_class
from tests.kubernetes.waiting import eventually
from tests.runner.conftest import PYTHON_KERNEL

pytestmark = pytest.mark.asyncio

NODE = "gpu-job"
ANN = Caller(user="ann", groups=frozenset({"vision"}), admin=False)
CONFIG = Config(
    TrainingQueues={"queues": {"vision": {"quota": "2", "groups": ["vision"]}}},
    Pools={"pools": {"train": {"nodes": {}, "resource": "nvidia.com/gpu"}}},
)
#: Meets the other task at the address that both were told, and says whom it met.
GANG = """
import os, socket, time
rank, place = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        other, _ = server.accept()
        print("met", other.recv(100).decode(), "of", os.environ["WORLD_SIZE"])
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(place) as there:
                there.sendall(f"rank {rank}".encode())
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
"""
TRAINS = """
import jupyter_gq, time
at = jupyter_gq.checkpoint_dir() / "epoch"
start = int(at.read_text()) if at.exists() else 0
print("from", start, flush=True)
for epoch in range(start, 100_000):
    at.write_text(str(epoch + 1))
    if start or jupyter_gq.should_stop():
        break
    time.sleep(0.01)
print("until", epoch + 1)
"""


class Installed:
    """A service on a cluster of one node with two devices. It can end and begin anew; its store and address stay."""

    def __init__(self, world, folder):
        self.world, self._folder = world, folder
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        (held,) = bind_sockets(0, "127.0.0.1")
        self._port = held.getsockname()[1]
        held.close()

    async def start(self):
        url = f"http://127.0.0.1:{self._port}/services/jupyter-gq/"
        copies = (self._folder / "copies").as_uri()
        self.backend = self.world.new_backend(service_url=url, checkpoint_url=copies)
        self.controller = Controller(
            store=self.store,
            backends=(self.backend,),
            settings=FixedSettings(build_settings(CONFIG, ())),
            clock=SystemClock(),
            bundles=StoredBundles(self.store, self.store),
            check_invariants=True,
        )
        spaces, review = self.world.namespaces, self.backend.cluster.review_token
        pods = PodAuthenticator(review, nodes_namespace=spaces.nodes, training_namespace=spaces.train)
        self._server = make_server(make_application(self.controller, None, "/services/jupyter-gq/", pods=pods))
        self._server.add_sockets(bind_sockets(self._port, "127.0.0.1"))
        self._loop = asyncio.create_task(self.controller.run())
        await eventually(lambda: len(self.controller.devices(ANN).devices) == 2, "the devices of the node")

    async def stop(self):
        self._loop.cancel()
        await asyncio.wait({self._loop})
        self._server.stop()
        await self._server.close_all_connections()
        await self.backend.close()

    def send(self, source, folder, **request):
        ref = {"cell_id": "target", "source_hash": "0" * 64}
        cell = {"cell_type": "code", "id": "target", "source": source, "metadata": {}, "outputs": []}
        bundle = {
            "manifest": {"notebook_path": "a.ipynb", "cwd": str(folder), "kernel": PYTHON_KERNEL, "targets": [ref]},
            "notebook": {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {},
                "cells": [cell | {"execution_count": None}],
            },
        }
        wanted = {"queue": "vision", "gpus": "1", "bundle": bundle, **request}
        return self.controller.submit(ANN, JobSubmission.model_validate(wanted), None)[0].id

    def job(self, job):
        return self.controller.job(ANN, job)

    async def phase(self, job, phase):
        return await eventually(lambda: self.job(job).phase == phase, lambda: f"{phase}: {self.job(job)}")

    def text(self, job):
        outputs = fold(self.controller.outputs(ANN, job, 0).events).get("target", [])
        return "".join(output.get("text", "") for output in outputs)


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet(NODE, gpus=2)


@pytest.fixture(scope="module")
def installation(control_plane, namespace_set):
    give_rights(control_plane, namespace_set)
    make_runtime_class(control_plane)
    return namespace_set


@pytest_asyncio.fixture
async def installed(control_plane, installation, node, tmp_path):
    pools = build_settings(CONFIG, ()).pod_pools
    made = Installed(World(control_plane, installation, pools=pools), tmp_path)
    await made.start()
    yield made
    await made.stop()
    await made.world.close()
    await asyncio.to_thread(made.world.clean_up)
    made.store.close()


async def test_a_job_runs_as_a_pod_to_its_end(installed, tmp_path):
    job = installed.send("import os\nprint('on', os.environ['JUPYTER_GQ_GPUS'])\n6 * 7", tmp_path / "home")
    await installed.phase(job, "done")
    assert installed.text(job) == "on 1\n"
    notebook = installed.controller.executed_notebook(ANN, job)
    assert notebook["cells"][0]["outputs"][1]["data"]["text/plain"] == "42"
    assert "SUCCEEDED" in installed.controller.log(ANN, job)
    await eventually(lambda: not installed.world.pods(), "its pod is gone")


async def test_a_job_that_fails_says_why(installed, tmp_path):
    job = installed.send("1 / 0", tmp_path / "home")
    await installed.phase(job, "failed")
    assert "ZeroDivisionError" in installed.job(job).sentence


async def test_the_tasks_of_a_gang_meet(installed, tmp_path):
    job = installed.send(GANG, tmp_path / "home", tasks=2)
    await installed.phase(job, "done")
    assert installed.text(job) == "met rank 1 of 2\n"


async def test_a_pod_that_somebody_deletes_saves_its_state_and_goes_on_in_a_new_one(installed, tmp_path):
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    train = installed.world.namespaces.train
    core = installed.world.plane.core
    (pod,) = [pod for pod in await asyncio.to_thread(installed.world.pods) if pod.metadata.namespace == train]
    await asyncio.to_thread(core.delete_namespaced_pod, pod.metadata.name, train)
    await installed.phase(job, "done")
    first, until, again, end = installed.text(job).splitlines()
    reached = int(until.removeprefix("until "))
    assert (first, again, end) == ("from 0", f"from {reached}", f"until {reached + 1}")
    assert installed.job(job).run == 2


async def test_a_job_outlives_its_service(installed, tmp_path):
    go = tmp_path / "go-on"
    wait = f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)"
    job = installed.send(f"{wait}\nprint('ended')", tmp_path / "home")
    await eventually(lambda: "begun" in installed.text(job), "it runs")
    await installed.stop()
    go.touch()
    await installed.start()
    await installed.phase(job, "done")
    assert (installed.text(job), installed.job(job).run) == ("begun\nended\n", 1)
    assert "ended" in installed.controller.log(ANN, job)


async def test_a_job_that_is_cancelled_ends_in_its_time(installed, tmp_path):
    source = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.01)"
    job = installed.send(source, tmp_path / "home")
    await eventually(lambda: "begun" in installed.text(job), "it runs")
    installed.controller.cancel(ANN, job)
    await installed.phase(job, "cancelled")
    await eventually(lambda: not installed.world.pods(), "its pod is gone")
    assert installed.text(job) == "begun\n"
