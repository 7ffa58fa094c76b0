"""The share of an idle notebook is lent to another user's job, and a cell brings it back.

Hub, service, servers, kernels and jobs are real; the GPU is simulated.
"""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub, find_packaged_folder
from jupyter_gq.demo.story import run_alongside
from tests.kept_logs import LOGS
from tests.patience import eventually
from tests.ports import claim_port

pytestmark = pytest.mark.asyncio

#: One GPU for notebooks and training. A notebook is idle after seconds.
CONFIG = """
c = get_config()
load_subconfig({base!r})
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "1x A100-40GB"
c.Pools.pools = {{}}
c.Pools.build = c.Pools.train = ""
c.FixedQuota.default, c.FixedQuota.groups = "1", {{}}
c.TrainingQueues.queues = {{"nlp": {{"quota": "1", "groups": ["nlp"]}}}}
c.IdlePolicy.after, c.IdlePolicy.warning, c.IdlePolicy.grace = 8, 3, 0
"""
#: A cell that needs a variable and the share, and keeps the notebook in use until there is a file.
USES = """
print(x + 1)
import os, time
while not os.path.exists({seen!r}):
    time.sleep(0.1)
"""
TRAINING = "import time\nprint('begun', flush=True)\ntime.sleep(3600)"
ENDLESS = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "cells": [
        {
            "cell_type": "code",
            "id": "train",
            "metadata": {},
            "source": TRAINING,
            "outputs": [],
            "execution_count": None,
        }
    ],
}


@contextlib.asynccontextmanager
async def running_hub():
    """Yield the URL of a hub whose notebooks are idle after seconds; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gq-lending-"))
    config = folder / "jupyterhub_config.py"
    base = find_packaged_folder("hub_config") / "jupyterhub_config_local.py"
    config.write_text(CONFIG.format(base=str(base)))
    hub = DemoHub(folder=folder, port=claim_port(), config=config, users=("ann", "bob"))
    LOGS.add("hub", folder, "jupyterhub.log", "state/jobs/*/runs/*/*/log")
    hub.start()
    try:
        await hub.wait_until_ready()
        yield hub.url
    finally:
        await asyncio.shield(hub.stop())
        LOGS.release("hub", folder)
        shutil.rmtree(folder, ignore_errors=True)


async def share_of(person):
    """Return the view of the user's notebook that has a share."""
    (found,) = (await person.ask_extension("GET", "notebooks"))["notebooks"]
    return found


async def test_a_cell_brings_a_lent_share_back_and_the_borrower_goes_on_afterwards(tmp_path):
    async with running_hub() as url, Person(url, "ann") as ann, Person(url, "bob") as bob:
        await asyncio.gather(ann.start_server("1"), bob.start_server("0"))
        kernel = await ann.start_kernel("digits.ipynb")
        await ann.run_cell(kernel, "x = 41\nimport jupyter_gq\njupyter_gq.simulate_memory(4000)")

        job = await bob.send(
            ENDLESS, "digits.ipynb", await bob.start_kernel("digits.ipynb"), "train", queue="nlp", gpus="1"
        )

        async def phases():
            return (await share_of(ann))["phase"], (await bob.job(job["id"]))["phase"]

        async def are(of_notebook, *of_job):
            async def reached():
                notebook, job = await phases()
                return notebook == of_notebook and job in of_job

            await eventually(reached, lambda: f"{of_notebook}, {of_job}", seconds=180, every=0.3)

        await are("suspended", "running")
        assert "bob" in (await share_of(ann))["suspension"]["sentence"]

        seen = tmp_path / "seen"
        async with run_alongside(ann.run_cell(kernel, USES.format(seen=str(seen)))) as cell:
            await are("running", "paused", "pausing")
            seen.touch()
            assert await cell == "42\n", "the variable is there, and the cell ran after its wait"

        # Ann is idle again.
        await are("suspended", "running")
