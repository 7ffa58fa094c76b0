"""The GPU of an idle notebook is lent to a job of somebody else, and a cell brings it back, on a cluster.

The agent of the node does the moves. It is killed while the share is lent, and its successor brings the share back.
"""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.demo.story import get_notebook, run_alongside, wait_for_end_of_use
from tests.kubernetes.story_world import Installation, cells, in_thread
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

CONFIG = """
c.Pools.pools = {"build": {"nodes": {"jupyter-gq.org/pool": "build"}}}
c.Pools.build = c.Pools.train = "build"
c.IdlePolicy.suspend = True
c.IdlePolicy.after, c.IdlePolicy.warning, c.IdlePolicy.grace = 12, 6, 0
c.IdlePolicy.return_within = 10
"""
#: Holds most of the device until it is told to stop.
BORROWER = """
import time, jupyter_gq
jupyter_gq.simulate_memory(30_000)
while not jupyter_gq.should_stop():
    time.sleep(0.2)
"""
#: Keeps the share in use until there is a file.
UNTIL_SEEN = """
import pathlib, time
print(answer + 1)
while not pathlib.Path("seen.txt").exists():
    time.sleep(0.2)
"""


@pytest_asyncio.fixture
async def installed(control_plane, namespace_set, make_kubelet, tmp_path):
    agent = ["--NodeAgent.suspend=true", "--NodeAgent.journal=/var/lib/jupyter-gq"]
    made = Installation(control_plane, namespace_set, make_kubelet, tmp_path, config=CONFIG, agent=agent)
    try:
        await in_thread(made.start)
        await made.ready()
        yield made
    finally:
        await in_thread(made.end)


async def test_idle_notebook_lends_its_gpu_and_has_its_variables_when_the_next_cell_runs(installed):
    async with installed.person("ann") as ann, installed.person("bob") as bob:
        await eventually(lambda: _may_choose(ann, "0.5"), lambda: f"the device: {installed.story()}", 30)
        await asyncio.gather(ann.start_server("0.5"), bob.start_server("0"))
        kernel = await ann.start_kernel("model.ipynb")
        holds = "import jupyter_gq; jupyter_gq.simulate_memory(15_000); answer = 41"
        await wait_for_end_of_use(ann, ann.run_cell(kernel, holds))

        notebook = cells(BORROWER)
        await bob._lab("PUT", "api/contents/n.ipynb", {"type": "notebook", "content": notebook})
        bobs = await bob.start_kernel("n.ipynb")
        job = (await bob.send(notebook, "n.ipynb", bobs, "c0", name="borrower", queue="nlp", gpus="1"))["id"]
        lent = await _comes_to(installed, ann, "suspended")
        assert lent["suspension"]["memory_mib"] >= 15_000, "all that the kernel held"
        assert "bob's borrower" in lent["sentence"]
        running = await installed.job_is(bob, job, "running")
        assert running["run"] == 1
        (pod,) = installed.job_pods(job)
        variables = {each.name: each.value for each in pod.spec.containers[0].env}
        assert variables["NVIDIA_VISIBLE_DEVICES"] == "GPU-sim-story-build-0", "the device of the reservation"
        assert len(installed.reservations()) == 1

        (agent,) = [pod for pod in installed.pods("nodes", app="agent")]
        installed.nodes["build"].container(installed.spaces.nodes, agent.metadata.name).signal(9)
        installed.kill_service()
        installed.start_service()
        await installed.ready()
        assert (await get_notebook(ann))["phase"] == "suspended", "nobody brings it back by mistake"

        async with run_alongside(ann.run_cell(kernel, UNTIL_SEEN)) as cell:
            assert (await _comes_to(installed, ann, "running"))["suspension"] is None
            paused = await installed.job_is(bob, job, "paused")
            assert "ann" in paused["sentence"]
            await ann._lab("PUT", "api/contents/seen.txt", {"type": "file", "format": "text", "content": ""})
            assert await cell == "42\n"
        await ann.stop_server()
        await installed.job_is(bob, job, "running", run=2)


async def _comes_to(installed, person, phase):
    """The notebook of this person, once it is in that phase."""

    async def found():
        seen.update(await get_notebook(person))
        return seen["phase"] == phase

    seen: dict = {}
    await eventually(found, lambda: f"{phase}; it was {seen}; {installed.story()}", 60)
    return seen


async def _may_choose(person, gpus):
    choices = (await person.ask_service("GET", "me"))["choices"]
    return any(choice["gpus"] == gpus and choice["starts_now"] for choice in choices)
