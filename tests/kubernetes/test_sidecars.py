"""Jobs with sidecars, from sending to the result: API server, scheduler, kubelet, and runners as real processes."""

import pytest
import pytest_asyncio

from tests.kubernetes.job_world import a_service
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

NODE = "gpu-beside"
MESH = {
    "name": "mesh",
    "image": "example.org/mesh:1",
    "command": ["sleep", "infinity"],
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


@pytest_asyncio.fixture(params=["sidecar", "native sidecar", "sidecar without image"])
async def installed(control_plane, installation, node, tmp_path, request):
    """A service whose jobs have a sidecar that never ends."""
    beside = {
        "sidecar": {"containers": [MESH]},
        "native sidecar": {"initContainers": [{**MESH, "restartPolicy": "Always"}]},
        "sidecar without image": {"containers": [{**MESH, "image": "missing/mesh"}]},
    }
    async with a_service(control_plane, installation, tmp_path, pod_overrides={"spec": beside[request.param]}) as made:
        yield made


async def test_a_job_ends_with_its_runner_and_the_next_one_gets_the_gpu(installed, tmp_path):
    jobs = [installed.send(f"{number}", tmp_path / "home", gpus="2") for number in range(2)]
    for job in jobs:
        await installed.phase(job, "done")
    await eventually(lambda: not installed.world.pods(), "their pods are gone")
