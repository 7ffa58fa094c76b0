"""A job that is paused is suspended where the driver can do it, and goes on with the same run."""

from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.amount import Instant, MiB
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.states import State
from tests.fakes import FakeResizingBackend, SuspendsJobs, a_node

from .world import ADMIN, ANN, BOB, World, story_settings

pytestmark = pytest.mark.asyncio

#: Places at which the service may be killed; more than one step has.
PLACES = 18
DEVICES = 2
SHARED = {
    "Pools": {"pools": {}},
    "FixedQuota": {"default": "0", "groups": {}},
    "TrainingQueues": {"grace": 20, "queues": {"vision": {"quota": "0"}, "nlp": {"quota": str(DEVICES)}}},
}


class SuspendsAndResizes(SuspendsJobs, FakeResizingBackend):
    """A machine that can do both."""

    def __init__(self, clock, nodes, fuse=None):
        FakeResizingBackend.__init__(self, clock, nodes, fuse)
        able = self.capabilities
        SuspendsJobs.__init__(self, clock, nodes, fuse)
        self.capabilities = replace(able, suspension=self)


def a_world(folder, *, backend=SuspendsJobs, nodes=None, **sections) -> World:
    nodes = nodes or (a_node(DEVICES),)
    settings = {name: {**SHARED.get(name, {}), **sections.get(name, {})} for name in {*SHARED, *sections}}
    return World(folder, backend=backend, nodes=nodes, settings=story_settings(nodes, **settings))


@pytest_asyncio.fixture
async def lab(tmp_path):
    world = a_world(tmp_path)
    yield world
    world.close()


async def running(world: World, count: int = DEVICES, **changes) -> list[str]:
    jobs = [world.send(ANN, "vision", **changes) for _ in range(count)]
    await world.step(3)
    assert [world.job(job).phase for job in jobs] == ["running"] * count
    world.controller._context.usage.update(dict.fromkeys(jobs, ShareUse(memory=1024, utilisation=0)))
    return jobs


async def suspended(world: World) -> tuple[str, str]:
    """One of ann's two jobs is suspended for bob's job; both are returned."""
    jobs = await running(world)
    bobs = world.send(BOB, "nlp")
    await world.step(6)
    (away,) = [job for job in jobs if world.job(job).phase == "paused"]
    return away, bobs


def acts(world: World, action: Action) -> list[dict]:
    return [dict(each.details) for each in world.sql.audit(AuditFilter(action=action))]


async def test_a_job_that_makes_room_is_suspended_and_goes_on_with_its_run(lab):
    away, bobs = await suspended(lab)
    assert lab.job(bobs).phase == "running"
    assert lab.backend.stops == []
    shown = lab.job(away)
    assert (shown.pause.way, shown.devices) == ("suspended", [])
    assert shown.pause.sentence == (
        "Nothing is lost: its GPU memory is kept in host memory, and it goes on where it was."
    )
    assert shown.sentence.startswith("Paused: nlp needed its 1 GPU back.")
    ran = lab.sql.get(away).workload.ran
    lab.clock.forward(1000)
    lab.backend.end(bobs)
    await lab.step(5)
    shown = lab.job(away)
    assert (shown.phase, shown.run) == ("running", 1)
    assert lab.backend.copies[(away, 1)] == 1
    assert lab.sql.get(away).workload.ran == ran, "the time of the pause does not count"
    (suspend,) = acts(lab, Action.JOB_SUSPEND)
    assert (suspend["for_workload"], suspend["memory_mib"]) == (bobs, 1000)
    (resume,) = acts(lab, Action.JOB_RESUME)
    assert resume["suspended_seconds"] > 1000
    lab.backend.end(away)
    await lab.step(2)
    assert lab.job(away).phase == "done"
    assert lab.job(away).pause is None


