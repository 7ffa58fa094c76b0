"""More could start than a backend can begin soon: the rest stays in its queues, in order, and reads why."""

import json

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.capabilities import Capabilities, Pace
from jupyter_gq.client.models import JobRequest
from jupyter_gq.domain.errors import BackendError, NotLeading
from tests.fakes import FakeBackend, a_node

from .world import ADMIN, ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio

SOON = "Everything that the job needs is free. The job starts soon, after the jobs before it."


class BeginsAFewAtATime(FakeBackend):
    """`left`: so many tasks it could begin now, of `most`. `refused`: a job that it will not launch."""

    left, most, refused = 2, 3, ""

    def __init__(self, *args):
        super().__init__(*args)
        self.capabilities = Capabilities(pace=self.pace)

    def pace(self):
        return Pace(left=self.left, most=self.most)

    async def launch(self, launch):
        if launch.workload.id == self.refused:
            raise BackendError("not this one")
        await super().launch(launch)


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
    assert world.job(jobs[2]).sentence == SOON
    world.backend.left = 0
    await world.step()
    assert phases(world, jobs)[2:] == ["waiting", "waiting"]
    world.backend.left = 1
    await world.step()
    assert phases(world, jobs)[2:] == ["starting", "waiting"]
    assert world.job(jobs[3]).position == 1


async def test_work_that_waits_for_devices_stands_behind_them_and_reads_its_own_reason(world):
    jobs = [world.send(ANN, "vision") for _ in range(8)]
    await world.step()
    assert [world.job(job).position for job in jobs[2:]] == [1, 2, 3, 4, 5, 6]
    assert world.job(jobs[6]).sentence == SOON
    assert world.job(jobs[7]).sentence != SOON


async def test_each_task_of_a_gang_counts(world):
    world.backend.left = 3
    jobs = [world.send(ANN, "vision", tasks=2), world.send(ANN, "vision"), world.send(ANN, "vision")]
    await world.step()
    assert phases(world, jobs) == ["starting", "starting", "waiting"]


async def test_a_gang_that_is_larger_than_what_is_left_starts_and_nothing_small_before_it(world):
    world.backend.left = 1
    gang, small = world.send(ANN, "vision", tasks=3), world.send(ANN, "vision")
    await world.step()
    assert phases(world, (gang, small)) == ["starting", "waiting"]


async def test_a_more_important_job_passes_those_that_would_have_started(world):
    world.backend.left = 0
    first = world.send(ANN, "vision", 4)
    await world.step()
    urgent = world.send(ADMIN, "vision", 4, priority=80)
    world.backend.left = 1
    await world.step()
    assert phases(world, (first, urgent)) == ["waiting", "starting"]


async def test_notebooks_are_begun_by_the_hub_and_wait_for_nobody(world):
    world.backend.left = 0
    job, ticket = world.send(BOB, "nlp"), world.ask(CAROL, "0.5")
    await world.step()
    assert world.controller.tickets.show(CAROL, ticket.id).phase == "starting"
    assert world.job(job).phase == "waiting"


async def test_one_that_was_put_aside_can_be_cancelled(world):
    world.backend.left = 0
    job = world.send(ANN, "vision")
    await world.step()
    world.controller.jobs.cancel(ANN, job)
    world.backend.left = 2
    await world.step()
    assert world.job(job).phase == "cancelled"
    assert world.backend.launches == []


async def test_what_was_decided_goes_on_between_steps_as_room_comes(world):
    jobs = [world.send(ANN, "vision") for _ in range(5)]
    await world.step()
    world.backend.left = 0
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["waiting"] * 3
    world.backend.left = 2
    late = world.send(ADMIN, "vision", priority=80)
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["starting", "starting", "waiting"]
    assert world.job(late).phase == "waiting", "nothing is decided between steps"
    assert [launch.workload.id for launch in world.backend.launches] == jobs[:4]
    await world.step()
    assert (world.job(late).phase, world.job(jobs[4]).phase) == ("starting", "starting")


async def test_portion_follows_portion(world):
    jobs = [world.send(ANN, "vision") for _ in range(4)]
    await world.step()
    world.backend.left = 1
    for expected in (["starting", "waiting"], ["starting", "starting"]):
        await world.controller.launch_more()
        assert phases(world, jobs[2:]) == expected


async def test_between_steps_a_little_room_is_left_until_there_is_more(world):
    jobs = [world.send(ANN, "vision") for _ in range(3)]
    await world.step()
    world.backend.left, world.backend.most = 1, 4
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["waiting"]


async def test_who_was_withdrawn_is_not_started_between_steps(world):
    jobs = [world.send(ANN, "vision") for _ in range(4)]
    await world.step()
    world.controller.jobs.cancel(ANN, jobs[2])
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["cancelled", "starting"]


async def test_after_a_step_that_failed_nothing_goes_on(world):
    jobs = [world.send(ANN, "vision") for _ in range(3)]
    await world.step()
    world.backend.observe = has_a_defect
    with pytest.raises(ZeroDivisionError):
        await world.step()
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["waiting"]


async def test_a_step_that_cannot_look_leaves_nothing_to_go_on_with(world):
    jobs = [world.send(ANN, "vision") for _ in range(3)]
    await world.step()
    observe, world.backend.observe = world.backend.observe, cannot_be_seen
    await world.step()
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["waiting"]
    world.backend.observe = observe
    await world.step()
    assert phases(world, jobs[2:]) == ["starting"]


async def test_a_service_that_does_not_lead_any_more_does_not_go_on(world):
    jobs = [world.send(ANN, "vision") for _ in range(3)]
    await world.step()
    world.leads = False
    with pytest.raises(NotLeading):
        await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["waiting"]


async def test_the_live_state_holds_the_capacity_and_replays_to_the_same_decision(world, tmp_path, capsys):
    for _ in range(4):
        world.send(ANN, "vision")
    document = world.controller.overview.read_state()
    assert document["snapshot"]["launch_capacity"] == {"TRAINING": 2}
    assert [entry["why"]["reason"] for entry in document["decision"]["pending"]] == ["STARTS_SOON"] * 2
    file = tmp_path / "state.json"
    file.write_text(json.dumps(document))
    assert main(["replay", str(file)]) == 0, capsys.readouterr().out


async def test_who_asks_before_hears_that_others_are_begun_first(world):
    world.backend.left = 0
    world.send(ANN, "vision")
    seen = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus=1))
    assert (seen.starts_now, seen.position, seen.sentence) == (False, 2, SOON)


async def test_one_that_cannot_be_launched_does_not_keep_the_others(world):
    jobs = [world.send(ANN, "vision") for _ in range(4)]
    await world.step()
    world.backend.refused = jobs[2]
    await world.controller.launch_more()
    assert phases(world, jobs[2:]) == ["failed", "starting"]


async def has_a_defect():
    raise ZeroDivisionError


async def cannot_be_seen():
    raise BackendError("it does not answer")
