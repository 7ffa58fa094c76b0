"""The local backend: the environment of jobs, the end of runs, and the state that a crash of the service leaves."""

import asyncio
import json
import multiprocessing
import os
import pwd
import resource
import shutil
import signal
import socket
import stat
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from jupyter_gq.backends import processes
from jupyter_gq.backends.control_groups import ParentGroup
from jupyter_gq.backends.local import backend as local_backend
from jupyter_gq.backends.local.ledger import Ledger, Run
from jupyter_gq.backends.local.ports import find_free_port
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import BackendError, StorageFull
from jupyter_gq.domain.workload import TaskPlacement
from tests.kubernetes.waiting import eventually

from .small_disk import fill
from .worlds import LocalWorld, read_when_there, runs

pytestmark = pytest.mark.asyncio


def placed(workload, *devices):
    """Return the workload with one task on each tuple of devices."""
    return replace(workload, placement=tuple(TaskPlacement(node="box", devices=held) for held in devices))


def environment(local, workload, task=0):
    return json.loads((local.task(workload, task) / "environment").read_text())


async def test_the_node_shows_its_devices(local):
    (node,) = local.backend.nodes()
    assert node.name == "box"
    assert [(d.id, d.index, d.memory, d.healthy) for d in node.devices][:2] == [
        ("GPU-sim-0", 0, 40960, True),
        ("GPU-sim-1", 1, 40960, True),
    ]


async def test_device_that_vanishes_stays_and_is_not_healthy(local):
    local.backend.nodes()
    local.backend._node._probe._devices = local.backend._node._probe._devices[1:]
    (node,) = local.backend.nodes()
    assert [device.healthy for device in node.devices] == [False, True, True, True]


@pytest.mark.parametrize(("said", "outcome"), [("SUCCEEDED", Outcome.SUCCEEDED), ("FAILED", Outcome.FAILED)])
async def test_result_of_a_run_is_the_one_that_its_runner_wrote(local, said, outcome):
    workload = local.workload()
    await local.launch(workload, {"says": said, "sentence": "Cell 3 raised ValueError."})
    end = await local.end(workload)
    assert (end.outcome, end.sentence) == (outcome, "Cell 3 raised ValueError.")


async def test_runner_is_told_the_last_number_of_outputs_as_no_argument_that_an_older_one_refuses(local):
    job = local.workload(run=2)
    await local.launch(job, last_seq=7)
    assert environment(local, job)["GQ_LAST_SEQ"] == "7"
    assert psutil.Process(local.leader(job)).cmdline()[-4:] == ["--run", "2", "--task", "0"]


async def test_run_without_a_result_is_lost(local):
    workload = local.workload()
    await local.launch(workload, {"exits": 3})
    end = await local.end(workload)
    assert end.outcome is Outcome.LOST
    assert "exit code 3" in end.sentence


async def test_runner_cannot_declare_its_run_lost(local):
    workload = local.workload()
    await local.launch(workload, {"says": "LOST"})
    assert (await local.end(workload)).sentence == "The process ended without a result (exit code 0)."