@pytest.mark.parametrize("place", range(PLACES))
async def test_killed_anywhere_in_the_steps_that_suspend_a_job(tmp_path, place):
    world = a_world(tmp_path)
    jobs = await running(world)
    bobs = world.send(BOB, "nlp")
    await world.step()
    world.fuse.light(place)
    for _ in range(3):
        await world.step_or_die()
    world.fuse.left = None
    await world.step(5)
    assert world.job(bobs).phase == "running"
    (away,) = [job for job in jobs if world.job(job).phase == "paused"]
    world.backend.end(bobs)
    world.fuse.light(place)
    for _ in range(3):
        await world.step_or_die()
    world.fuse.left = None
    await world.step(5)
    assert (world.job(away).phase, world.job(away).run) == ("running", 1)
    assert world.backend.copies[(away, 1)] == 1
    assert len(acts(world, Action.JOB_SUSPEND)) == len(acts(world, Action.JOB_RESUME)) == 1
    world.close()


async def test_a_job_that_the_driver_refuses_is_told_to_end_with_what_is_left_of_its_grace(lab):
    lab.backend.refuses = "The kernel uses managed memory."
    jobs = await running(lab)
    lab.send(BOB, "nlp")
    await lab.step(6)
    (away,) = [job for job in jobs if lab.job(job).phase == "paused"]
    ((name, _, grace),) = lab.backend.stops
    assert name == away
    assert 10 <= grace < 20
    assert lab.job(away).pause.way == "restart"
    assert "from the beginning" in lab.job(away).pause.sentence
    assert acts(lab, Action.JOB_SUSPEND) == []


async def test_a_suspension_that_takes_longer_than_half_of_the_grace_is_undone(lab):
    jobs = await running(lab)
    lab.send(BOB, "nlp")
    await lab.step()
    lab.clock.forward(11)
    await lab.step(4)
    (away,) = [job for job in jobs if lab.job(job).phase == "paused"]
    ((name, _, grace),) = lab.backend.stops
    assert name == away
    assert grace <= 10


@pytest.mark.parametrize("away", [11, 100])
async def test_the_time_in_which_no_service_could_suspend_a_job_does_not_count(lab, away):
    jobs = await running(lab)
    for job in jobs:
        lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    lab.clock.forward(away)
    lab.restart()
    await lab.step(5)
    assert [lab.job(job).pause.way for job in jobs] == ["suspended"] * DEVICES
    assert lab.backend.stops == []


async def test_a_job_that_is_refused_after_such_a_time_has_what_is_left_of_its_grace(lab):
    (job, _) = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    lab.backend.refuses = "The kernel uses managed memory."
    lab.clock.forward(100)
    lab.restart()
    await lab.step(6)
    ((name, _, grace),) = lab.backend.stops
    assert name == job
    assert 10 <= grace < 20


async def test_a_held_job_is_suspended_until_its_release(lab):
    (job, _) = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    assert lab.job(job).pause.sentence == "Its GPU memory is being moved to host memory, so that nothing is lost."
    await lab.step(5)
    shown = lab.job(job)
    assert (shown.phase, shown.pause.way) == ("paused", "suspended")
    assert lab.backend.is_away(job)
    released = lab.controller.job_changes.change(ANN, job, JobChange(held=False))
    assert (released.phase, released.sentence) == ("paused", "Waiting: it is considered next.")
    assert released.pause.way == "suspended"
    await lab.step(4)
    assert (lab.job(job).phase, lab.job(job).run) == ("running", 1)


@pytest.mark.parametrize(
    ("saved_at", "way", "goes_on"),
    [
        (None, "restart", "starts again from the beginning, unless it saves its state when told to stop."),
        (Instant(0), "checkpoint", "continues from its checkpoint of 1970-01-01 00:00 UTC, or from a later one."),
    ],
)
@pytest.mark.parametrize("use", [ShareUse(memory=0, utilisation=0), None], ids=["none", "unknown"])
async def test_a_pause_promises_to_keep_only_gpu_memory_that_is_there(lab, use, saved_at, way, goes_on):
    (job, _) = await running(lab)
    lab.controller._context.records.commit_each([Change(workload=job, fields={"checkpointed_at": saved_at})])
    lab.controller._context.usage.pop(job)
    if use is not None:
        lab.controller._context.usage[job] = use
    before = lab.job(job).pause
    held = lab.controller.job_changes.change(ANN, job, JobChange(held=True)).pause
    unknown = "Whether a pause keeps its GPU memory is not known yet. If not, the job"
    assert (before.way, held.way) == (way, way)
    assert held.sentence == f"{'It' if use is not None else unknown} {goes_on}"
    lab.backend.refuses = "There is no GPU memory to move."
    await lab.step(3)
    assert lab.job(job).pause.way == way


