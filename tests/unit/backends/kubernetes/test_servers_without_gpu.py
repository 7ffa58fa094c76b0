"""Servers without a GPU: their pods are made before the service has admitted them, and say their ticket only."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

#: What the spawner gives the pod of such a server, and no more.
ITS_OWN = {"labels": {names.WORKLOAD: "nb-ann"}, "annotations": {}, "image": "lab:1", "node": "cpu-1"}
FULL = "0/9 nodes are available: 9 Insufficient memory."


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "cpu-1")
    yield made
    await made.close()


async def a_server(paper, *, pod_first):
    """It runs; its pod is seen before or after its ticket is admitted."""
    if pod_first:
        paper.pod("nb-ann", "n1/0", **ITS_OWN)
        await paper.runs.observe()
    notebook = await paper.launch("nb", "ann", "n1/0", gpus="0")
    if not pod_first:
        assert (await paper.observed("nb-ann")).phase is Phase.STARTING
        paper.pod("nb-ann", "n1/0", **ITS_OWN)
    return notebook


@pytest.mark.parametrize("pod_first", [True, False])
async def test_its_pod_is_that_of_its_ticket(paper, pod_first):
    await a_server(paper, pod_first=pod_first)
    assert (await paper.observed("nb-ann")).phase is Phase.RUNNING
    assert paper.runs.image_of("nb-ann") == "lab:1", "so jobs can be sent from it"
    for _ in range(5):
        paper.clock.at += 60
        assert (await paper.observed("nb-ann")).phase is Phase.RUNNING, "it was started, and is not given up"


@pytest.mark.parametrize("pod_first", [True, False])
async def test_its_end_is_seen(paper, pod_first):
    await a_server(paper, pod_first=pod_first)
    await paper.observed("nb-ann")
    paper.pod("nb-ann", "n1/0", disruption="EvictionByEvictionAPI", terminating=True)
    assert (await paper.observed("nb-ann")).phase is Phase.RUNNING
    paper.no_pod("nb-ann")
    seen = await paper.observed("nb-ann")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.LOST)
    assert seen.sentence.startswith("Somebody drained the node")


async def test_it_is_found_again_by_a_service_that_was_started_anew(paper):
    paper.pod("nb-ann", "n1/0", **ITS_OWN)
    await paper.launch("nb", "ann", "n1/0", State.RUNNING, gpus="0")
    assert (await paper.observed("nb-ann")).phase is Phase.RUNNING


async def test_it_may_run_anywhere_and_waits_for_a_place_as_long_as_its_spawner_does(paper):
    await paper.launch("nb", "ann", "n1/0", gpus="0")
    await paper.runs.observe()
    assert paper.runs.notebooks.pod_additions("nb-ann", 1).node is None, (
        "its ticket's node has GPUs, and may be closed to it"
    )
    paper.pod("nb-ann", "n1/0", **{**ITS_OWN, "node": ""}, phase="Pending", unschedulable=FULL)
    for _ in range(10):
        paper.clock.at += 30
        seen = await paper.observed("nb-ann")
        assert (seen.phase, seen.sentence) == (
            Phase.STARTING,
            f"The cluster does not place the pod gq-nb-ann-1-0 yet: {FULL}",
        )
    assert not paper.runs.cluster_nodes.back_off.until("n1"), "nobody asked that node"


async def test_one_that_sees_a_device_all_the_same_is_ended_through_the_hub(paper):
    await a_server(paper, pod_first=True)
    await paper.observed("nb-ann")
    for _ in range(2):
        paper.report(node="cpu-1", shares={"uid-nb-ann": {"visible": ["GPU-0"]}})
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"]
