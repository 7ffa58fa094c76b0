"""Jobs that have to end although nobody told them to, and what their nodes are made to answer for."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes import names
from jupyter_gq.backends.protocol import Outcome, Phase

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

GIVEN = {names.SLOTS: "n1/0", names.TASKS: "1"}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


async def settle():
    for _ in range(9):
        await asyncio.sleep(0)


async def a_job_of(paper, name="j", gpus="1", **pod):
    """A job that was launched on n1, whose pod is seen like that."""
    await paper.runs.observe()
    await paper.launch("job", name, "n1/0", gpus=gpus)
    await settle()
    given = {} if gpus == "0" else GIVEN
    paper.pod(f"job-{name}", "n1/0", **{"phase": "Pending", "annotations": given, **pod})
    return await paper.observed(f"job-{name}")


def closed(paper, name="n1"):
    return next(node.closed for node in paper.runs.nodes() if node.name == name)


@pytest.mark.parametrize(("gpus", "devices", "pauses"), [("1", 2, True), ("0", 2, False), ("0", 0, True)])
async def test_work_without_a_gpu_that_finds_no_place_keeps_no_gpus_from_others(paper, gpus, devices, pauses):
    """It pauses itself; only a node that has no GPU pauses with it."""
    paper.node("n1", devices={"nvidia.com/gpu": devices})
    await a_job_of(paper, gpus=gpus, node="", unschedulable="Insufficient cpu")
    paper.clock.at += 20
    await paper.observed("job-j")
    paper.no_pod("job-j")
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.REFUSED)
    assert "on n1 in 20 s: Insufficient cpu" in seen.sentence
    assert bool(closed(paper)) is pauses