async def test_a_job_that_is_released_while_it_pauses_says_that_it_continues(lab):
    (job, _) = await running(lab)
    held = lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    assert held.sentence == "Pausing: it has a moment to save its state, and is held until it is released."
    released = lab.controller.job_changes.change(ANN, job, JobChange(held=False))
    assert (released.phase, released.held_since) == ("pausing", None)
    assert released.sentence.endswith("Then it waits for its turn, and continues by itself.")
    again = lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    assert again.sentence == held.sentence
    lab.controller.job_changes.change(ANN, job, JobChange(held=False))
    await lab.step(6)
    assert (lab.job(job).phase, lab.job(job).run) == ("running", 1)


@pytest.mark.parametrize("change", [{"gpus": "0.5"}, {"gpu_memory": "12 GB"}, {"tasks": 2}])
async def test_a_suspended_job_that_gets_other_gpus_or_tasks_ends_its_run_and_says_so(lab, change):
    (job, other) = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    lab.controller.jobs.cancel(ANN, other)
    await lab.step(5)
    kept = lab.controller.job_changes.change(ANN, job, JobChange(priority=-1))
    assert (kept.pause.way, "was ended" in kept.sentence) == ("suspended", False)
    changed = lab.controller.job_changes.change(ANN, job, JobChange.model_validate(change))
    assert changed.sentence.startswith("Held by you since ")
    assert changed.sentence.endswith(
        "Its suspended run was ended, because it cannot go on with other GPUs, with other tasks or in another pool. "
        "What it had not saved is computed again."
    )
    await lab.step(2)
    assert lab.backend.alive().count((job, 1)) == 0
    assert lab.job(job).pause.way == "restart"
    lab.controller.job_changes.change(ANN, job, JobChange(held=False))
    await lab.step(3)
    assert (lab.job(job).phase, lab.job(job).run) == ("running", 2)


async def test_a_change_and_a_release_in_one_request_say_that_the_suspended_run_ends(lab):
    (job, _) = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    await lab.step(5)
    changed = lab.controller.job_changes.change(ANN, job, JobChange(gpus="0.5", held=False))
    assert changed.sentence.startswith("Its suspended run was ended, because it cannot go on with other GPUs")
    assert changed.sentence.endswith("Waiting: it is considered next.")
    await lab.step(4)
    assert (lab.job(job).phase, lab.job(job).run) == ("running", 2)


async def test_a_suspended_job_that_is_cancelled_is_killed(lab):
    away, _ = await suspended(lab)
    assert lab.controller.jobs.cancel(ANN, away).phase == "cancelled"
    await lab.step(3)
    assert (away, 1) not in lab.backend.alive()


async def test_a_job_that_is_cancelled_while_it_is_suspended_ends(lab):
    job, _ = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    await lab.step()
    lab.controller.jobs.cancel(ANN, job)
    await lab.step(3)
    assert lab.job(job).phase == "cancelled"
    assert (job, 1) not in lab.backend.alive()


async def test_a_suspended_run_that_ends_makes_its_job_start_again(lab):
    away, bobs = await suspended(lab)
    lab.backend.end(away, Outcome.LOST)
    await lab.step(2)
    assert lab.job(away).sentence.startswith("Its suspended run has ended, and its GPU memory with it.")
    assert lab.job(away).pause.way == "restart"
    lab.backend.end(bobs)
    await lab.step(4)
    assert (lab.job(away).phase, lab.job(away).run) == ("running", 2)


