"""Tests that a run whose pod is malformed is set aside alone: it keeps its devices, and all other runs go on."""

import logging

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Phase

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


@pytest.mark.parametrize("kind", ["nb", "job"])
async def test_a_malformed_pod_stops_the_step_of_no_other_run(paper, kind, caplog):
    await paper.observed("")
    for name, slot in (("bad", "n1/0"), ("good", "n1/1")):
        await paper.launch(kind, name, slot)
        paper.reservation(slot)
        paper.pod(f"{kind}-{name}", slot)
    paper.pod(f"{kind}-bad", "n1/0", phase="Failed", ended="not an end")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            seen = {each.workload: each for each in await paper.runs.observe()}
    assert seen[f"{kind}-good"].phase is Phase.RUNNING
    bad = seen[f"{kind}-bad"]
    assert bad.phase is not Phase.ENDED, "its devices are not given to others"
    assert "cannot be observed" in bad.sentence
    named = [record for record in caplog.records if f"{kind}-bad" in record.getMessage()]
    assert len(named) == 1, "the same failure is logged once"
