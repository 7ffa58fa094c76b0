"""Nodes come and go by the thousand where a cluster scales itself: what is remembered of them goes, too."""

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def test_of_a_node_that_is_gone_and_that_nobody_names_nothing_is_kept(paper):
    nodes, agents = paper.runs.cluster_nodes, paper.runs.agents
    for number in range(20):
        name = f"auto-{number}"
        paper.node(name)
        job = await paper.launch("job", name, f"{name}/0")
        uid = paper.pod(job.id, f"{name}/0", "GPU-0")
        paper.report(name, shares={uid: {"visible": ["GPU-0"], "memory_mib": 7}})
        nodes.back_off.add(name, "It did not do it.")
        nodes.mistrust.add(name, "It showed too much.")
        await paper.runs.observe()
        paper.no_node(name)
        paper.no_pod(job.id)
        await paper.observed(job.id)
        await paper.runs.forget(job.id, 1)
        await paper.runs.observe()
        paper.report(name)  # a last word that was on its way
    assert not nodes.is_any_away([f"auto-{number}" for number in range(20)])
    assert nodes._away == {}
    assert set(nodes._most) == {"n1"}
    assert set(agents._reports) | set(agents._uses) == set()
    assert nodes.back_off._pauses == nodes.mistrust._pauses == {}


async def test_a_node_that_is_gone_is_remembered_while_a_pod_names_it(paper):
    paper.node("auto")
    job = await paper.launch("job", "trains", "auto/0")
    paper.pod(job.id, "auto/0", "GPU-0")
    assert (await paper.observed(job.id)).phase is Phase.RUNNING
    paper.no_node("auto")
    for _ in range(6):
        assert (await paper.observed(job.id)).phase is Phase.RUNNING
        paper.clock.at += 10
    ended = await paper.observed(job.id)
    assert (ended.outcome, ended.sentence) == (Outcome.LOST, "The node auto is gone.")


@pytest.mark.parametrize("kind", ["job", "nb"])
async def test_what_runs_on_a_node_that_went_while_no_service_looked_is_lost(paper, kind):
    left = await paper.launch(kind, "left", "went/0", State.RUNNING)
    paper.pod(left.id, "went/0", "GPU-0")
    assert (await paper.observed(left.id)).phase is Phase.RUNNING
    paper.clock.at += 61
    assert (await paper.observed(left.id)).sentence == "The node went is gone."


@pytest.mark.parametrize("kind", ["job", "nb"])
async def test_only_what_runs_on_a_node_that_is_away_is_examined_again(paper, kind):
    paper.node("n2")
    first, second = [await paper.launch(kind, name, f"{name}/0", State.RUNNING) for name in ("n1", "n2")]
    paper.pod(first.id, "n1/0", "GPU-0")
    paper.pod(second.id, "n2/0", "GPU-0")
    before = [await paper.observed(each.id) for each in (first, second)]
    paper.node("cpu", ready=False, devices={})
    paper.node("n2", ready=False)
    after = [await paper.observed(each.id) for each in (first, second)]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False]
    paper.clock.at += 61
    assert (await paper.observed(first.id)).phase is Phase.RUNNING
    assert "n2 has not answered" in (await paper.observed(second.id)).sentence