async def test_a_held_job_of_which_a_process_has_ended_says_so_at_once(lab):
    (job, _) = await running(lab)
    lab.controller.job_changes.change(ANN, job, JobChange(held=True))
    await lab.step(5)
    lab.backend.lose_process(job)
    await lab.step()
    assert lab.job(job).pause.way == "restart"
    assert lab.job(job).sentence.startswith("Held by you since ")
    assert lab.job(job).sentence.endswith("Its suspended run has ended, and its GPU memory with it.")
    await lab.step(2)
    assert (job, 1) not in lab.backend.alive()
    lab.controller.job_changes.change(ANN, job, JobChange(held=False))
    await lab.step(3)
    assert (lab.job(job).phase, lab.job(job).run) == ("running", 2)


async def test_a_run_whose_state_is_lost_at_its_return_starts_again(lab):
    away, bobs = await suspended(lab)
    lab.backend.loses = "The GPU state is lost."
    lab.backend.end(bobs)
    await lab.step(8)
    lab.backend.loses = ""
    await lab.step(4)
    assert (lab.job(away).phase, lab.job(away).run) == ("running", 2)


async def test_a_run_that_the_driver_cannot_move_waits_for_its_own_device(lab):
    lab.backend.can_move = False
    jobs = await running(lab)
    bobs = lab.send(BOB, "nlp")
    devices = {job: lab.job(job).devices for job in jobs}
    await lab.step(6)
    (away,) = [job for job in jobs if lab.job(job).phase == "paused"]
    (other,) = [job for job in jobs if job != away]
    lab.backend.end(other)
    await lab.step(4)
    assert lab.job(away).phase == "paused", "the free device is another one"
    lab.backend.end(bobs)
    await lab.step(4)
    assert (lab.job(away).phase, lab.job(away).devices) == ("running", devices[away])


async def test_a_run_moves_to_a_free_device_of_the_same_model(lab):
    jobs = await running(lab)
    devices = {job: lab.job(job).devices for job in jobs}
    lab.send(BOB, "nlp")
    await lab.step(6)
    (away,) = [job for job in jobs if lab.job(job).phase == "paused"]
    (other,) = [job for job in jobs if job != away]
    lab.backend.end(other)
    await lab.step(4)
    assert (lab.job(away).phase, lab.job(away).devices) == ("running", devices[other])
    assert lab.backend.runs[(away, 1)].placement[0].devices == tuple(devices[other])


async def test_the_memory_of_a_suspended_job_is_not_given_away(tmp_path):
    nodes = (replace(a_node(DEVICES), cpu_milli=8000, memory=MiB(100)),)
    world = a_world(tmp_path, nodes=nodes)
    (job,) = await running(world, 1, memory="40 MiB")
    world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(5)
    assert world.backend.is_away(job)
    greedy, modest = world.send(BOB, "nlp", memory="70 MiB"), world.send(BOB, "nlp", memory="60 MiB")
    await world.step(4)
    assert (world.job(greedy).phase, world.job(modest).phase) == ("waiting", "running")
    assert "memory" in world.job(greedy).sentence
    world.controller.job_changes.change(ANN, job, JobChange(held=False))
    await world.step(4)
    assert (world.job(job).phase, world.job(job).run) == ("running", 1), "its own memory is its own"
    world.close()


async def test_a_job_whose_memory_is_needed_as_well_is_not_suspended(tmp_path):
    nodes = (replace(a_node(DEVICES), cpu_milli=8000, memory=MiB(100)),)
    world = a_world(tmp_path, nodes=nodes)
    jobs = await running(world, memory="50 MiB")
    bobs = world.send(BOB, "nlp", memory="40 MiB")
    await world.step(6)
    assert world.job(bobs).phase == "running"
    (away,) = [job for job in jobs if world.job(job).phase == "paused"]
    assert not world.backend.is_away(away)
    world.close()


@pytest.mark.parametrize(
    ("sections", "changes"),
    [
        ({"TrainingQueues": {**SHARED["TrainingQueues"], "suspend": False}}, {}),
        ({"IdlePolicy": {"suspend": False}}, {}),
        ({}, {"tasks": 2, "gpus": "0.5"}),
        ({}, {"tasks": 2, "gpus": "0.5", "min_tasks": 1}),
        ({}, {"gpus": "2"}),
    ],
    ids=["jobs are not", "nothing is", "gang", "elastic", "two devices"],
)
async def test_jobs_that_are_never_suspended(tmp_path, sections, changes):
    world = a_world(tmp_path, backend=SuspendsAndResizes, **sections)
    (job,) = await running(world, 1, **changes)
    assert world.job(job).pause.way == "restart"
    world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(5)
    assert world.job(job).phase == "paused"
    assert not world.backend.alive()
    world.close()


