"""A notebook that holds more memory than its share is warned, and then loses the program that holds most.

Hub, service, servers and kernels are real; the GPU is simulated.
"""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub, find_packaged_folder
from tests.kept_logs import LOGS
from tests.patience import eventually
from tests.ports import claim_port
from tests.replaced_files import write_at_once

pytestmark = pytest.mark.asyncio

#: The watchdog takes its next step only once the test has seen the one before, and sets a shorter time.
CONFIG = """
c = get_config()
load_subconfig({base!r})
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "1x A100-40GB"
c.Pools.pools = {{}}
c.Pools.build = c.Pools.train = ""
c.Pools.interrupt_after = c.Pools.end_after = 3600
c.FixedQuota.default, c.FixedQuota.groups = "0.5", {{}}
c.TrainingQueues.queues = {{}}
"""
#: A cell that survives the interrupt and keeps its memory.
STUBBORN = """
import time, jupyter_gq
jupyter_gq.simulate_memory(22528)
try:
    time.sleep(3600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(3600)
"""


@contextlib.asynccontextmanager
async def running_hub():
    """Yield the URL and the configuration of a hub with one GPU whose shares are watched; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="gq-memory-"))
    config = folder / "jupyterhub_config.py"
    config.write_text(CONFIG.format(base=str(find_packaged_folder("hub_config") / "jupyterhub_config_local.py")))
    hub = DemoHub(folder=folder, port=claim_port(), config=config, users=("ann", "bob"))
    LOGS.add("hub", folder, "jupyterhub.log")
    hub.start()
    try:
        await hub.wait_until_ready()
        yield hub.url, config
    finally:
        await asyncio.shield(hub.stop())
        LOGS.release("hub", folder)
        shutil.rmtree(folder, ignore_errors=True)


async def test_only_the_program_that_holds_too_much_is_ended_and_its_owner_knows_why():
    async with running_hub() as (url, config), Person(url, "ann") as ann, Person(url, "bob") as bob:
        await asyncio.gather(ann.start_server("0.5"), bob.start_server("0.5"))
        greedy, modest = await ann.start_kernel("greedy.ipynb"), await ann.start_kernel("modest.ipynb")
        others = await bob.start_kernel("digits.ipynb")
        held = "import os, jupyter_gq\njupyter_gq.simulate_memory({})\nprint(os.getpid())"
        await ann.run_cell(modest, held.format(100))
        await bob.run_cell(others, held.format(20_000))
        running = asyncio.create_task(ann.run_cell(greedy, STUBBORN))
        told = []

        async def comes_to(**wanted):
            """Wait until the last step, or the next one, is this one; remember both sentences of the notebook."""

            async def is_there():
                (notebook,) = (await ann.ask_extension("GET", "notebooks"))["notebooks"]
                excess = notebook["over_limit"]
                if excess is not None:
                    told.append((excess["sentence"], notebook["sentence"]))
                return excess is not None and wanted.items() <= excess.items()

            await eventually(is_there, lambda: f"{wanted}: {told[-3:]}", seconds=180, every=0.5)

        await comes_to(done="warn")
        write_at_once(config, f"{config.read_text()}c.Pools.interrupt_after = 1\n")
        await comes_to(done="interrupt")
        write_at_once(config, f"{config.read_text()}c.Pools.end_after = 1\n")
        await comes_to(next=None)
        assert "hold 22628 MiB of GPU memory, 2148 MiB more than the limit of 20 GiB" in told[0][0]
        assert "because the share held 22628 MiB" in told[-1][1]
        running.cancel()  # a kernel that was ended says nothing more of its cell
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await running

        assert await ann.run_cell(modest, "print('alive')") == "alive\n"
        assert await bob.run_cell(others, "print('alive')") == "alive\n"
        (theirs,) = (await bob.ask_extension("GET", "notebooks"))["notebooks"]
        assert (theirs["over_limit"], theirs["enforcement"]) == (None, "watched")
