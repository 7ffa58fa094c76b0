"""Kernels start through the provisioner of the share when the spawner makes it the default."""

import asyncio
import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from jupyter_gq.client.environment.kernel import STARTUP_FILE
from jupyter_gq.client.pods.device_check import CHOSEN, DEVICES_GIVEN_VARIABLE, NAMED, CheckTimeouts
from jupyter_gq.lab.kernels import device_check
from jupyter_gq.lab.kernels.device_check import DeviceGate
from jupyter_gq.lab.provisioner import GQProvisioner
from tests.server.service import ServiceIsDown
from tests.server.test_kernels import Kernel


@pytest.fixture
def default_provisioner(monkeypatch):
    """Set the variable that a jupyter-gq spawner sets for its servers."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    group = KernelProvisionerFactory.GROUP_NAME
    entry = EntryPoint("jupyter-gq", project["entry-points"][group]["jupyter-gq"], group)
    KernelProvisionerFactory.clear_instance()
    monkeypatch.setitem(KernelProvisionerFactory.provisioners, "jupyter-gq", entry)
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "jupyter-gq")
    yield
    KernelProvisionerFactory.clear_instance()


async def test_kernel_runs_the_startup_file_of_its_share(default_provisioner, on_hub, jp_serverapp):
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        provisioner = jp_serverapp.kernel_manager.get_kernel(kernel.id).provisioner
        assert isinstance(provisioner, GQProvisioner)
        assert str(STARTUP_FILE) in provisioner.process.args
        reply = await kernel.run("assert 1 + 1 == 2")
        assert reply["content"]["status"] == "ok"
    finally:
        await kernel.stop()


#: Seconds: less than at work.
SOON = CheckTimeouts(wait=0.4, longest=0.8)
TICKET = ("GET", "tickets/nb-1/devices")


def checked(result, sentence="", *, required=True):
    return 200, {"result": result, "required": required, "sentence": sentence}


@pytest.fixture
def in_pod(monkeypatch, on_hub, default_provisioner):
    """Make this server a pod with a share of a GPU."""
    monkeypatch.setenv("JUPYTER_GQ_TICKET", "nb-1")
    monkeypatch.setenv(DEVICES_GIVEN_VARIABLE, NAMED)
    monkeypatch.setattr(GQProvisioner, "device_gate", DeviceGate())
    monkeypatch.setattr(GQProvisioner, "devices_wait", SOON.wait)
    monkeypatch.setattr(GQProvisioner, "devices_longest", SOON.longest)
    monkeypatch.setattr(device_check, "PAUSE", 0.05)


@pytest.fixture
def begin(jp_asyncio_loop, jp_fetch, jp_serverapp):
    """Return a function that starts a kernel as a page does, and returns status and message."""

    async def ask():
        body = json.dumps({"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"name": "python3"}})
        answer = await jp_fetch("api", "sessions", method="POST", body=body, raise_error=False)
        return answer.code, json.loads(answer.body).get("message")

    yield ask
    kernels = jp_serverapp.kernel_manager
    # jupyter_client counts a kernel that did not start as one that is about to, and cannot end it.
    kernels._pending_kernels.clear()
    jp_asyncio_loop.run_until_complete(kernels.shutdown_all(now=True))


def asked(service):
    """Return the number of requests for the device check."""
    return sum(path.startswith("tickets/") for _, path in service.asked)


async def test_first_kernel_of_a_pod_waits_for_the_device_check(in_pod, service, begin, jp_serverapp, until):
    service.answers[TICKET] = checked("UNCHECKED", "No agent has checked it yet.")
    GQProvisioner.devices_longest = 60.0
    waiting = asyncio.create_task(begin())
    await until(lambda: asked(service) > 1, "the server asks again")
    assert not waiting.done()
    assert jp_serverapp.kernel_manager.list_kernel_ids() == []
    service.answers[TICKET] = checked("RIGHT")
    assert (await waiting)[0] == 201
    before = asked(service)
    (kernel,) = jp_serverapp.kernel_manager.list_kernel_ids()
    await jp_serverapp.kernel_manager.restart_kernel(kernel)
    assert asked(service) == before, "what a container can open does not change"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (checked("WRONG", "DEVICE_MISMATCH: it sees others."), "DEVICE_MISMATCH: it sees others."),
        (
            checked("UNWATCHED", "The agent is silent."),
            "nobody checked them within 1 s: The agent is silent. Start the kernel again",
        ),
        ((503, {"code": "not_leading", "message": "Another leads."}), "nobody checked them within 1 s: Another leads."),
    ],
)
async def test_kernel_that_must_not_start_is_refused_with_a_sentence_and_leaves_nothing(
    in_pod, service, begin, jp_serverapp, answer, told
):
    service.answers[TICKET] = answer
    status, message = await begin()
    assert status == 500, "Jupyter's own answer for a kernel that did not start"
    assert told in " ".join(message.split())
    assert max(map(len, message.splitlines())) <= 90, "JupyterLab cuts off what is longer"
    assert jp_serverapp.kernel_manager.list_kernel_ids() == []


async def test_kernel_may_be_started_again_after_a_missing_check(in_pod, service, begin):
    service.answers[TICKET] = checked("UNWATCHED", "The agent is silent.")
    assert (await begin())[0] == 500
    service.answers[TICKET] = checked("RIGHT")
    assert (await begin())[0] == 201


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (NAMED, checked("UNCLEAR", "The driver does not tell.")),
        (NAMED, (404, {"code": "not_found", "message": "There is no ticket 'nb-1'."})),
        (CHOSEN, checked("UNCHECKED", "No agent has checked it.", required=False)),
        (CHOSEN, (503, {"code": "not_leading", "message": "Another leads."})),
    ],
)
async def test_kernels_start_if_the_check_is_impossible_or_not_required(
    monkeypatch, in_pod, service, begin, given, answer
):
    monkeypatch.setenv(DEVICES_GIVEN_VARIABLE, given)
    service.answers[TICKET] = answer
    assert (await begin())[0] == 201


async def test_server_outside_of_a_pod_does_not_ask_for_the_check(monkeypatch, in_pod, service, begin):
    monkeypatch.delenv(DEVICES_GIVEN_VARIABLE)
    assert (await begin())[0] == 201
    assert asked(service) == 0


class TestWhileTheServiceIsDown:
    @pytest.fixture
    def kind_of_service(self):
        return ServiceIsDown

    async def test_no_kernel_starts_on_an_unchecked_share(self, in_pod, begin):
        status, message = await begin()
        assert status == 500
        assert "does not answer" in message
