"""Killed at any place and started again, the service goes on as if nothing had happened."""

import asyncio

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.states import State
from tests.fakes import ServiceKilled

from .world import ANN, BOB, World, a_node, story_settings

#: More places than one step has: a look, saves, launches, stops, forgets.
PLACES = 16


@pytest.mark.parametrize("place", range(PLACES))
def test_killed_anywhere_in_the_step_that_starts_a_job(tmp_path, place):
    """One copy, in its first run, with a token that is known: the kill cost the job nothing."""
    world = World(tmp_path)

    async def play():
        job = world.send(ANN, "vision")
        world.fuse.light(place)
        await world.step_or_die()
        world.fuse.left = None
        await world.step(2)
        view = world.job(job)
        assert (view.phase, view.run) == ("running", 1)
        assert world.backend.copies == {(job, 1): 1}
        assert world.sql.get(job).detail.consecutive_losses == 0
        assert world.controller.pods.find_task(job, world.backend.runs[(job, 1)].token) == 0

    asyncio.run(play())
    world.close()


@pytest.mark.parametrize("place", range(PLACES))
def test_killed_anywhere_in_the_step_that_pauses_one_job_for_another(tmp_path, place):
    world = World(tmp_path)

    async def play():
        job = world.send(ANN, "vision")
        await world.step(2)
        other = world.send(BOB, "nlp", "0.5")
        world.fuse.light(place)
        await world.step_or_die()
        world.fuse.left = None
        await world.step(4)
        assert world.job(other).phase == "running"
        paused = world.job(job)
        assert paused.phase == "paused"
        assert paused.sentence.startswith("Paused: nlp needed its 0.5 GPU back.")
        world.backend.end(other)
        await world.step(3)
        assert (world.job(job).phase, world.job(job).run) == ("running", 2)

    asyncio.run(play())
    world.close()


@pytest.mark.parametrize("place", range(6))
def test_killed_anywhere_in_the_step_that_records_an_end(tmp_path, place):
    """The end is written down once, and the backend forgets it in the end."""
    world = World(tmp_path)

    async def play():
        job = world.send(ANN, "vision")
        await world.step(2)
        world.backend.end(job, Outcome.FAILED, "ValueError: no such file")
        world.fuse.light(place)
        await world.step_or_die()
        world.fuse.left = None
        await world.step(2)
        assert (world.job(job).phase, world.job(job).sentence) == ("failed", "ValueError: no such file")
        assert not world.backend.runs

    asyncio.run(play())
    world.close()


@pytest.mark.asyncio
async def test_a_notebook_keeps_its_share_over_a_restart_of_the_service(world):
    ticket = await world.start_server(ANN, "0.5")
    world.restart()
    await world.step(3)
    assert world.controller.tickets.show(ANN, ticket.id).phase == "running"
    assert world.notebook(ANN).devices == ["GPU-sim-box-0"]


@pytest.mark.asyncio
async def test_a_notebook_that_died_while_the_service_was_down_gives_its_share_back(world):
    ticket = await world.start_server(ANN, "0.5")
    world.servers.processes.clear()
    world.restart()
    await world.step(3)
    assert world.controller.tickets.show(ANN, ticket.id).phase == "stopped"
    assert world.controller.overview.describe_user(ANN).used == "0"


@pytest.mark.asyncio
async def test_a_cancel_that_comes_while_a_job_is_launched_is_not_forgotten(world):
    """The request is answered at once; the job is ended when it is known whether it runs."""
    job = world.send(ANN, "vision")
    world.fuse.light(4)  # a look at each backend, the save of the admission: the service dies before the launch
    assert await world.step_or_die()
    assert world.sql.get(job).workload.state is State.ADMITTED
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelling"
    await world.step(2)
    assert world.job(job).phase == "cancelled"
    assert not world.backend.copies


@pytest.mark.asyncio
async def test_a_cancel_after_a_launch_that_was_not_written_down_ends_the_process(world):
    job = world.send(ANN, "vision")
    world.fuse.light(5)
    assert await world.step_or_die()
    assert world.sql.get(job).workload.state is State.ADMITTED
    assert world.backend.copies == {(job, 1): 1}
    world.controller.jobs.cancel(ANN, job)
    await world.step(3)
    assert world.job(job).phase == "cancelled"
    assert not world.backend.alive()


@pytest.mark.asyncio
async def test_a_run_that_nobody_knows_is_ended(world):
    """A process whose record is final, or was never saved, must not use a device unseen."""
    job = world.send(ANN, "vision")
    await world.step(2)
    stray = world.backend.runs[(job, 1)]
    world.backend.runs[("job-of-another-time", 1)] = type(stray)(
        workload="job-of-another-time", run=1, phase=stray.phase, since=stray.since
    )
    await world.step(3)
    assert world.backend.alive() == [(job, 1)]
    assert ("job-of-another-time", 1) not in world.backend.runs


@pytest.mark.asyncio
async def test_killed_while_a_job_is_sent_leaves_all_of_it_or_nothing(world):
    for place in range(2):
        world.fuse.light(place)
        with pytest.raises(ServiceKilled):
            world.send(ANN, "vision")
        world.restart()
        world.fuse.left = None
        kept = {record.workload.id for record in world.sql.unfinished()}
        assert kept <= set(world.bundles.kept)
        assert len(kept) == place


@pytest.mark.asyncio
async def test_a_spawner_that_reports_its_process_before_the_restarted_service_has_looked_is_not_refused(world):
    ticket = world.ask(ANN, "0.5")
    await world.step()
    world.restart()
    world.attach(ANN, ticket.id)
    with pytest.raises(Conflict, match="Another process"):
        world.attach(ANN, ticket.id)
    await world.step(2)
    assert world.controller.tickets.show(ANN, ticket.id).phase == "running"
    world.servers.processes.clear()
    await world.step(2)
    assert world.controller.tickets.show(ANN, ticket.id).phase == "stopped"


@pytest.mark.asyncio
@pytest.mark.parametrize("restarts", [0, 1, 3])
async def test_a_place_for_which_somebody_was_evicted_is_kept_over_restarts(tmp_path, restarts):
    """The job that is within its queue's quota gets it, and not the older one that would use twice the quota."""
    queues = {name: {"quota": 1, "limit": 2, "groups": [name]} for name in ("vision", "nlp")}
    nodes, pools = (a_node(3),), {"train": {"devices": 2}, "build": {"devices": 1}}
    settings = story_settings(nodes, TrainingQueues={"queues": queues}, Pools={"pools": pools})
    world = World(tmp_path, settings=settings, nodes=nodes)
    world.backend._told_to_stop = lambda run: None  # it takes its time
    borrower = world.send(BOB, "nlp", "2")
    await world.step(2)
    older, younger = world.send(ANN, "vision", "2"), world.send(ANN, "vision", "1")
    await world.step()
    assert world.sql.get(younger).workload.nominated
    for _ in range(restarts):
        world.restart()
        await world.step()
    world.backend.end(borrower, Outcome.PAUSED)
    await world.step(3)
    assert [world.job(each).phase for each in (younger, older)] == ["running", "waiting"]
    world.close()
