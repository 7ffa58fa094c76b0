"""Where somebody else hands out the shares: devices in the hands of others, and how strongly shares are enforced."""

import pytest
import pytest_asyncio

from jupyter_gq.domain.pod_pool import Provider
from jupyter_gq.domain.share_level import ShareLevel

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def backend():
    made = []

    def make(**pool):
        made.append(PaperBackend(pool=pool))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def free(paper):
    """The numbers of the slots that take something new."""
    paper.runs._is_stale = True
    await paper.runs.observe()
    (node,) = paper.runs.nodes()
    return [device.index for device in node.devices if device.healthy]


async def test_what_kai_holds_for_a_share_of_ours_is_not_taken_from_us_once_more(backend):
    paper = backend(provider=Provider.KAI)
    paper.node("n1", devices={"nvidia.com/gpu": 3})
    held = ("kai-resource-reservation", "gpu-reservation-n1-x", "GPU-0")
    await paper.launch("job", "a", "n1/0")
    paper.report(given=[held])
    assert await free(paper) == [0, 1], "its pod is not there yet, so KAI holds nothing for it"
    paper.pod("job-a", "n1/0")
    await paper.launch("job", "b", "n1/0")
    assert await free(paper) == [0, 1, 2]
    paper.report(given=[held, ("other", "theirs", "GPU-1")])
    assert await free(paper) == [0, 1], "theirs counts"
    paper.pod("job-a", "n1/0", phase="Succeeded")
    assert await free(paper) == [0], "what KAI holds now, it holds for somebody else"


async def test_whole_devices_of_ours_hide_nobody(backend):
    paper = backend(provider=Provider.KAI)
    await paper.launch("job", "a", "n1/0", gpus="1")
    paper.pod("job-a", "n1/0")
    paper.report(given=[("train", "gq-job-a-1-0", "GPU-0"), ("other", "theirs", "GPU-1")])
    assert await free(paper) == [0]


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        ([], [0, 1]),
        ([("other", "p", "GPU-0-3")], [0]),
        ([("other", "p", "GPU-0-3"), ("other", "q", "GPU-0-4")], [0]),
        ([("other", "p", "GPU-0-3"), ("other", "p", "GPU-0-4")], []),
        ([("other", "p", "GPU-0-3"), ("other", "q", "GPU-1-0")], []),
        ([("train", "ours", "GPU-0-3")], [0, 1]),
        ([("train", "ours", "GPU-0-3"), ("other", "ended", "GPU-0-3")], [0, 1]),
    ],
)
async def test_hami_gives_parts_of_devices_to_others_too(backend, given, takes):
    paper = backend(provider=Provider.HAMI)
    paper.node("n1", devices={"nvidia.com/gpu": 20})
    paper.report(given=given)
    assert await free(paper) == takes


@pytest.mark.parametrize(
    ("provider", "level"), [("reservation", None), ("hami", ShareLevel.INTERCEPT), ("kai", ShareLevel.ADVISORY)]
)
async def test_who_hands_out_the_shares_of_a_pool_says_how_strongly_they_are_enforced(backend, provider, level):
    paper = backend(provider=Provider(provider))
    assert paper.runs.enforcement("p") == level
    assert paper.runs.enforcement("another") is None
