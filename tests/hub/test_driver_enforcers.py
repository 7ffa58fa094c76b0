"""A notebook whose memory the driver limits, and one on a GPU that is shared by MPS.

Hub, service, servers, kernels and control groups are real. The libraries of the driver and the control program of MPS
are fakes; a kernel writes into the folder of the fake driver what it would hold on a GPU.
"""

import asyncio
import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.backends.control_groups import add_process, find_own_group
from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub, find_packaged_folder
from tests.driver_fakes import HERE, build, compiler
from tests.kept_logs import LOGS
from tests.patience import eventually
from tests.ports import claim_port

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler for the fake libraries of the driver"),
]

DEVICE = "GPU-00000000-0000-0000-0000-000000000001"
CONFIG = """
c = get_config()
load_subconfig({base!r})
c.SimulatedDevices.mode = "never"
c.Pools.pools = {{}}
c.Pools.build = c.Pools.train = ""
c.FixedQuota.default, c.FixedQuota.groups = "0.5", {{}}
c.TrainingQueues.queues = {{}}
for service in c.JupyterHub.services:
    service["environment"].update({environment!r})
"""
#: A cell that says who the kernel is, and holds 1000 MiB of the fake GPU.
HOLD = """
import json, os
open(f"{folder}/{{os.getpid()}}", "w").write(f"0 {{1000 << 20}} 0")
groups = [line.removeprefix("0::") for line in open("/proc/self/cgroup").read().splitlines() if line.startswith("0::")]
mps = {{name: value for name, value in os.environ.items() if name.startswith("CUDA_MPS")}}
print(json.dumps([os.getpid(), groups, mps]))
"""


@contextlib.asynccontextmanager
async def running_hub(*lines, users=("ann",), memory=40960):
    """Yield the URL of a hub with these settings and one GPU of a fake driver, with MiB of memory, and its folder."""
    folder = Path(tempfile.mkdtemp(prefix="gq-"))
    (driver := folder / "driver").mkdir()
    (driver / "devices").write_text(f"{DEVICE} {memory << 20}\n")
    libraries = build(driver)
    programs = folder / "bin"
    programs.mkdir()
    shutil.copy(HERE / "nvidia-cuda-mps-control", programs)
    environment = {"GQ_FAKE_DRIVER": str(driver), "LD_LIBRARY_PATH": str(libraries)}
    base = find_packaged_folder("hub_config") / "jupyterhub_config_local.py"
    config = folder / "jupyterhub_config.py"
    config.write_text(CONFIG.format(base=str(base), environment=environment) + "\n".join(lines).format(folder=folder))
    hub = DemoHub(folder=folder, port=claim_port(), config=config, users=users)
    LOGS.add("hub", folder, "jupyterhub.log")
    hub.start()
    try:
        await hub.wait_until_ready()
        yield hub.url, folder
    finally:
        await asyncio.shield(hub.stop())
        LOGS.release("hub", folder)
        shutil.rmtree(folder, ignore_errors=True)


async def hold(person, folder):
    """Let a kernel of half a GPU hold memory; return its id, its control groups and its variables of MPS."""
    await person.start_server("0.5")
    kernel = await person.start_kernel("digits.ipynb")
    return json.loads(await person.run_cell(kernel, HOLD.format(folder=folder / "driver")))


async def shown(person, level, sentence):
    """Wait until the notebook is shown with this level and with these words in its sentence."""
    seen = {}

    async def is_shown():
        (notebook,) = (await person.ask_extension("GET", "notebooks"))["notebooks"]
        seen.update(notebook)
        return notebook["enforcement"] == level and sentence in notebook["enforcement_sentence"]

    await eventually(is_shown, lambda: f"{seen}", seconds=60, every=0.5)


@pytest.mark.skipif(find_own_group() is None, reason="this process may not make control groups of version 2")
async def test_driver_limits_the_group_of_a_server_with_its_kernels_and_the_owner_sees_it():
    setting = "c.LocalBackend.driver_memory_limits = True"
    async with running_hub(setting) as (url, folder), Person(url, "ann") as ann:
        pid, groups, mps = await hold(ann, folder)
        (group,) = groups
        await shown(ann, "driver", "refuses memory above the limit")
        index, soft, hard, limited = (folder / "driver/limits").read_text().splitlines()[-1].split()
        assert (index, soft, int(hard), mps) == ("0", "0", 20480 << 20, {})
        assert limited.endswith(group)
        (other := Path(limited).parent / f"scope-{pid}").mkdir()
        add_process(str(other), pid)  # as `systemd-run --user --scope` does
        await shown(ann, "watched", f"(process {pid}) has left the control group")
        add_process(limited, pid)
        other.rmdir()
        (folder / "driver/unlimited").touch()
        await shown(ann, "watched", "does not limit the memory of this GPU")
        await ann.stop_server()
        await eventually(lambda: not Path(limited).exists(), "the end of the group", seconds=60)


async def test_program_on_a_gpu_of_mps_is_shown_as_its_client_only_while_it_is_one():
    settings = (f'c.LocalBackend.mps_devices = ["{DEVICE}"]', 'c.LocalBackend.mps_dir = "{folder}/mps"')
    program = 'import os; os.environ["PATH"] = "{folder}/bin" + os.pathsep + os.environ["PATH"]'
    async with running_hub(*settings, program) as (url, folder), Person(url, "ann") as ann:
        pid, _, mps = await hold(ann, folder)
        assert mps == {
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "mps/pipe"),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{DEVICE}=20480M",
        }
        assert (folder / "mps/pipe/starts").read_text().startswith(f"{DEVICE} -d")
        await shown(ann, "watched", "outside MPS")
        (folder / "driver/mps").write_text(f"{pid}\n")
        await shown(ann, "mps", "of each program")
        (folder / "mps/pipe/daemon").unlink()
        await eventually(lambda: (folder / "mps/pipe/daemon").exists(), "the next daemon", seconds=60)
