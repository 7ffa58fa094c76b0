"""Somebody sets the clock of the machine: what is counted in seconds does not change, what people read does."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

RESERVED = reservation_name("n1/0")
GIVEN = [("nodes", RESERVED, "GPU-0")]
HOUR = 3600


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_nothing_is_ended_or_kept_from_work_when_the_clock_is_set(paper, jump):
    running, awaited = await paper.launch("nb", "ann", "n1/0", State.RUNNING), await paper.launch("nb", "bob", "n1/0")
    job = await paper.launch("job", "trains", "n1/0")
    uids = {paper.pod("nb-ann", "n1/0", "GPU-0"), paper.pod("job-trains", "n1/0", "GPU-0")}
    paper.reservation("n1/0")
    shares = {uid: {"visible": ["GPU-0"], "memory_mib": 7} for uid in uids}
    paper.report(given=GIVEN, shares=shares)
    await paper.runs.observe()
    paper.node(ready=False)
    await paper.runs.observe()
    began = (await paper.observed(job.id)).since
    assert began == paper.day.at

    paper.day.at += jump
    seen = {each.workload: each for each in await paper.runs.observe()}
    assert [seen[each.id].phase for each in (running, awaited, job)] == [Phase.RUNNING, Phase.STARTING, Phase.RUNNING]
    assert paper.runs.find_uses([job.id]).get(job.id).memory == 7, "its agent has not been silent"
    assert paper.runs.agents.unfit("n1") == ""
    assert seen[job.id].since == began
    await asyncio.sleep(0)
    assert (paper.cluster.deleted, paper.hub.asked) == ([], [])

    paper.clock.at += 61
    ended = await paper.observed(job.id)
    assert (ended.outcome, ended.since) == (Outcome.LOST, paper.day.at)


async def test_a_slot_is_free_again_although_the_clock_was_set_back(paper):
    job = await paper.launch("job", "trains", "n1/0")
    paper.pod(job.id, "n1/0", "GPU-0")
    paper.reservation("n1/0")
    paper.report(given=GIVEN)
    await paper.runs.observe()
    paper.no_pod(job.id)
    await paper.runs.forget(job.id, 1)
    paper.no_reservation("n1/0")
    paper.day.at -= HOUR
    paper.clock.at += 5
    paper.report(given=[])
    assert paper.runs.reservation_pods.free("n1/0")
