"""More could start than a backend can begin soon: the rest stays in its queues, in order, and reads why."""

import pytest

from jupyter_gq.controller.pacing import SOON
from tests.fakes import FakeBackend, a_node

from .world import ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio


class BeginsAFewAtATime(FakeBackend):
    """`left`: so many tasks it could begin now."""

    left = 2

    def launches_left(self):
        return self.left


@pytest.fixture
def world(tmp_path):
    pools = {"build": {"devices": 1}, "train": {"devices": 7}}
    queues = {"vision": {"quota": 4, "groups": ["vision"]}, "nlp": {"quota": 3, "groups": ["nlp"]}}
    nodes = (a_node(8),)
    settings = story_settings(nodes, Pools={"pools": pools}, TrainingQueues={"queues": queues})
    made = World(tmp_path, backend=BeginsAFewAtATime, settings=settings, nodes=nodes)
    yield made
    made.close()


def phases(world, jobs):
    return [world.job(job).phase for job in jobs]


async def test_no_more_start_than_can_be_begun_and_the_others_follow_in_their_order(world):
    jobs = [world.send(ANN, "vision") for _ in range(4)]
    await world.step()
    assert phases(world, jobs) == ["starting", "starting", "waiting", "waiting"]
    assert [world.job(job).position for job in jobs[2:]] == [1, 2]
    assert world.job(jobs[2]).sentence == SOON.sentence
    world.backend.left = 0
    await world.step()
    assert phases(world, jobs)[2:] == ["waiting", "waiting"]
    world.backend.left = 1
    await world.step()
    assert phases(world, jobs)[2:] == ["starting", "waiting"]
    assert world.job(jobs[3]).position == 1


async def test_who_waits_for_devices_stands_behind_them_and_reads_his_own_reason(world):
    jobs = [world.send(ANN, "vision") for _ in range(8)]
    await world.step()
    assert [world.job(job).position for job in jobs[2:]] == [1, 2, 3, 4, 5, 6]
    assert world.job(jobs[6]).sentence == SOON.sentence
    assert world.job(jobs[7]).sentence != SOON.sentence


async def test_a_gang_that_is_larger_than_what_is_left_starts_and_nothing_small_before_it(world):
    world.backend.left = 1
    gang, small = world.send(ANN, "vision", tasks=3), world.send(ANN, "vision")
    await world.step()
    assert phases(world, (gang, small)) == ["starting", "waiting"]


async def test_a_more_important_job_passes_those_that_would_have_started(world):
    world.backend.left = 0
    first = world.send(ANN, "vision", 4)
    await world.step()
    urgent = world.send(ANN, "vision", 4, priority=80)
    world.backend.left = 1
    await world.step()
    assert phases(world, (first, urgent)) == ["waiting", "starting"]


async def test_notebooks_are_begun_by_the_hub_and_wait_for_nobody(world):
    world.backend.left = 0
    job, ticket = world.send(BOB, "nlp"), world.ask(CAROL, "0.5")
    await world.step()
    assert world.controller.ticket(CAROL, ticket.id).phase == "starting"
    assert world.job(job).phase == "waiting"


async def test_one_that_was_put_aside_can_be_cancelled(world):
    world.backend.left = 0
    job = world.send(ANN, "vision")
    await world.step()
    world.controller.cancel(ANN, job)
    world.backend.left = 2
    await world.step()
    assert world.job(job).phase == "cancelled"
    assert world.backend.launches == []
