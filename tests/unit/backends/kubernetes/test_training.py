"""What is left of jobs in the cluster, and what is not."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.resources import SERVICES
from jupyter_gq.backends.kubernetes.objects.names import gang_name, training_name
from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.builders import a_job

from .paper import OPTIONS
from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


def a_gang():
    gang = a_job("gang", "vision", 1, id="job-gang", tasks=2, run=1)
    return replace(gang, placement=tuple(TaskPlacement(node="n1", devices=(f"n1/{index}",)) for index in range(2)))


async def test_a_gang_that_is_stopped_while_its_service_is_being_made_ends_when_that_is_known(paper):
    """What lands in the cluster after its run was swept up would be left there."""
    arrived, make = asyncio.Event(), paper.cluster.create

    async def slowly(resource, body):
        if resource is SERVICES:
            await arrived.wait()
        return await make(resource, body)

    paper.cluster.create = slowly
    await paper.runs.observe()
    await paper.runs.launch(Launch(workload=a_gang(), detail=WorkloadDetail(image="i")))
    for _ in range(9):
        await asyncio.sleep(0)
    await paper.runs.stop("job-gang", 1, 1)
    for task in range(2):
        paper.no_task("job-gang", task)
    assert (await paper.observed("job-gang")).phase is not Phase.ENDED, "its service may land yet"
    arrived.set()
    for _ in range(9):
        await asyncio.sleep(0)
    assert (await paper.observed("job-gang")).phase is Phase.ENDED
    await paper.runs.forget("job-gang", 1)
    for _ in range(9):
        await asyncio.sleep(0)
    assert gang_name("job-gang", 1) in paper.cluster.made
    assert gang_name("job-gang", 1) in paper.cluster.deleted
    await paper.observed("job-gang")
    assert not paper.runs.training._objects._writes._attempts, "nothing is kept of what is gone"


@pytest.mark.parametrize(("image", "expected"), [("torch:2.9", "torch:2.9"), ("", "runner:1")])
async def test_each_pod_of_a_run_has_the_image_of_the_record(image, expected):
    paper = PaperBackend(runner_image="runner:1")
    await paper.runs.observe()
    await paper.runs.launch(Launch(workload=a_gang(), detail=WorkloadDetail(image=image)))
    for _ in range(9):
        await asyncio.sleep(0)
    pods = [paper.cluster.bodies[training_name("job-gang", 1, task)] for task in range(2)]
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [expected, expected]
    await paper.close()


async def test_a_run_that_is_only_known_by_its_pods_is_not_seen_any_more_once_it_is_forgotten(paper):
    """The store may have ended it while the service was away."""
    paper.pod("job-old", "n1/0")
    await paper.runs.forget("job-old", 1)
    paper.clock.at += 60
    assert await paper.observed("job-old") is None
    assert paper.runs.training.blocked_slots() == {"n1/0"}, "its pod stands"


async def test_a_pod_that_terminates_holds_its_device_although_nobody_knows_its_run(paper):
    """Such as after a restart of the service: the run is not adopted, since the pod's work is not over."""
    paper.pod("job-old", "n1/0", terminating=True)
    assert await paper.observed("job-old") is None
    assert paper.runs.training.blocked_slots() == {"n1/0"}
    paper.no_pod("job-old")
    assert await paper.observed("job-old") is None
    assert paper.runs.training.blocked_slots() == set()


async def test_what_is_wanted_and_not_made_yet_leaves_less_room_for_others():
    paper = PaperBackend(starts_ahead=3)
    await paper.runs.observe()
    assert paper.runs.pace().left == 3
    await paper.runs.launch(Launch(workload=a_gang(), detail=WorkloadDetail(image="i")))
    await paper.launch("job", "found", "n1/0", state=State.RUNNING)
    assert paper.runs.pace().left == 1, "what runs already is only looked for"
    for _ in range(9):
        await asyncio.sleep(0)
    await paper.runs.observe()
    assert paper.runs.pace().left == 3, "its pods have been made"
    await paper.close()


async def test_what_ends_before_its_pods_were_made_leaves_room_at_once(paper):
    # Nothing is made before the first look.
    await paper.runs.launch(Launch(workload=a_gang(), detail=WorkloadDetail(image="i")))
    left = paper.runs.pace().left
    await paper.runs.stop("job-gang", 1, 1)
    assert paper.runs.pace().left == left + 2


@pytest.mark.parametrize(
    ("fields", "given_up_after", "outcome"),
    [
        ({"node": "", "unschedulable": "0/1 nodes are available."}, OPTIONS.unschedulable_after, Outcome.REFUSED),
        ({"waiting": "InvalidImageName"}, 0, Outcome.FAILED),
    ],
)
async def test_a_run_that_was_given_up_tells_of_its_pod_that_does_not_go(paper, fields, given_up_after, outcome):
    """Nobody asked it to stop, so its pod should have gone soon after the verdict."""
    await paper.runs.observe()
    await paper.launch("job", "stuck", "n1/0", gpus="1")
    paper.pod("job-stuck", "n1/0", phase="Pending", **fields)
    await paper.observed("job-stuck")
    paper.clock.at += given_up_after
    told = (await paper.observed("job-stuck")).sentence
    paper.pod("job-stuck", "n1/0", terminating=True, node="n1")
    paper.clock.at += OPTIONS.gang_grace + 59
    assert (await paper.observed("job-stuck")).sentence == told, "it may still go"
    paper.clock.at += 41
    assert (await paper.observed("job-stuck")).sentence == (
        "The pod gq-job-stuck-1-0 on n1 should have ended 100 s ago and still exists, so its devices are not free."
    )
    paper.no_pod("job-stuck")
    ended = await paper.observed("job-stuck")
    assert (ended.phase, ended.outcome) == (Phase.ENDED, outcome)
