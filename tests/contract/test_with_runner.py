"""The local backend with the real runner and a real kernel, without a service to report to."""

import json
import os
import shutil
import signal
import sys
from dataclasses import replace

import pytest

from jupyter_gq.backends.bundles import LogName
from jupyter_gq.backends.local.environment import KEPT_VARIABLES
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.client.files.checkpoint_folder import COPYING
from tests.cells import KEEPS
from tests.kubernetes.waiting import eventually

from .worlds import LocalWorld, runs

pytestmark = pytest.mark.asyncio


@pytest.fixture
def real(tmp_path):
    command = (sys.executable, "-P", "-m", "jupyter_gq.runner")
    # A checkout beside the installed one names itself by PYTHONPATH.
    world = LocalWorld(tmp_path, command=command, service_url="", env_keep=(*KEPT_VARIABLES, "PYTHONPATH"))
    yield world
    world.clean_up()


def bundle(cwd, *sources):
    cells = [
        {"cell_type": "code", "id": f"c{i}", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    refs = [{"cell_id": cell["id"], "source_hash": "0" * 64, "seconds": None} for cell in cells]
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manifest = {
        "mode": "replay",
        "server": "",
        "notebook_path": "n.ipynb",
        "cwd": str(cwd),
        "kernel": {"name": "python3", "display_name": "Python 3", "language": "python", "argv": argv, "env": {}},
        "environment": {"COLOUR": "blue"},
        "prefix": refs[:-1],
        "targets": refs[-1:],
    }
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    return {"manifest": manifest, "notebook": notebook}


async def test_the_whole_log_is_read_and_its_beginning_is_dropped_while_the_job_prints(real):
    workload = real.workload()
    work = real.folder / "work"
    work.mkdir()
    say = (
        "import os, time\nfor number in range(40_000):\n    print(f'epoch {number:05}')\n"
        "print('waiting', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\nprint('the end')"
    )
    real.bundles.write(workload.id, "ann", bundle(work, say), 10**6)
    await real.request(workload)
    log = LogName(job=workload.id, owner="ann", run=1, task=0)

    def tail():
        return real.bundles.log(workload.id, "ann", 100, run=1, tasks=[0]) or ""

    await eventually(lambda: tail().endswith("waiting\n"), "the first part of the log")
    span = real.bundles.log_span(log)
    content = real.bundles.log_part(log, 0, 10**7)
    assert (span.start, span.end) == (0, len(content))
    assert b"\nepoch 00000\n" in content
    assert real.bundles.cut_log(log, 100_000) > 0
    (work / "go").touch()
    assert (await real.end(workload)).outcome is Outcome.SUCCEEDED
    kept = real.bundles.log_span(log)
    assert kept.start > 0
    assert kept.end > span.end
    left = real.bundles.log_part(log, kept.start, 10**7)
    assert left.startswith(content[kept.start :])
    assert b"\nthe end\n" in left


async def test_cells_run_in_their_folder_with_their_environment(real):
    workload = real.workload()
    work = real.folder / "work"
    work.mkdir()
    # A runner that imported from the user's folder would fail.
    (work / "nbclient.py").write_text("raise SystemExit('imported from the user')")
    say = "import os\nprint(os.getcwd(), os.environ['COLOUR'], sorted(k for k in os.environ if 'TOKEN' in k))"
    real.bundles.write(workload.id, "ann", bundle(work, "pass", say), 10**6)
    await real.request(workload)
    end = await real.end(workload)
    assert end.outcome is Outcome.SUCCEEDED, (end, real.bundles.log(workload.id, "ann", 5000, run=1, tasks=range(1)))
    notebook = real.bundles.executed_notebook(workload.id, "ann")
    text = "".join(output.get("text", "") for output in notebook["cells"][-1]["outputs"])
    assert text == f"{work} blue []\n"
    assert not (real.task(workload) / "token").exists()


async def test_a_pause_and_a_resume_continue_from_the_checkpoint(real):
    code = KEEPS + (
        "import jupyter_gq, time\n"
        "at = jupyter_gq.checkpoint_dir() / 'epoch'\n"
        "start = int(at.read_text()) if at.exists() else 0\n"
        "print('from', start)\n"
        "for epoch in range(start, 100000):\n"
        "    keep(at, epoch)\n"
        "    if start: break\n"
        "    if jupyter_gq.should_stop(): break\n"
        "    time.sleep(0.02)\n"
    )
    workload = real.workload()
    real.bundles.write(workload.id, "ann", bundle(real.folder, code), 10**6)
    await real.request(workload)
    epoch = real.job(workload) / "checkpoint/epoch"
    await eventually(lambda: epoch.exists() and int(epoch.read_text()) > 3, "some epochs")
    seen = await real.running(workload)
    await real.backend.stop(workload.id, 1, 30)
    assert (await real.end(workload)).outcome is Outcome.PAUSED
    assert not any(runs(pid) for pid in seen.pids)
    await real.backend.forget(workload.id, 1)
    reached = int(epoch.read_text())
    again = replace(workload, run=2)
    await real.request(again)
    end = await real.end(again)
    assert end.outcome is Outcome.SUCCEEDED, (end, real.bundles.log(workload.id, "ann", 5000, run=1, tasks=range(1)))
    assert f"from {reached}" in json.dumps(real.bundles.executed_notebook(workload.id, "ann"))


TRAINS = (
    "import jupyter_gq\n"
    "at = jupyter_gq.checkpoint_dir() / 'epoch'\n"
    "start = int(at.read_text()) if at.exists() else 0\n"
    "print('from', start)\n"
    "at.write_text(str(start + 17))\n"
)


async def run_to_its_end(real, code, workload=None, **detail):
    """Run a job to its end; return it, how it ended, and its executed notebook or its log as text."""
    workload = workload or real.workload()
    if not real.job(workload).exists():
        real.bundles.write(workload.id, "ann", bundle(real.folder, code), 10**6)
    await real.request(workload, **detail)
    end = await real.end(workload)
    await real.backend.forget(workload.id, workload.run)
    log = real.bundles.log(workload.id, "ann", 5000, run=workload.run, tasks=range(workload.tasks))
    return workload, end, log


async def test_a_job_continues_from_a_copy_of_the_checkpoints_of_one_that_failed(real):
    first, end, _ = await run_to_its_end(real, TRAINS + "raise RuntimeError('at epoch 17')")
    assert end.outcome is Outcome.FAILED
    assert real.bundles.has_checkpoints(first.id, "ann") is True
    epoch = real.job(first) / "checkpoint/epoch"
    before = (epoch.read_text(), epoch.stat().st_mtime_ns, epoch.stat().st_ino)
    second, end, log = await run_to_its_end(real, TRAINS, continue_from=first.id)
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    assert f"Continues from the checkpoints of {first.id}: 1 file, 2 bytes, copied.\n" in log
    assert "from 17" in json.dumps(real.bundles.executed_notebook(second.id, "ann"))
    assert (real.job(second) / "checkpoint/epoch").read_text() == "34"
    assert (epoch.read_text(), epoch.stat().st_mtime_ns, epoch.stat().st_ino) == before
    # A later run of the second job goes on from its own.
    again = replace(second, run=2)
    _, end, log = await run_to_its_end(real, TRAINS, again, continue_from=first.id)
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    assert "Continues" not in log
    assert (real.job(second) / "checkpoint/epoch").read_text() == "51"


async def test_a_job_whose_copy_was_cut_by_a_kill_begins_with_a_whole_one(real):
    first, _, _ = await run_to_its_end(real, TRAINS)
    second = real.workload()
    real.bundles.write(second.id, "ann", bundle(real.folder, TRAINS), 10**6)
    half = real.job(second) / "checkpoint"
    (half / COPYING).touch()  # as a runner that is killed while it copies leaves it
    (half / "epoch").write_text("1")
    assert real.bundles.has_checkpoints(second.id, "ann") is False
    _, end, log = await run_to_its_end(real, TRAINS, second, continue_from=first.id)
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    assert (half / "epoch").read_text() == "34"
    assert [path.name for path in half.iterdir()] == ["epoch"]


async def test_a_job_whose_earlier_job_was_deleted_meanwhile_fails_and_begins_with_nothing(real):
    first, _, _ = await run_to_its_end(real, TRAINS)
    real.bundles.delete(first.id, "ann")
    assert real.bundles.has_checkpoints(first.id, "ann") is False
    second, end, _ = await run_to_its_end(real, TRAINS, continue_from=first.id)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith(f"The job {first.id} has no checkpoints any more, or it wrote none, so nothing")
    assert not (real.job(second) / "checkpoint/epoch").exists()


async def test_all_tasks_of_a_job_continue_from_the_same_copy(real):
    first, _, _ = await run_to_its_end(real, TRAINS)
    reads = "import jupyter_gq\nprint('from', (jupyter_gq.checkpoint_dir() / 'epoch').read_text())"
    gang = real.workload(gpus=1, tasks=3)
    _, end, log = await run_to_its_end(real, reads, gang, continue_from=first.id)
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    assert log.count("Continues from the checkpoints of") == 1


async def test_code_that_raises_is_the_users_failure(real):
    workload = real.workload()
    real.bundles.write(workload.id, "ann", bundle(real.folder, "1 / 0"), 10**6)
    await real.request(workload)
    end = await real.end(workload)
    assert end.outcome is Outcome.FAILED
    assert "ZeroDivisionError" in end.sentence


#: Puts a folder where the result of the run is to be.
BLOCK_THE_RESULT = "import os\nos.makedirs(os.path.join(os.environ['GQ_RUN_DIR'], 'result.json', 'in the way'))"
#: Takes from the run's folder the right to write in it; root has it anyway.
CLOSE_THE_FOLDER = "import os\nos.chmod(os.environ['GQ_RUN_DIR'], 0o500)"


@pytest.mark.parametrize(
    ("code", "why"),
    [(BLOCK_THE_RESULT, "result.json: Is a directory"), (CLOSE_THE_FOLDER, "result.json: Permission denied")],
)
async def test_a_folder_that_does_not_take_the_result_fails_the_run_with_the_reason(real, code, why):
    if code is CLOSE_THE_FOLDER and os.geteuid() == 0:
        pytest.skip("root may write in every folder")
    workload = real.workload()
    real.bundles.write(workload.id, "ann", bundle(real.folder, code), 10**6)
    await real.request(workload)
    end = await real.end(workload)
    assert (end.outcome, end.sentence) == (
        Outcome.FAILED,
        f"The result of this run could not be written. The job's own files could not be written: {why}.",
    )


#: Starts a process without the mark of its run, its session and its parent, and writes the id into the run's folder.
LEAVE_A_DAEMON = (
    "import os, subprocess\n"
    "line = f\"sleep 1000 & echo $! > {os.environ['GQ_RUN_DIR']}/daemon\"\n"
    "_ = subprocess.run(['env', '-i', 'setsid', 'sh', '-c', line], check=True)\n"
)


async def start_with_a_daemon(real, code):
    """Launch a job whose cell leaves a daemon and then runs this code; return the job and the daemon's id."""
    workload = real.workload()
    real.bundles.write(workload.id, "ann", bundle(real.folder, LEAVE_A_DAEMON + code), 10**6)
    await real.request(workload)
    file = real.task(workload) / "daemon"
    # The shell makes the file before it writes the id.
    return workload, int(await eventually(lambda: file.exists() and file.read_text(), "the daemon"))


async def test_daemon_that_a_job_leaves_behind_is_found_and_ended(real):
    workload, daemon = await start_with_a_daemon(real, "")
    assert (await real.end(workload)).outcome is Outcome.SUCCEEDED
    assert not runs(daemon)


async def test_daemon_of_a_job_that_is_stopped_is_ended(real):
    workload, daemon = await start_with_a_daemon(real, "import time\ntime.sleep(1000)")
    assert daemon in (await real.running(workload)).pids
    await real.backend.stop(workload.id, 1, 0)
    real.clock.ahead += 1
    await real.end(workload)
    assert not runs(daemon)


async def test_daemon_outlives_neither_its_runner_nor_a_restart_of_the_service(real):
    workload, daemon = await start_with_a_daemon(real, "import time\ntime.sleep(1000)")
    real.backend = real.new_backend()
    seen = await real.running(workload)
    assert daemon in seen.pids
    table = ProcessTable.read()
    (supervisor,) = [pid for pid in seen.pids if table.process(pid).parent not in seen.pids]
    (runner,) = [pid for pid in seen.pids if table.process(pid).parent == supervisor and pid != daemon]
    os.kill(runner, signal.SIGKILL)
    assert (await real.end(workload)).outcome is Outcome.LOST
    assert not runs(daemon)


async def test_daemon_is_ended_if_the_supervisor_is_killed(real):
    workload, daemon = await start_with_a_daemon(real, "import time\ntime.sleep(1000)")
    real.clock.ahead += 10  # the table of processes is read again
    seen = await real.running(workload)
    assert daemon in seen.pids
    table = ProcessTable.read()
    (supervisor,) = [pid for pid in seen.pids if table.process(pid).parent not in seen.pids]
    os.kill(supervisor, signal.SIGKILL)
    await eventually(lambda: not runs(supervisor), "the end of the supervisor")
    assert (await real.observed(workload)).phase is Phase.RUNNING, "the daemon may use a device"
    real.clock.ahead += 30
    assert (await real.end(workload)).outcome is Outcome.LOST
    assert not runs(daemon)


async def test_job_whose_folder_is_deleted_ends_with_a_sentence(real):
    workload, daemon = await start_with_a_daemon(real, "import time\ntime.sleep(1000)")
    await real.running(workload)
    shutil.rmtree(real.job(workload))
    end = await real.end(workload)
    assert end.outcome is Outcome.FAILED
    assert "was deleted while it ran" in end.sentence
    assert not runs(daemon)