async def test_environment_and_files_of_a_job(local, monkeypatch):
    workload = placed(local.workload(gpus="0.25"), ("GPU-sim-2",))
    cwd = local.folder / "work"
    cwd.mkdir()
    given = {"COLOUR": "blue", "JUPYTERHUB_API_TOKEN": "stolen", "JUPYTER_GQ_GPUS": "4", "BAD": 3, "A=B": "c"}
    given |= {"XLA_CLIENT_MEM_FRACTION": "0.1", "CUPY_GPU_MEMORY_LIMIT": "90%"}
    local.prepare(workload, {}, {"cwd": str(cwd), "environment": given})
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "the service's own")
    await local.launch(workload, environment={"FROM_LAUNCH": "1", "XLA_CLIENT_MEM_FRACTION": "0.2353"})
    seen = environment(local, workload)
    assert (local.task(workload) / "cwd").read_text() == str(cwd)
    assert seen["COLOUR"] == "blue"
    assert seen["FROM_LAUNCH"] == "1"
    assert "JUPYTERHUB_API_TOKEN" not in seen
    assert "BAD" not in seen
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["GQ_SERVICE_URL"] == "http://127.0.0.1:1/services/jupyter-gq/"
    assert seen["GQ_JOB_ID"] == workload.id
    assert seen["CUDA_VISIBLE_DEVICES"] == seen["NVIDIA_VISIBLE_DEVICES"] == "GPU-sim-2"
    assert (seen["JUPYTER_GQ_GPUS"], seen["JUPYTER_GQ_MEMORY_MIB"], seen["JUPYTER_GQ_SIMULATED"]) == (
        "0.25",
        "10240",
        "1",
    )
    assert (seen["XLA_CLIENT_MEM_FRACTION"], seen["CUPY_GPU_MEMORY_LIMIT"]) == ("0.1", str(9640 * 2**20)), "the smaller"
    assert "RANK" not in seen
    token = local.task(workload) / "token"
    assert token.read_text() == "secret"
    assert "secret" not in json.dumps(seen)
    for private in (token, local.task(workload) / "log", local.job(workload) / "bundle.json"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600, private
    assert stat.S_IMODE(local.job(workload).stat().st_mode) == 0o700
    assert local.bundles.log(workload.id, "ann", 1000, run=1, tasks=range(1)) == "standin is here\n"


async def test_job_runs_although_its_working_folder_is_gone(local):
    workload = local.workload()
    local.prepare(workload, {}, {"cwd": "/no/such/folder"})
    await local.launch(workload)
    home = pwd.getpwuid(os.getuid()).pw_dir
    fallback = home if Path(home).is_dir() else str(local.job(workload))  # noqa: ASYNC240
    assert (local.task(workload) / "cwd").read_text() == fallback


async def test_the_fault_of_a_working_folder_is_known_before_a_job_is_sent(local, tmp_path):
    find_fault = local.backend.capabilities.find_folder_fault
    (tmp_path / "file").touch()
    told = {name: find_fault("ann", str(tmp_path / name)) for name in ("", "gone", "file")}
    assert told == {"": "", "gone": "does not exist (any more)", "file": "is a file and no folder"}


async def test_the_tasks_of_a_gang_find_each_other_and_see_their_own_devices(local):
    workload = placed(local.workload(tasks=3), ("GPU-sim-0",), ("GPU-sim-1",), ("GPU-sim-3",))
    await local.launch(workload, environment={"CUDA_VISIBLE_DEVICES": "all of them"})
    seen = [environment(local, workload, task) for task in range(3)]
    assert [e["RANK"] for e in seen] == [e["PET_NODE_RANK"] for e in seen] == ["0", "1", "2"]
    assert {e["NPROC_PER_NODE"] for e in seen} == {"1"}
    assert {e["WORLD_SIZE"] for e in seen} == {"3"}
    assert {e["MASTER_ADDR"] for e in seen} == {"127.0.0.1"}
    assert len({e["MASTER_PORT"] for e in seen}) == 1
    assert [e["CUDA_VISIBLE_DEVICES"] for e in seen] == ["GPU-sim-0", "GPU-sim-1", "GPU-sim-3"]


async def test_gangs_that_start_at_once_meet_on_different_ports(local):
    gangs = [local.workload(tasks=2), local.workload(tasks=2)]
    for gang in gangs:
        await local.launch(gang)
    first, second = (environment(local, gang, 0)["MASTER_PORT"] for gang in gangs)
    assert first != second


async def test_no_gang_meets_on_a_port_that_is_in_use(local):
    workload = local.workload(tasks=2)
    with socket.create_server(("127.0.0.1", find_free_port(f"{workload.id}-{workload.run}"))) as server:
        await local.launch(workload)
        assert environment(local, workload, 0)["MASTER_PORT"] != str(server.getsockname()[1])


async def test_a_job_may_open_as_many_files_as_if_the_service_had_not_raised_its_limit(local):
    at_start = resource.getrlimit(resource.RLIMIT_NOFILE)
    other = (at_start[1] // 2 if at_start[0] == at_start[1] else at_start[1], at_start[1])
    workload = local.workload()
    resource.setrlimit(resource.RLIMIT_NOFILE, other)
    try:
        await local.launch(workload)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, at_start)
    assert resource.prlimit(local.leader(workload), resource.RLIMIT_NOFILE) == at_start


async def test_gang_whose_second_task_cannot_start_leaves_no_task(local):
    workload = local.workload(tasks=3)
    local.prepare(workload)
    local.task(workload, 1).parent.mkdir(parents=True)
    local.task(workload, 1).write_text("a file where the folder of task 1 belongs")
    with pytest.raises(BackendError, match=r"Task 1 could not be started: .*File exists"):
        await local.request(workload)
    assert await local.observed(workload) is None
    table = ProcessTable.read()
    assert not table.find_marked("JUPYTER_GQ_RUN", f"{workload.id}/1/0")
    local.task(workload, 1).unlink()
    await local.launch(workload)
    assert (await local.running(workload)).phase is Phase.RUNNING


async def test_failed_task_of_a_gang_ends_the_others_and_is_named(local):
    workload = local.workload(tasks=3)
    plan = {"task 0": {"ignores stop": True}, "task 1": {}, "task 2": {"says": "FAILED", "sentence": "Boom."}}
    await local.launch(workload, plan)
    await eventually(lambda: not runs(local.leader(workload, 2)), "the end of task 2")
    assert (await local.observed(workload)).phase is Phase.RUNNING
    local.clock.ahead += 11
    end = await local.end(workload)
    assert (end.outcome, end.sentence) == (Outcome.FAILED, "Task 2 of 3: Boom.")


async def test_a_command_that_does_not_exist_is_an_error_with_its_name(tmp_path):
    world = LocalWorld(tmp_path, command=("/no/such/python",))
    workload = world.workload()
    world.prepare(workload)
    with pytest.raises(BackendError, match="/no/such/python: No such file"):
        await world.request(workload)
    assert await world.observed(workload) is None


async def test_a_job_without_files_is_refused(local):
    with pytest.raises(BackendError, match="are gone"):
        await local.request(local.workload())


async def test_a_full_disk_starts_nothing_and_leaves_nothing(small_disk):
    local = LocalWorld(small_disk)
    workload = local.workload(tasks=2)
    local.prepare(workload)
    fill(small_disk)
    with pytest.raises(StorageFull, match="No space left"):
        await local.request(workload)
    assert await local.observed(workload) is None
    (small_disk / "filler").unlink()
    await local.launch(workload)
    fill(small_disk)
    await local.backend.stop(workload.id, 1, 0)
    local.clock.ahead += 1
    assert (await local.end(workload)).outcome is Outcome.KILLED, "a full disk does not keep it from ending"


async def test_ids_cannot_leave_the_folder(local):
    with pytest.raises(BackendError, match="not the id"):
        await local.request(local.workload(id="../../etc"))


async def test_processes_that_run_on_after_the_result_are_killed_after_a_while(local):
    workload = local.workload()
    await local.launch(workload, {"says": "SUCCEEDED", "has kernel": True})
    await eventually(lambda: not runs(local.leader(workload)) or None, "its end")
    assert (await local.observed(workload)).phase is Phase.RUNNING
    local.clock.ahead += 11
    end = await local.end(workload)
    assert end.outcome is Outcome.SUCCEEDED
    assert not runs(local.kernel(workload))


async def test_the_next_run_has_its_own_folder_and_keeps_the_checkpoint(local):
    workload = local.workload()
    await local.launch(workload)
    (local.job(workload) / "checkpoint/epoch").write_text("7")
    await local.backend.stop(workload.id, 1, 60)
    assert (await local.end(workload)).outcome is Outcome.PAUSED
    await local.backend.forget(workload.id, 1)
    again = replace(workload, run=2)
    await local.launch(again)
    assert (await local.observed(again)).phase is Phase.RUNNING
    assert (local.job(workload) / "checkpoint/epoch").read_text() == "7"
    assert (local.task(workload) / "log").exists()
    assert local.bundles.log(workload.id, "ann", 7, run=2, tasks=range(1)) == "s here\n"


async def test_next_service_finds_the_runs_of_a_killed_one(local):
    workload = local.workload()
    local.prepare(workload, {"has kernel": True})
    service = multiprocessing.get_context("spawn").Process(target=_serve, args=(local.folder, workload))
    service.start()
    await read_when_there(local.task(workload) / "ready")
    service.kill()
    service.join()
    assert runs(local.leader(workload))
    local.backend = local.new_backend()
    await local.request(workload)
    seen = await local.running(workload)
    assert local.leader(workload) in seen.pids
    marked = ProcessTable.read().find_marked("JUPYTER_GQ_RUN", f"{workload.id}/1/0")
    assert marked == {local.leader(workload), local.kernel(workload)}, "no second copy"
    assert local.bundles.log(workload.id, "ann", 1000, run=1, tasks=range(1)) == "standin is here\n"
    await local.backend.stop(workload.id, 1, 0)
    local.clock.ahead += 1
    assert (await local.end(workload)).outcome is Outcome.KILLED


def _serve(folder, workload):
    async def serve():
        await LocalWorld(folder).request(workload)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def test_kill_between_start_and_record_causes_no_second_copy(local):
    workload = local.workload()
    await local.launch(workload)
    _forget_processes(local, workload)
    local.backend = local.new_backend()
    await local.request(workload)
    assert local.leader(workload) in (await local.running(workload)).pids
    assert len(ProcessTable.read().find_marked("JUPYTER_GQ_RUN", f"{workload.id}/1/0")) == 1


async def test_partly_started_gang_is_started_anew_as_a_whole(local):
    workload = local.workload(tasks=2)
    await local.launch(workload)
    first = [local.leader(workload, task) for task in range(2)]
    _forget_processes(local, workload)
    os.kill(first[1], signal.SIGKILL)
    await eventually(lambda: not runs(first[1]), "the death of task 1")
    local.backend = local.new_backend()
    for task in range(2):
        (local.task(workload, task) / "ready").unlink()
    await local.launch(workload)
    assert not runs(first[0])
    assert {local.leader(workload, task) for task in range(2)}.isdisjoint(first)
    assert (await local.running(workload)).phase is Phase.RUNNING


async def test_run_whose_tasks_were_never_started_is_taken_again(local):
    workload = local.workload()
    local.prepare(workload)
    Ledger(local.folder / "state/runs", SystemClock()).put(_intent(workload))
    local.backend = local.new_backend()
    assert (await local.end(workload)).outcome is Outcome.REFUSED


async def test_no_process_belongs_to_a_run_after_a_restart_of_the_machine(local):
    workload = local.workload()
    await local.launch(workload)
    file = local.folder / f"state/runs/{workload.id}.1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "an earlier one"}))
    os.kill(local.leader(workload), signal.SIGKILL)
    local.backend = local.new_backend()
    assert (await local.end(workload)).outcome is Outcome.LOST


async def test_next_service_carries_out_an_earlier_stop(local):
    workload = local.workload()
    await local.launch(workload, {"ignores stop": True})
    await local.backend.stop(workload.id, 1, 5)
    local.backend = local.new_backend()
    assert (await local.observed(workload)).phase is Phase.RUNNING
    local.clock.ahead += 6
    assert (await local.end(workload)).outcome is Outcome.KILLED


async def test_service_starts_with_a_damaged_ledger_entry(local):
    workload = local.workload()
    await local.launch(workload)
    (local.folder / "state/runs/job-other.1.json").write_text("")
    local.backend = local.new_backend()
    assert (await local.running(workload)).phase is Phase.RUNNING


def _a_sparse_file(place):
    with place.open("wb") as file:
        file.truncate(200 * 10**9)


@pytest.mark.parametrize(
    "plant",
    [
        lambda place: place.write_text("[" * 200_000),
        lambda place: place.write_text('{"outcome": ["FAILED"], "sentence": {}}'),
        lambda place: place.write_bytes(b"\xff\xfe"),
        lambda place: place.symlink_to("/dev/zero"),
        os.mkfifo,
        os.mkdir,
        _a_sparse_file,
    ],
)
async def test_a_result_that_cannot_be_read_hurts_its_own_job_only(local, plant):
    bad, good = local.workload("bad"), local.workload("good")
    for workload in (bad, good):
        await local.launch(workload)
    plant(local.task(bad) / "result.json")
    assert (await local.running(bad)).phase is (await local.running(good)).phase is Phase.RUNNING
    os.kill(local.leader(bad), signal.SIGKILL)
    assert (await local.end(bad)).outcome is Outcome.LOST
    assert (await local.running(good)).phase is Phase.RUNNING


async def test_a_bundle_that_cannot_be_read_fails_the_launch_with_the_reason(local):
    workload = local.workload()
    local.prepare(workload)
    (local.job(workload) / "bundle.json").write_text('{"manifest":' * 500)
    with pytest.raises(BackendError, match=r"The file bundle\.json cannot be used: it is not valid JSON"):
        await local.request(workload)


def _intent(workload):
    return Run(
        job=workload.id,
        number=workload.run,
        owner=workload.owner,
        tasks=(None,) * workload.tasks,
        launched_at=1.0,
        boot=boot_id(),
    )


def _forget_processes(local, workload):
    """Remove the process ids from the ledger, as if the service had been killed before it could record them."""
    Ledger(local.folder / "state/runs", SystemClock()).put(_intent(workload))


@pytest.mark.parametrize("deleted", ["the run's folder", "the job's folder", "moved away"])
async def test_job_without_its_folder_ends_with_a_sentence(local, deleted):
    workload = local.workload()
    await local.launch(workload, {"ignores stop": True, "has kernel": True})
    await local.running(workload)
    kernel = local.kernel(workload)
    if deleted == "moved away":
        local.job(workload).rename(local.folder / "elsewhere")
    else:
        shutil.rmtree(local.task(workload) if deleted == "the run's folder" else local.job(workload))
    assert (await local.observed(workload)).phase is Phase.RUNNING
    local.clock.ahead += 30
    end = await local.end(workload)
    assert (end.outcome, end.sentence) == (
        Outcome.FAILED,
        "The folder of this run was deleted while it ran, so its result is lost. Send the cell again.",
    )
    assert not runs(kernel)


async def test_task_of_a_gang_without_its_folder_ends_all_tasks(local):
    workload = local.workload(tasks=2)
    await local.launch(workload)
    shutil.rmtree(local.task(workload, 1))
    end = await local.end(workload)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith("Task 1 of 2: The folder of this run was deleted")


async def test_control_group_shows_what_a_killed_task_has_left(group_world):
    """The process has no mark, is in no session of the task, and was never seen below it."""
    workload = group_world.workload()
    await group_world.launch(workload, {"leaves daemon": True})
    daemon = group_world.kernel(workload)
    os.kill(group_world.leader(workload), signal.SIGKILL)
    await eventually(lambda: not runs(group_world.leader(workload)), "the end of the task")
    assert (await group_world.running(workload)).pids == (daemon,)
    group_world.clock.ahead += 30
    await group_world.end(workload)
    assert not runs(daemon)
    assert not list(group_world.groups.glob(f"*{workload.id}*"))


async def test_launch_that_fails_kills_the_control_group_of_the_run(local, tmp_path):
    """A process that forks all the time escapes signals to the processes that were seen. The group is a mere folder."""
    local.backend._parent_group = ParentGroup(folder=tmp_path)
    workload = local.workload()
    launcher = local.backend._launcher
    launcher._starter = replace(launcher._starter, command=["/no/such/command"])
    with pytest.raises(BackendError):
        await local.launch(workload)
    (group,) = tmp_path.glob("jupyter-gq-*")
    assert (group / "cgroup.kill").read_text() == "1\n"


async def test_a_start_that_fails_holds_its_devices_until_the_last_process_is_gone(local, monkeypatch):
    """A process in a call of the GPU driver ends only when the driver returns."""
    workload = local.workload(tasks=2)
    local.prepare(workload)
    (local.job(workload) / "runs/1").mkdir(parents=True)
    local.task(workload, 1).write_text("in the way of the folder of task 1")
    with monkeypatch.context() as kernel:
        local.backend._parent_group = None
        kernel.setattr(processes, "send_signal", lambda *_: False)
        kernel.setattr(local_backend, "_KILL_SECONDS", 0.1)
        await local.request(workload)
        seen = await local.observed(workload)
        assert (seen.phase, seen.placement) == (Phase.STARTING, workload.placement)
        local.backend = local.new_backend()  # the next service knows too
        await local.request(workload)
        assert len((await local.observed(workload)).pids) == 1, "nothing is started beside it"
    end = await local.end(workload)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith("The start failed: ")


async def test_group_of_a_run_limits_what_its_tasks_request_together(local, tmp_path):
    local.backend._parent_group = ParentGroup(folder=tmp_path, controllers=frozenset({"cpu", "memory", "pids"}))
    workload = local.workload(tasks=2)
    workload = replace(workload, request=replace(workload.request, cpu_milli=2000, memory=MiB(512)))
    await local.launch(workload)
    (group,) = tmp_path.glob("jupyter-gq-*")
    names = ("memory.max", "memory.swap.max", "cpu.weight", "pids.max")
    assert [(group / name).read_text().strip() for name in names] == [str(2**30), "0", "157", "32768"]
    assert (group / "cgroup.procs").read_text().split(), "the tasks are in it"
