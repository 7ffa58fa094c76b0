"""Jobs that name GPU memory in place of a fraction, on nodes whose GPUs have different amounts of it."""

import pytest
import pytest_asyncio
from traitlets.config import Config

from jupyter_gq.client.models import JobChange
from jupyter_gq.domain.errors import NeverFits
from tests.kubernetes.agent_world import an_agent, run
from tests.kubernetes.job_world import ANN, CONFIG, a_service
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

#: The GPUs of each node: 40 GiB, and 81,559 MiB.
NODES = {"memory-small": "1x A100-40GB", "memory-large": "1x H100-80GB"}
#: What GPU feature discovery tells of one of the nodes.
LABELS = {"memory-large": {"nvidia.com/gpu.product": "H100-80GB", "nvidia.com/gpu.memory": "81559"}}
#: Says its part of the GPU and its memory, and runs until there is a file of that name.
WAITS = """
import os, time
print(os.environ["JUPYTER_GQ_GPUS"], os.environ["JUPYTER_GQ_MEMORY_MIB"], flush=True)
while not os.path.exists({file!r}):
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def nodes(make_kubelet):
    return {name: make_kubelet(name, gpus=1, labels=LABELS.get(name, {})) for name in NODES}


@pytest_asyncio.fixture
async def installed(control_plane, installation, nodes, tmp_path):
    queues = Config(TrainingQueues={"queues": {"vision": {"quota": "2", "groups": ["vision"]}}})
    async with a_service(control_plane, installation, tmp_path, devices=2, config=Config(CONFIG, **queues)) as made:
        yield made


async def test_a_job_gets_the_part_of_a_gpu_that_has_the_memory_it_names(control_plane, installed, tmp_path):
    """The memory of a GPU is known from the labels of its node, or else from the agent there."""
    go, spaces = tmp_path / "go", installed.world.namespaces

    def send(memory, **fields):
        return installed.send(WAITS.format(file=str(go)), tmp_path / "home", gpu_memory=memory, **fields)

    def memory_of_nodes():
        return sorted(device.memory_mib for device in installed.controller.overview.list_devices(ANN).devices)

    with pytest.raises(NeverFits, match="the memory of the GPUs of the pool train is not known"):
        send("12 GB", gpu_model="GPU")
    large = send("60 GB")
    assert installed.job(large).gpus == "0.76"
    for name, devices in NODES.items():
        await run(control_plane, spaces.nodes, an_agent(f"agent-{name}", installed.url, name, devices))
    await eventually(lambda: memory_of_nodes() == [40_960, 81_559], lambda: f"the memory: {memory_of_nodes()}")
    with pytest.raises(NeverFits, match=r"the largest GPU has 79\.64 GiB\. Ask for 79\.64 GiB or less"):
        send("90 GB")

    small = send("12 GB", gpu_model="A100-40GB")
    for job in (small, large):
        await installed.phase(job, "running")
    shown = [installed.job(job) for job in (small, large)]
    assert [(job.gpu_memory, job.gpus, job.node) for job in shown] == [
        ("12 GiB", "0.3", "memory-small"),
        ("60 GiB", "0.76", "memory-large"),
    ]
    await eventually(lambda: installed.text(small) and installed.text(large), "they say what they have")
    assert (installed.text(small), installed.text(large)) == ("0.3 12288\n", "0.76 61984\n")

    waits = send("30 GB")
    assert installed.job(waits).phase == "waiting", "0.75 of the smaller GPU, of which 0.7 are left"
    await installed.stop()
    await installed.start()
    await eventually(lambda: memory_of_nodes() == [40_960, 81_559], "the agents are heard again")
    changed = installed.controller.job_changes.change(ANN, waits, JobChange(gpu_memory="24 GB"))
    assert (changed.gpus, changed.gpu_memory) == ("0.6", "24 GiB")
    await installed.phase(waits, "running")
    assert installed.job(waits).node == "memory-small"
    assert [installed.job(job).run for job in (small, large, waits)] == [1, 1, 1], "they ran on meanwhile"
    go.touch()
    for job in (small, large, waits):
        await installed.phase(job, "done")