async def test_the_setting_for_jobs_overrules_that_for_notebooks(tmp_path):
    sections = {"IdlePolicy": {"suspend": False}, "TrainingQueues": {**SHARED["TrainingQueues"], "suspend": True}}
    world = a_world(tmp_path, **sections)
    job, _ = await running(world)
    assert world.job(job).pause.sentence == (
        "If it is held, or paused for other work, nothing is lost: its GPU memory is moved to host memory. If it must "
        "leave its GPU, because that is drained or work is moved together, it starts again from the beginning, unless "
        "it saves its state when told to stop."
    )
    world.close()


async def test_nothing_is_promised_for_a_job_that_has_nothing_on_its_gpu_yet(lab):
    job, _ = await running(lab)
    del lab.controller._context.usage[job]  # before the first sample
    assert lab.job(job).pause.way == "restart"
    assert lab.job(job).pause.sentence == (
        "Whether a pause keeps its GPU memory is not known yet. If not, the job starts again from the beginning, "
        "unless it saves its state when told to stop."
    )
    lab.controller._context.usage[job] = ShareUse(memory=0, utilisation=0)
    assert lab.job(job).pause.sentence == (
        "If it is paused, it starts again from the beginning, unless it saves its state when told to stop."
    )
    lab.controller._context.usage[job] = ShareUse(memory=1024, utilisation=0)
    assert lab.job(job).pause.way == "suspended"


async def test_a_job_on_a_real_device_is_not_suspended_unless_told(tmp_path):
    node = a_node(DEVICES)
    real = replace(node, devices=tuple(replace(each, id=f"GPU-{each.index}") for each in node.devices))
    world = a_world(tmp_path, nodes=(real,))
    job, _ = await running(world)
    assert world.job(job).pause.way == "restart"
    world.close()


async def test_a_suspended_job_keeps_its_token_and_its_place_in_line(lab):
    away, bobs = await suspended(lab)
    token = lab.backend.runs[(away, 1)].token
    record = lab.sql.get(away)
    assert record.workload.state is State.PENDING
    lab.backend.end(bobs)
    await lab.step(4)
    assert lab.controller.pods.find_task(away, token) == 0
    assert lab.sql.get(away).workload.submitted_at == record.workload.submitted_at


async def test_the_sentence_of_an_eviction_in_the_audit_log_names_the_work_for_which_it_was_suspended(lab):
    _, bobs = await suspended(lab)
    (suspend,) = acts(lab, Action.JOB_SUSPEND)
    assert suspend["for_workload"] == bobs
    assert suspend["sentence"] == reveal(suspend["sentence"])


async def test_a_drain_is_named_as_the_reason_of_a_job_that_was_suspended_before(lab):
    lab.backend.can_move = False
    away, bobs = await suspended(lab)
    (device,) = lab.job(bobs).devices
    view = await lab.controller.drains.begin(ADMIN, device)
    assert (view.leaving, view.staying, view.suspended) == ([bobs], [], [away])
    assert reveal(view.sentence).endswith(
        "ann's digits is suspended there, in host memory, and goes on after the drain, or on another GPU if the driver "
        "can move GPU memory to it."
    )
    await lab.step(3)
    told = reveal(lab.job(away).sentence)
    assert told.startswith("Paused: nlp needed its 1 GPU back.")
    assert f"GPU {view.index} of box is being drained" in told
    await lab.controller.drains.end(ADMIN, device)
    await lab.step()
    assert "drained" not in lab.job(away).sentence


async def test_a_drain_of_the_whole_node_is_named_to_a_job_that_was_suspended_before(lab):
    away, _ = await suspended(lab)
    view = await lab.controller.drains.begin(ADMIN, "box")
    assert view.suspended == [away]
    await lab.step(3)
    assert "box is being drained" in lab.job(away).sentence
