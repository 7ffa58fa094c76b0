"""How notebooks end, and what their owners are told."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

WRONG = {"visible": ["GPU-0", "GPU-1"]}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def a_server(paper):
    """A notebook that runs on a share of GPU-0."""
    notebook = await paper.launch("nb", "ann", "n1/0", State.RUNNING)
    paper.reservation("n1/0")
    uid = paper.pod(notebook.id, "n1/0", "GPU-0")
    assert (await paper.observed(notebook.id)).phase is Phase.RUNNING
    return notebook, uid


def healthy(paper):
    return [device.healthy for node in paper.runs.nodes() for device in node.devices]


async def test_one_that_sees_devices_of_others_ends_with_the_reason_and_its_node_pauses(paper):
    notebook, uid = await a_server(paper)
    for _ in range(2):
        paper.report(shares={uid: WRONG})
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"], "it ends through the Hub"
    await paper.observed(notebook.id)
    assert healthy(paper) == [False, False]
    assert "did not see just its own devices" in paper.runs.nodes()[0].closed
    await paper.runs.release(notebook.id, 1)
    paper.no_pod(notebook.id)
    seen = await paper.observed(notebook.id)
    assert (seen.phase, seen.outcome, seen.sentence.partition(":")[0]) == (
        Phase.ENDED,
        Outcome.FAILED,
        "DEVICE_MISMATCH",
    )


async def test_a_node_where_pods_see_devices_of_others_pauses_for_longer_each_time_though_others_start(paper):
    pauses = []
    for name in ("job-a", "job-b"):
        await paper.launch("job", name.partition("-")[2], "n1/0")
        uid = paper.pod(name, "n1/0", "GPU-0")
        await paper.observed(name)
        for _ in range(2):
            paper.report(shares={uid: WRONG})
        began = paper.clock.at
        while paper.runs.cluster_nodes.mistrust.until("n1"):
            paper.clock.at += 5
        pauses.append(paper.clock.at - began)
    assert pauses == [20, 40]
