"""Changes of jobs that wait and run: by those who may, whole or not at all, and each with its audit entry."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange, JobView
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import (
    Conflict,
    InvalidAmount,
    LimitReached,
    ManagersOnly,
    NeverFits,
    NotAMember,
    NotFound,
    PriorityTooHigh,
    UnknownQueue,
)
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
    "solo": {"quota": 0, "groups": ["vision"], "managers": ["ann"]},
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


async def test_an_owner_cannot_release_what_an_administrator_holds(world):
    job = world.send(ANN, "vision")
    change(world, ANN, job, held=True)
    change(world, ADMIN, job, held=True)  # takes the hold over
    with pytest.raises(ManagersOnly, match="Only a manager of the queue or an administrator can release") as refused:
        change(world, ANN, job, held=False, priority=5)
    assert "is held by root." in reveal(str(refused.value))
    assert (world.job(job).held_since is not None, world.job(job).priority) == (True, 0)
    change(world, ANN, job, held=True)
    assert "Held by root" in reveal(world.job(job).sentence), "asking for the hold again does not make it one's own"
    assert change(world, DORA, job, held=False).held_since is None
    assert acts(world, job) == [("ann", Action.JOB_HOLD), ("root", Action.JOB_HOLD), ("dora", Action.JOB_RELEASE)]


@pytest.mark.parametrize("wanted", [{"held": True}, {"max_seconds": 100}], ids=["hold", "limit"])
async def test_no_owner_lifts_a_hold_or_a_limit_by_a_move_to_a_queue_that_the_owner_manages(world, wanted):
    job = world.send(ANN, "vision")
    change(world, DORA, job, **wanted)
    with pytest.raises(ManagersOnly, match=r"of the queue vision or an administrator\. Only they can move it"):
        change(world, ANN, job, queue="solo")
    assert world.job(job).queue == "vision"
    assert change(world, ADMIN, job, queue="solo").queue == "solo"


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
    assert "Continues by itself" in world.job(job).sentence
    change(world, ANN, job, held=True)
    held = "Pausing: it has a moment to save its state, and is held until it is released."
    assert world.job(job).sentence == held
    change(world, ANN, job, held=False)
    assert "Continues by itself" in world.job(job).sentence
    change(world, ANN, job, held=True)
    assert world.job(job).sentence == held
    world.backend.end(job, Outcome.PAUSED)
    await world.step(2)
    assert world.job(job).sentence.startswith("Held by you")
    assert len(world.backend.stops) == 1


async def test_a_held_job_shows_no_devices_and_a_cancelled_one_no_hold(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    assert world.job(job).devices
    change(world, ANN, job, held=True)
    await world.step(3)
    held = world.job(job)
    assert (held.devices, held.node, held.held_since is None) == ([], None, False)
    world.controller.jobs.cancel(ANN, job)
    assert world.job(job).held_since is None


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
    change(world, ANN, job, held=True)
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
    with pytest.raises(Conflict, match=r"The job 'digits' was cancelled already"):
        change(world, ANN, job, held=True)


# --- who may


async def test_the_owner_the_managers_of_the_queue_and_admins_may_change_a_job(world):
    job = world.send(ANN, "vision")
    for who, name in ((DORA, "dora"), (ADMIN, "root")):
        assert reveal(change(world, who, job, held=True).sentence).startswith(f"Held by {name} since")
        change(world, who, job, held=False)
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


async def test_a_manager_lists_the_unfinished_jobs_of_the_queue_page_by_page(world):
    ended, *jobs = [world.send(ANN, "vision") for _ in range(4)]
    elsewhere = world.send(BOB, "nlp")
    world.controller.jobs.cancel(ANN, ended)
    listed, before = [], None
    while True:
        page = world.controller.job_lists.list_queue(DORA, "vision", limit=2, before=before)
        listed += [job.id for job in page.jobs]
        before = page.next
        if before is None:
            break
        assert len(page.jobs) == 2
    assert sorted(listed) == sorted(jobs)
    everything = world.controller.job_lists.list_queue(ADMIN, "vision", limit=500, before=None)
    assert [job.id for job in everything.jobs] == listed
    world.controller.jobs.cancel(ANN, listed[0])
    after_ended = world.controller.job_lists.list_queue(DORA, "vision", limit=500, before=listed[0])
    assert [job.id for job in after_ended.jobs] == listed[1:]
    for unknown in ("job-none", elsewhere):
        with pytest.raises(NotFound, match="Begin with the first page"):
            world.controller.job_lists.list_queue(DORA, "vision", limit=2, before=unknown)


@pytest.mark.parametrize(
    ("who", "queue"),
    [(ANN, "vision"), (BOB, "vision"), (DORA, "nlp"), (replace(DORA, own_only=True), "vision"), (ADMIN, "none")],
    ids=["member", "other queue", "manager of another", "own only", "unknown queue"],
)
async def test_nobody_else_lists_the_jobs_of_a_queue(world, who, queue):
    world.send(ANN, "vision")
    with pytest.raises(NotFound, match="no queue"):
        world.controller.job_lists.list_queue(who, queue, limit=2, before=None)


async def test_a_manager_sees_the_job_and_none_of_its_output(world):
    job = world.send(ANN, "vision")
    assert world.controller.jobs.show(DORA, job).owner == "ann"
    with pytest.raises(NotFound):
        world.controller.jobs.read_log(DORA, job)
    with pytest.raises(NotFound):
        await world.controller.jobs.read_notebook(DORA, job)
    with pytest.raises(NotFound):
        world.controller.jobs.read_outputs(DORA, job, 0)


# --- queue, priority, GPUs


async def test_a_waiting_job_is_moved_and_keeps_its_time_of_submission(world):
    world.send(BOB, "nlp")
    await world.step(2)
    job, later = world.send(ANN, "vision"), world.send(CAROL, "night")
    sent = world.job(job).submitted_at
    shown = change(world, ANN, job, queue="night")
    assert (shown.queue, shown.submitted_at) == ("night", sent)
    await world.step(1)
    assert (world.job(job).position, world.job(later).position) == (1, 2)
    (entry,) = world.sql.audit(AuditFilter(object=job, action=Action.JOB_MOVE))
    assert (entry.actor, entry.details["queue"], entry.details["queue_before"]) == ("ann", "night", "vision")


async def test_a_job_moves_only_to_queues_that_the_caller_may_use(world):
    job = world.send(ANN, "vision")
    for who in (ANN, DORA):
        with pytest.raises(NotAMember, match="is not a member of the queue 'nlp'"):
            change(world, who, job, queue="nlp")
    with pytest.raises(UnknownQueue, match="no training queue named 'nihgt'"):
        change(world, ANN, job, queue="nihgt")
    assert change(world, ADMIN, job, queue="nlp").queue == "nlp"
    assert acts(world, job) == [("root", Action.JOB_MOVE)]


async def test_a_full_queue_takes_no_job_of_another_queue(world):
    world.settings.current = story_settings(TrainingQueues={"queues": QUEUES, "max_jobs_per_queue": 1})
    job = world.send(ANN, "vision")
    world.send(CAROL, "night")
    with pytest.raises(LimitReached, match="The queue 'night' has 1 jobs"):
        change(world, ANN, job, queue="night")


async def test_a_running_job_is_not_moved_or_resized_but_can_be_once_it_is_held(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    for wanted in ({"queue": "night"}, {"gpus": "0.5"}, {"queue": "night", "held": True}):
        with pytest.raises(Conflict, match=r"The job 'digits' does not wait, .* Hold it first"):
            change(world, ANN, job, **wanted)
    assert acts(world, job) == []
    change(world, ANN, job, held=True)
    await world.step(2)
    change(world, ANN, job, held=False, queue="night", gpus="0.5")
    await world.step(3)
    assert (world.job(job).phase, world.job(job).queue, world.job(job).gpus) == ("running", "night", "0.5")
    assert world.backend.launches[-1].workload.request.milli == 500
    assert acts(world, job)[1:] == [("ann", act) for act in (Action.JOB_MOVE, Action.JOB_CHANGE, Action.JOB_RELEASE)]


async def test_limit_and_priority_of_a_running_job_change_while_its_node_is_not_offered(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.nodes = world.backend._nodes = world.servers._nodes = ()
    await world.step()
    assert change(world, ANN, job, max_seconds=600, priority=5).priority == 5
    with pytest.raises(Conflict):
        change(world, ANN, job, gpus="0.5")


async def test_users_give_priorities_up_to_that_of_the_queue_and_managers_more(world):
    job = world.send(ANN, "vision")
    assert change(world, ANN, job, priority=10).priority == 10
    with pytest.raises(PriorityTooHigh, match=r"priority 11, but the highest .* in the queue 'vision' is 10"):
        change(world, ANN, job, priority=11)
    assert change(world, DORA, job, priority=100).priority == 100
    changes = world.sql.audit(AuditFilter(object=job, action=Action.JOB_CHANGE))[::-1]
    assert [(e.details["priority_before"], e.details["priority"]) for e in changes] == [(0, 10), (10, 100)]
    with pytest.raises(PriorityTooHigh, match="in the queue 'night' is 0"):
        change(world, ANN, job, queue="night")
    assert change(world, ANN, job, queue="night", priority=0).queue == "night"


async def test_a_priority_changes_the_order_of_the_queue_also_against_running_jobs(world):
    first, second = world.send(ANN, "vision"), world.send(CAROL, "vision")
    await world.step(2)
    assert world.job(first).phase == "running"
    change(world, ANN, first, priority=-1)
    await world.step(4)
    assert [world.job(job).phase for job in (first, second)] == ["paused", "running"]


async def test_gpus_change_while_the_job_waits_and_cpu_and_memory_stay(world):
    job = world.send(ANN, "vision", "1", gpu_model="A100-40GB")
    assert change(world, ANN, job, gpus="0.25").gpus == "0.25"
    shown = world.job(job)
    assert (shown.gpu_model, shown.cpus, shown.memory) == ("A100-40GB", None, None)
    (entry,) = world.sql.audit(AuditFilter(object=job, action=Action.JOB_CHANGE))
    assert (entry.details["gpus"], entry.details["gpus_before"]) == ("0.25", "1")


async def test_gpu_memory_takes_the_place_of_gpus_and_the_other_way_round(world):
    job = world.send(ANN, "vision", "1", gpu_model="A100-40GB")
    changed = change(world, ANN, job, gpu_memory="12 GB")
    assert (changed.gpus, changed.gpu_memory, changed.gpu_model) == ("0.3", "12 GiB", "A100-40GB")
    (entry,) = acts(world, job)
    change(world, ANN, job, gpu_memory=12)
    assert acts(world, job) == [entry], "what is so already is no act"
    changed = change(world, ANN, job, gpus="0.3")
    assert (changed.gpus, changed.gpu_memory) == ("0.3", None), "a number of GPUs, which fits on other models too"
    change(world, ANN, job, gpu_memory="20 GB")
    await world.step(3)
    assert (world.job(job).phase, world.job(job).gpus) == ("running", "0.5")


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"gpu_memory": "400 GB"}, NeverFits),
        ({"gpu_memory": "much"}, InvalidAmount),
        ({"gpu_memory": 0}, InvalidAmount),
        ({"gpu_memory": 12, "gpus": "0.5"}, InvalidAmount),
    ],
)
async def test_gpu_memory_that_the_job_could_not_ask_for_is_refused_whole(world, wanted, error):
    job = world.send(ANN, "vision", "0.5")
    with pytest.raises(error):
        change(world, ANN, job, priority=5, **wanted)
    assert (acts(world, job), world.job(job).gpus) == ([], "0.5")


@pytest.mark.parametrize(
    ("gpus", "error", "words"),
    [
        ("3", NeverFits, "Ask for 1 or less"),
        ("1.5", InvalidAmount, "1 or 2"),
        ("0", NeverFits, "for no GPU"),
    ],
)
async def test_gpus_that_the_job_could_not_ask_for_are_refused_whole(world, gpus, error, words):
    job = world.send(ANN, "vision", "0.5", gpu_model="A100-40GB")
    with pytest.raises(error, match=words):
        change(world, ANN, job, gpus=gpus, priority=5, held=True)
    assert acts(world, job) == []
    assert (world.job(job).priority, world.job(job).held_since) == (0, None)


async def test_a_place_that_was_kept_for_the_old_request_is_given_up(world):
    """The job waits for a whole GPU and its victim stops; then it asks for less, and nothing stays behind."""
    world.backend._told_to_stop = lambda run: None  # it takes its time
    victim = world.send(BOB, "nlp")
    await world.step(2)
    job = world.send(ANN, "vision", "0.5")
    await world.step(1)
    assert world.sql.get(job).workload.nominated
    change(world, ANN, job, gpus="0.25")
    assert world.sql.get(job).workload.reserved == ()
    world.backend.end(victim, Outcome.PAUSED)
    await world.step(3)
    assert (world.job(job).phase, world.job(job).gpus) == ("running", "0.25")


async def test_a_job_whose_place_was_refused_tries_again_at_once_in_another_queue(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.backend.end(job, Outcome.REFUSED, "The node is full.")
    await world.step(1)
    assert "The node is full" in world.job(job).sentence
    change(world, ANN, job, queue="night")
    await world.step(2)
    assert world.job(job).phase == "running"
