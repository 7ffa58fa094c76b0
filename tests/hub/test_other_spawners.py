"""The mixin over spawners that are not the local one."""

import asyncio
import os
import pwd
from pathlib import Path

import psutil
import pytest
from traitlets.config import Config

from tests.hub.real_hub import Person, RealHub, eventually
from tests.hub.scripted_service import ScriptedService

pytestmark = pytest.mark.asyncio

#: An interpreter that every user of the machine may run; that of the tests may be in somebody's home.
EVERYBODYS_PYTHON = "/usr/bin/python3"
SYSTEM = f"""
c.JupyterHub.spawner_class = "jupyter_gq.hub.system.GQSystemSpawner"
c.Spawner.cmd = [{EVERYBODYS_PYTHON!r}, {str(Path(__file__).with_name("tiny_server.py"))!r}]
"""
ODD = """
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from jupyter_gq.hub.mixin import GPUShareMixin
from traitlets.config import LoggingConfigurable
import asyncio

class Odd(SimpleLocalProcessSpawner):
    "Plain methods that return futures, options and a hook of its own, its own progress: what spawners in the wild do."
    def start(self):
        return asyncio.ensure_future(super().start())
    async def progress(self):
        yield {"progress": 60, "message": "odd is at work"}

class GQOdd(GPUShareMixin, Odd):
    def other_options(self):
        return {"image", *super().other_options()}

def hook(spawner):
    spawner.environment = {"FROM_HOOK": spawner.user_options.get("image", "")}

c.JupyterHub.spawner_class = GQOdd
c.Spawner.pre_spawn_hook = hook
c.Spawner.apply_user_options = {"color": "notebook_dir"}
"""


@pytest.fixture
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture
def hub_with(tmp_path, service):
    hubs = []

    def start(more):
        hubs.append(RealHub(tmp_path, service, more=more))
        hubs[-1].start()
        return hubs[-1]

    yield start
    for hub in hubs:
        hub.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start servers as other users")
@pytest.mark.skipif(not os.path.exists(EVERYBODYS_PYTHON), reason=f"needs {EVERYBODYS_PYTHON}")
async def test_a_system_user_has_a_process_of_their_own_and_no_right_to_be_root(hub_with, service):
    hub = await asyncio.to_thread(hub_with, SYSTEM)
    async with Person(hub, "nobody") as nobody:
        await nobody.start({"gpus": "0.25"})
        await eventually(nobody.ready)
        report = service.of("nobody", "PUT tickets/*/process")[-1].body
        process = psutil.Process(report["pid"])
        assert process.uids().real == pwd.getpwnam("nobody").pw_uid
        assert "--allow-root" not in process.cmdline()
        await nobody.log_in()
        assert (await nobody.told())["environment"]["JUPYTER_GQ_GPUS"] == "0.25"
        await nobody.stop()
    async with Person(hub, "no-such-account") as stranger:
        answer = await stranger.spawn({"gpus": "0.25"})
        assert answer.status_code == 403
        assert "no account no-such-account" in answer.json()["message"]
        assert not service.of("no-such-account")


async def test_an_odd_spawner_keeps_its_options_hooks_and_progress(hub_with, service):
    hub = await asyncio.to_thread(hub_with, ODD)
    async with Person(hub, "odo") as odo:
        assert (await odo.spawn({"gpus": "0.25", "colour": "x"})).status_code == 400
        assert (await odo.spawn({"gpus": "0.25", "image": "mine"})).status_code in (201, 202)
        await eventually(odo.ready)
        await odo.log_in()
        environment = (await odo.told())["environment"]
        assert environment["FROM_HOOK"] == "mine"
        assert environment["JUPYTER_GQ_GPUS"] == "0.25"
        await odo.stop()
        await eventually(lambda: service.of("odo", "DELETE tickets/*"))


async def test_over_kubespawner_it_gives_form_environment_and_state(monkeypatch):
    kubespawner = pytest.importorskip("kubespawner", reason="kubespawner is not installed here")
    monkeypatch.setattr("kubespawner.spawner.load_config", lambda **_: None)  # there is no cluster to look for
    from jupyter_gq.hub import options_form
    from jupyter_gq.hub.admission.admission import HeldShare
    from jupyter_gq.hub.mixin import GPUShareMixin

    class GQKube(GPUShareMixin, kubespawner.KubeSpawner):
        """What a later class of the product will be."""

    config = Config({"GPUShareMixin": {"service_url": "http://gq/"}, "KubeSpawner": {"image": "mine"}})
    spawner = GQKube(_mock=True, config=config)
    assert spawner.options_form is options_form.render_page
    assert spawner.image == "mine"
    limits = {"XLA_CLIENT_MEM_FRACTION": "0.2", "CUPY_GPU_MEMORY_LIMIT": "1000", "JUPYTER_GQ_MEMORY_FRACTION": "0.2"}
    spawner._share = HeldShare(ticket="nb-1", gpus="0.25", environment={"JUPYTER_GQ_GPUS": "0.25", **limits})
    spawner.environment = {"XLA_CLIENT_MEM_FRACTION": "0.9", "CUPY_GPU_MEMORY_LIMIT": "10%"}
    environment = spawner.get_env()
    assert environment["JUPYTER_GQ_URL"] == "http://gq/"
    assert (environment["XLA_CLIENT_MEM_FRACTION"], environment["CUPY_GPU_MEMORY_LIMIT"]) == ("0.2", "10%")
    assert environment["JUPYTER_GQ_TICKET"] == "nb-1"
    state = spawner.get_state()
    spawner.clear_state()
    assert spawner.get_state().get("jupyter_gq") is None
    spawner.load_state(state)
    assert spawner.get_state()["jupyter_gq"] == {"ticket": "nb-1", "gpus": "0.25"}
