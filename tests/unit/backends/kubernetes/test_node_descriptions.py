"""Administrators are told what each node with GPUs can do, as its agent told last."""

import pytest
import pytest_asyncio

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

MIG = {"name": "MIG", "state": "off", "found": "No GPU is partitioned."}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


def described(paper):
    return {each.node: each for each in paper.runs.capabilities.agent_reports.describe_nodes()}


async def test_node_is_described_by_the_last_report_of_its_agent(paper):
    paper.report("n1", release="1.2", abilities=[MIG], missing={"signal": "It may not."})
    n1, n2 = described(paper).values()
    assert (n1.agent, n1.release, n1.gpus, n1.obstacle) == ("reporting", "1.2", 2, "")
    assert [each.model_dump() for each in n1.abilities] == [{**MIG, "advice": ""}]
    assert n1.missing == {"signal": "It may not."}
    assert (n2.node, n2.agent, n2.age, n2.abilities) == ("n2", "unheard", None, None)
    assert "has not reported yet" in n2.obstacle


async def test_agent_of_an_older_release_has_no_release_and_no_abilities(paper):
    paper.report("n1")
    found = described(paper)["n1"]
    assert (found.agent, found.release, found.abilities) == ("reporting", "", None)


async def test_agent_that_reports_no_more_is_silent(paper):
    paper.report("n1", release="1.2", abilities=[MIG])
    paper.clock.at += 1000
    found = described(paper)["n1"]
    assert (found.agent, found.age) == ("silent", 1000)
    assert "silent" in found.obstacle


async def test_node_that_is_gone_or_in_no_pool_is_left_out(paper):
    paper.report("n1", release="1.2", abilities=[MIG])
    paper.no_node("n1")
    assert list(described(paper)) == ["n2"]
