"""What every backend that resizes runs guarantees, and what the tasks of such a run see."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gq.backends.control_groups import ParentGroup
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.kubernetes.waiting import eventually

from .worlds import read_when_there, runs

pytestmark = pytest.mark.asyncio


def places(*devices):
    return tuple(TaskPlacement(node="box", devices=(f"GPU-sim-{device}",)) for device in devices)


def elastic(world, *devices, **fields):
    """A job that may have 2 to 4 tasks and starts with one on each of these devices."""
    return world.workload(tasks=4, min_members=2, placement=places(*devices), **fields)


async def launch(world, workload, plan=None):
    world.prepare(workload, plan)
    await world.request(workload)
    for task in range(len(workload.placement)):
        await read_when_there(world.task(workload, task) / "ready")


async def resize(world, workload, *devices, grace=None):
    """Ask for tasks on these devices, and return the workload with them."""
    wanted = replace(workload, placement=places(*devices))
    environment = {"GQ_TEST": str(world.folder)}
    await world.backend.resize(wanted, WorkloadDetail(), environment, world.grace if grace is None else grace)
    return wanted


def variables(world, workload, task):
    return json.loads((world.task(workload, task) / "environment").read_text())


async def left(world, workload):
    async def nobody_leaves():
        seen = await world.observed(workload)
        return seen if seen and not seen.leaving else None

    return await eventually(nobody_leaves, "the end of the tasks that leave")


async def test_a_run_starts_with_fewer_tasks_than_it_may_have(local):
    job = elastic(local, 0, 1)
    await launch(local, job)
    seen = await local.running(job)
    assert (seen.placement, seen.leaving, seen.closed) == (places(0, 1), (), False)
    assert not (local.task(job, 2)).exists()


async def test_a_task_joins_a_run_with_devices_of_its_own(local):
    job = elastic(local, 0, 1)
    await launch(local, job)
    job = await resize(local, job, 0, 1, 3)
    await read_when_there(local.task(job, 2) / "ready")
    seen = await local.running(job)
    assert seen.placement == places(0, 1, 3)
    assert {local.leader(job, task) for task in range(3)} <= set(seen.pids)
    assert variables(local, job, 2)["CUDA_VISIBLE_DEVICES"] != variables(local, job, 0)["CUDA_VISIBLE_DEVICES"]
    again = local.leader(job, 2)
    await resize(local, job, 0, 1, 3)
    assert local.leader(job, 2) == again, "asking again starts no second copy"


async def test_a_task_that_leaves_saves_its_state_and_the_others_run_on(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job)
    job = await resize(local, job, 0, 1)
    seen = await left(local, job)
    assert (seen.phase, seen.placement) == (Phase.RUNNING, places(0, 1))
    assert not runs(local.leader(job, 2))
    assert json.loads((local.task(job, 2) / "result.json").read_text())["outcome"] == "PAUSED"
    assert runs(local.leader(job, 0))
    assert runs(local.leader(job, 1))


async def test_a_task_in_the_middle_leaves_and_its_number_is_given_again(local):
    job = elastic(local, 0, 1, 2, 3)
    await launch(local, job)
    job = await resize(local, job, 0, 2, 3)
    await left(local, job)
    first = local.leader(job, 1)
    assert not runs(first)
    (local.task(job, 1) / "ready").unlink()
    job = await resize(local, job, 0, 2, 3, 1)
    await read_when_there(local.task(job, 1) / "ready")
    seen = await local.running(job)
    assert sorted(seen.placement, key=str) == sorted(places(0, 1, 2, 3), key=str)
    assert local.leader(job, 1) != first


async def test_a_leaving_task_that_ignores_the_stop_holds_its_devices_and_is_killed_after_its_grace(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job, {"task 2": {"ignores stop": True, "has kernel": True}})
    job = await resize(local, job, 0, 1)
    assert (await local.observed(job)).leaving == places(2)
    local.clock.ahead += local.grace - 1
    assert (await local.observed(job)).leaving == places(2)
    assert runs(local.leader(job, 2)), "its grace is not over"
    local.clock.ahead += 1.5
    seen = await left(local, job)
    assert not runs(local.leader(job, 2))
    assert not runs(local.kernel(job, 2)), "what it started ends with it"
    assert seen.phase is Phase.RUNNING
    assert runs(local.leader(job, 0))


async def test_a_number_that_is_still_in_use_is_not_given_again(local):
    job = elastic(local, 0, 1, 2, 3)
    await launch(local, job, {"task 3": {"ignores stop": True}})
    job = await resize(local, job, 0, 1, 2)
    before = local.leader(job, 3)
    await resize(local, job, 0, 1, 2, 3)
    seen = await local.observed(job)
    assert (seen.placement, seen.leaving) == (places(0, 1, 2), places(3))
    assert local.leader(job, 3) == before


async def test_the_limits_of_the_run_follow_its_number_of_tasks(local, tmp_path):
    parent = ParentGroup(folder=tmp_path, controllers=frozenset({"memory"}))
    local.backend._parent_group = local.backend._sizes.parent_group = parent
    job = elastic(local, 0, 1)
    job = replace(job, request=replace(job.request, memory=MiB(512)))
    await launch(local, job)
    (group,) = tmp_path.glob("jupyter-gq-*")
    limits = [(group / "memory.max").read_text()]
    job = await resize(local, job, 0, 1, 2)
    limits.append((group / "memory.max").read_text())
    await read_when_there(local.task(job, 2) / "ready")
    job = await resize(local, job, 0, 1)
    assert (group / "memory.max").read_text() == limits[1], "as long as the task has processes"
    await left(local, job)
    limits.append((group / "memory.max").read_text())
    assert [int(limit) // 2**20 for limit in limits] == [1024, 1536, 1024]


async def test_task_0_never_leaves(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job)
    with pytest.raises(BackendError, match="Task 0"):
        await resize(local, job, 1, 2)
    assert (await local.running(job)).placement == places(0, 1, 2)


async def test_of_tasks_at_one_device_the_last_one_leaves(local):
    job = elastic(local, 0, 0, 0)
    await launch(local, job)
    job = await resize(local, job, 0, 0)
    await left(local, job)
    assert [runs(local.leader(job, task)) for task in range(3)] == [True, True, False]


async def test_a_new_service_finishes_what_an_earlier_one_began(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job, {"task 2": {"ignores stop": True}})
    job = await resize(local, job, 0, 1)
    local.backend = local.new_backend()
    assert (await local.observed(job)).leaving == places(2)
    local.clock.ahead += local.grace + 1
    seen = await left(local, job)
    assert (seen.phase, seen.placement) == (Phase.RUNNING, places(0, 1))
    assert not runs(local.leader(job, 2))


def entry_of(world, workload):
    (file,) = (world.folder / "state" / "runs").glob(f"{workload.id}.*.json")
    return file


async def test_a_service_that_was_killed_before_the_signal_tells_the_task_after_its_start(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job)
    entry = entry_of(local, job)
    document = json.loads(entry.read_text())
    slot = {"number": 2, "place": document["placement"].pop(), "kill_by": local.clock.awake() + 1000}
    document["elastic"] |= {"numbers": [0, 1], "leaving": [slot]}
    entry.write_text(json.dumps(document))
    local.backend = local.new_backend()
    assert (await left(local, job)).placement == places(0, 1)
    assert json.loads((local.task(job, 2) / "result.json").read_text())["outcome"] == "PAUSED"


@pytest.mark.parametrize("started", [True, False])
async def test_a_service_that_was_killed_while_a_task_joined_starts_no_second_copy(local, started):
    job = elastic(local, 0, 1)
    await launch(local, job)
    wanted = replace(job, placement=places(0, 1, 2))
    if started:
        await resize(local, job, 0, 1, 2)
        await read_when_there(local.task(job, 2) / "ready")
    entry = entry_of(local, job)
    document = json.loads(entry.read_text())
    place = {"node": "box", "devices": ["GPU-sim-2"], "group": ""}
    document["placement"] = document["placement"][:2]
    document["tasks"][2] = None
    document["elastic"] |= {"numbers": [0, 1], "joining": {"number": 2, "place": place, "kill_by": 0.0}}
    entry.write_text(json.dumps(document))
    size = local.task(job, 0).parent / "size.json"
    size.write_text(json.dumps({"tasks": [0, 1, 2], "least": 2, "most": 4}))
    before = local.leader(job, 2) if started else None
    local.backend = local.new_backend()
    present = [0, 1, 2] if started else [0, 1]
    assert (await local.running(job)).placement == places(*present)
    assert json.loads(size.read_text())["tasks"] == present
    await resize(local, wanted, 0, 1, 2)
    await read_when_there(local.task(job, 2) / "ready")
    assert (await local.running(job)).placement == places(0, 1, 2)
    if started:
        assert local.leader(job, 2) == before


async def test_no_task_joins_a_run_of_which_a_task_has_finished(local):
    job = elastic(local, 0, 1)
    await launch(local, job, {"task 1": {"says": "SUCCEEDED"}})
    await eventually(lambda: not runs(local.leader(job, 1)), "the end of task 1")
    assert (await local.observed(job)).closed
    await resize(local, job, 0, 1, 2)
    seen = await local.observed(job)
    assert (seen.placement, seen.phase) == (places(0, 1), Phase.RUNNING)


async def test_a_task_that_cannot_be_started_closes_the_run_and_the_others_run_on(local):
    job = elastic(local, 0, 1)
    await launch(local, job)
    local.task(job, 2).write_text("a file where the folder of the task should be")
    await resize(local, job, 0, 1, 2)
    seen = await local.running(job)
    assert (seen.placement, seen.closed) == (places(0, 1), True)
    assert seen.sentence.startswith("No task can be added to this run. Task 2 could not be started:")
    local.task(job, 2).unlink()
    local.backend = local.new_backend()
    await resize(local, job, 0, 1, 2)
    assert (await local.running(job)).placement == places(0, 1), "it is not tried again in this run"


async def test_a_run_without_its_surplus_ends_as_its_remaining_tasks_do(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job)
    job = await resize(local, job, 0, 1)
    await left(local, job)
    await local.backend.stop(job.id, job.run, 60)
    assert (await local.end(job)).outcome is Outcome.PAUSED


async def test_a_task_that_dies_ends_the_run_also_after_others_have_left(local):
    job = elastic(local, 0, 1, 2)
    await launch(local, job)
    job = await resize(local, job, 0, 2)
    await left(local, job)
    os.kill(local.leader(job, 2), signal.SIGKILL)
    end = await local.end(job)
    assert (end.outcome, end.sentence.partition(":")[0]) == (Outcome.LOST, "Task 2 of 4")


async def test_resizing_an_unknown_or_stopped_run_does_nothing(local):
    job = elastic(local, 0, 1)
    await resize(local, job, 0, 1, 2)
    await launch(local, job, {"ignores stop": True})
    await local.backend.stop(job.id, job.run, 1000)
    await resize(local, job, 0, 1, 2)
    assert (await local.observed(job)).placement == places(0, 1)


async def test_each_task_is_told_the_range_and_where_task_0_hosts_the_meeting(local):
    job = elastic(local, 0, 1)
    await launch(local, job)
    job = await resize(local, job, 0, 1, 3)
    await read_when_there(local.task(job, 2) / "ready")
    zero, two = variables(local, job, 0), variables(local, job, 2)
    same = ("PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID")
    assert [zero[name] for name in same] == [two[name] for name in same]
    assert (zero["PET_NNODES"], zero["PET_RDZV_BACKEND"]) == ("2:4", "c10d")
    assert (zero["PET_RDZV_CONF"], two["PET_RDZV_CONF"]) == ("is_host=true", "is_host=false")
    assert zero["PET_RDZV_ID"] == f"{job.id}-1"
    assert "WORLD_SIZE" not in zero, "it changes"


async def test_the_tasks_can_read_how_many_they_are(local, monkeypatch):
    told = []

    class Started(subprocess.Popen):
        """A process; kept is its number as a task, and whether the size has it from its first moment on."""

        def __init__(self, *arguments, env=None, **options):
            if "GQ_SIZE_FILE" in (env or {}):
                number = int(env["NODE_RANK"])
                told.append((number, number in json.loads(Path(env["GQ_SIZE_FILE"]).read_text())["tasks"]))
            super().__init__(*arguments, env=env, **options)

    monkeypatch.setattr(subprocess, "Popen", Started)
    job = elastic(local, 0, 1)
    await launch(local, job)
    assert told == [(0, True), (1, True)]
    file = Path(variables(local, job, 0)["GQ_SIZE_FILE"])

    def size():
        return json.loads(file.read_text())

    assert size() == {"tasks": [0, 1], "least": 2, "most": 4}
    job = await resize(local, job, 0, 1, 2)
    assert size()["tasks"] == [0, 1, 2]
    assert told[2:] == [(2, True)]
    await resize(local, job, 0, 2)
    assert size()["tasks"] == [0, 2], "at once, not when the task has ended"
