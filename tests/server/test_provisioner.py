"""Kernels start through the provisioner of the share when the spawner makes it the default."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from jupyter_gq.client.kernel import STARTUP_FILE
from jupyter_gq.lab.provisioner import GQProvisioner
from tests.server.test_kernels import Kernel


@pytest.fixture
def default_provisioner(monkeypatch):
    """As in a server that a jupyter-gq spawner started."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    group = KernelProvisionerFactory.GROUP_NAME
    entry = EntryPoint("jupyter-gq", project["entry-points"][group]["jupyter-gq"], group)
    KernelProvisionerFactory.clear_instance()
    monkeypatch.setitem(KernelProvisionerFactory.provisioners, "jupyter-gq", entry)
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "jupyter-gq")
    yield
    KernelProvisionerFactory.clear_instance()


async def test_a_kernel_runs_behind_the_start_up_file_of_its_share(default_provisioner, on_hub, jp_serverapp):
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
