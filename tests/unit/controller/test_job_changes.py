"""Changes of jobs that wait and run: by those who may, whole or not at all, and each with its audit entry."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange, JobView
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.workload import Hold

from .world import ADMIN, ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio

HOLD, RELEASE = JobChange(held=True), JobChange(held=False)
#: ann and carol are members of vision, dora manages it, and bob belongs to another queue.
DORA = Caller(user="dora")
QUEUES = {
    "vision": {"quota": "0.5", "groups": ["vision"], "managers": ["dora"], "max_priority": 10},
    "nlp": {"quota": "0.5", "groups": ["nlp"]},
    "night": {"quota": 0, "groups": ["vision"]},
}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, settings=story_settings(TrainingQueues={"queues": QUEUES}))
    yield made
    made.close()


def change(world: World, who: Caller, job: str, **wanted) -> JobView:
    return world.controller.job_changes.change(who, job, JobChange(**wanted))


def acts(world: World, job: str) -> list[tuple[str, str]]:
    """The acts on a job since it was sent, oldest first."""
    return [(entry.actor, entry.action) for entry in world.sql.audit(AuditFilter(object=job))[::-1][1:]]


# --- hold and release


async def test_a_held_job_waits_until_it_is_released(world):
    job = world.send(ANN, "vision")
    shown = change(world, ANN, job, held=True)
    assert (shown.phase, shown.held_since, shown.position) == ("waiting", world.clock.now(), None)
    assert shown.sentence.startswith("Held by you since")
    await world.step(3)
    assert world.job(job).sentence == shown.sentence
    world.clock.forward(100)
    released = change(world, ANN, job, held=False)
    assert (released.phase, released.held_since) == ("waiting", None)
    assert "Held" not in released.sentence
    await world.step(3)
    assert world.job(job).phase == "running"
    assert acts(world, job) == [("ann", Action.JOB_HOLD), ("ann", Action.JOB_RELEASE)]


async def test_a_released_job_has_its_old_place_in_line(world):
    first, second = world.send(ANN, "vision"), world.send(CAROL, "vision")
    change(world, ANN, first, held=True)
    await world.step(2)
    assert world.job(second).phase == "running", "the next in line did not wait for it"
    third = world.send(CAROL, "vision")
    change(world, ANN, first, held=False)
    await world.step(2)
    assert (world.job(first).position, world.job(third).position) == (1, 2)


async def test_the_time_of_a_hold_is_no_wait(world):
    """Devices are reserved for those who have waited long, not for those who were held long."""
    job = world.send(ANN, "vision")
    change(world, ANN, job, held=True)
    world.clock.forward(100_000)
    change(world, ANN, job, held=False)
    assert world.sql.get(job).workload.waits_since == world.clock.now()
    assert world.job(job).submitted_at == world.clock.now() - 100_000


async def test_a_running_job_is_paused_with_its_state_and_stays_held(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    shown = change(world, ANN, job, held=True)
    assert (shown.phase, shown.held_since) == ("pausing", world.clock.now())
    assert shown.sentence == "Pausing: it has a moment to save its state, and is held until it is released."
    await world.step(3)
    assert [grace for _, _, grace in world.backend.stops] == [30], "as long as if it made room for others"
    assert world.job(job).phase == "paused"
    assert world.job(job).sentence.startswith("Held by you since")
    other = world.send(CAROL, "vision")
    await world.step(3)
    assert world.job(other).phase == "running", "its device is free"
    world.controller.jobs.cancel(CAROL, other)
    await world.step(3)
    assert world.job(job).phase == "paused"
    change(world, ANN, job, held=False)
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 2)


async def test_a_job_that_was_admitted_and_not_launched_goes_back_and_stays_held(world):
    job = world.send(ANN, "vision")
    world.backend.launch = _never_answers
    step = asyncio.ensure_future(world.controller.step())
    while world.job(job).phase != "starting":
        await asyncio.sleep(0)
    change(world, ANN, job, held=True)
    step.cancel()
    del world.backend.launch
    await world.step(3)
    assert (world.job(job).phase, world.job(job).held_since is not None) == ("paused", True)


async def _never_answers(_):
    await asyncio.Event().wait()


async def test_a_job_that_makes_room_can_be_held_meanwhile_and_released_before_it_has_stopped(world):
    world.backend._told_to_stop = lambda run: None  # it takes its time
    job = world.send(ANN, "vision")
    await world.step(2)
    world.send(BOB, "nlp", "0.5")
    await world.step(1)
    assert world.job(job).phase == "pausing"
    change(world, ANN, job, held=True)
    change(world, ANN, job, held=False)
    change(world, ANN, job, held=True)
    world.backend.end(job, Outcome.PAUSED)
    await world.step(2)
    assert world.job(job).sentence.startswith("Held by you")
    assert len(world.backend.stops) == 1


async def test_a_job_released_while_it_is_paused_waits_as_all_others_once_it_has_stopped(world):
    world.backend._told_to_stop = lambda run: None  # it takes its time
    job = world.send(ANN, "vision")
    await world.step(2)
    change(world, ANN, job, held=True)
    assert change(world, ANN, job, held=False).phase == "pausing"
    world.backend.end(job, Outcome.PAUSED)
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 2)


async def test_a_held_job_stays_held_when_the_service_starts_again(world):
    job = world.send(ANN, "vision")
    change(world, ANN, job, held=True)
    world.restart()
    await world.step(3)
    assert world.job(job).sentence.startswith("Held by you since")


async def test_what_is_so_already_changes_nothing_and_is_no_act(world):
    job = world.send(ANN, "vision")
    change(world, ANN, job, held=False)
    change(world, ANN, job, held=True)
    world.clock.forward(60)
    change(world, ADMIN, job, held=True)
    assert world.sql.get(job).workload.hold == Hold(by="ann", at=world.clock.now() - 60)
    assert acts(world, job) == [("ann", Action.JOB_HOLD)]


async def test_a_held_job_can_be_cancelled(world):
    job = world.send(ANN, "vision")
    change(world, ANN, job, held=True)
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelled"


async def test_a_job_that_has_ended_or_is_ending_cannot_be_changed(world):
    world.backend._told_to_stop = lambda run: None  # it takes its time
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.cancel(ANN, job)
    with pytest.raises(Conflict, match=r"The job 'digits' is ending"):
        change(world, ANN, job, held=True)
    world.backend.end(job, Outcome.KILLED)
    await world.step(2)
    with pytest.raises(Conflict, match=r"The job 'digits' is cancelled already"):
        change(world, ANN, job, held=True)


# --- who may


async def test_the_owner_the_managers_of_the_queue_and_admins_may_change_a_job(world):
    job = world.send(ANN, "vision")
    for who, name in ((DORA, "dora"), (ADMIN, "root")):
        assert reveal(change(world, who, job, held=True).sentence).startswith(f"Held by {name} since")
        change(world, ANN, job, held=False)
    marks = [entry.details for entry in world.sql.audit(AuditFilter(object=job, action=Action.JOB_HOLD))[::-1]]
    assert [(m.get("as_manager"), m.get("as_admin")) for m in marks] == [(True, None), (None, True)]
    assert reveal(world.controller.jobs.cancel(DORA, job).sentence) == "Cancelled by dora."


@pytest.mark.parametrize("who", [BOB, CAROL, replace(DORA, own_only=True)], ids=["other queue", "member", "own only"])
async def test_for_everybody_else_there_is_no_such_job(world, who):
    job = world.send(ANN, "vision")
    for act in (
        lambda: change(world, who, job, held=True),
        lambda: world.controller.jobs.cancel(who, job),
        lambda: world.controller.jobs.show(who, job),
    ):
        with pytest.raises(NotFound):
            act()
    assert acts(world, job) == []


async def test_a_manager_of_another_queue_sees_no_job(world):
    job = world.send(BOB, "nlp")
    with pytest.raises(NotFound):
        change(world, DORA, job, held=True)


async def test_a_manager_sees_the_job_and_none_of_its_output(world):
    job = world.send(ANN, "vision")
    assert world.controller.jobs.show(DORA, job).owner == "ann"
    for read in ("read_log", "read_notebook"):
        with pytest.raises(NotFound):
            getattr(world.controller.jobs, read)(DORA, job)
    with pytest.raises(NotFound):
        world.controller.jobs.read_outputs(DORA, job, 0)
