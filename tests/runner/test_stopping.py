"""A run that is told to stop saves its results, and the next run continues from there."""

import pytest

from .conftest import Job, Service, eventually

TRAIN = """
import jupyter_gq, time
file = jupyter_gq.checkpoint_dir() / 'epoch'
epoch = int(file.read_text()) if file.exists() else 0
print('starting at', epoch, flush=True)
while epoch < last:
    epoch += 1
    time.sleep(0.02)
    if epoch == 20:
        print('twenty', flush=True)
    if jupyter_gq.should_stop():
        file.write_text(str(epoch))
        print('saved', flush=True)
        break
else:
    print('done', epoch)
"""


def test_pause_and_resume(job: Job, service: Service) -> None:
    job.prefix("last = 10_000", "setup").target(TRAIN)
    job.start()
    eventually(lambda: "twenty" in service.text())
    job.stop()
    result = job.finish()
    assert result["outcome"] == "PAUSED"
    assert job.process.returncode == 0
    assert (job.run_folder() / "stop").exists()
    assert service.pieces()[-1]["op"] == "run"
    assert service.pieces()[-1]["state"] == "pause"
    epoch = int((job.folder / "checkpoint" / "epoch").read_text())
    assert epoch >= 20

    job.cells[0] = ("setup", "prefix", f"last = {epoch + 5}")
    assert job.run(run=2)["outcome"] == "SUCCEEDED"
    # What it says after resuming continues under the same cell.
    assert service.text() == f"starting at 0\ntwenty\nsaved\nstarting at {epoch}\ndone {epoch + 5}\n"
    pieces = service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))
    assert job.notebook()["cells"][1]["outputs"] == service.outputs()


def test_a_task_that_waits_for_the_checkpoints_of_an_earlier_job_is_paused(job: Job, service: Service) -> None:
    job.target("print('ran')")
    # Task 0, which copies them, never comes.
    job.start(task=1, more=("--continue-from", "job-0"))
    eventually((job.folder / "checkpoint").exists)
    job.stop()
    assert job.finish(task=1)["outcome"] == "PAUSED"
    assert job.process.returncode == 0
    assert not service.pieces()


def test_updates_after_resuming_reach_the_right_output(job: Job, service: Service) -> None:
    """The numbers of outputs continue after those of the earlier run."""
    source = (
        "import jupyter_gq, time\n"
        "from IPython.display import display\n"
        "handle = display('first of this run', display_id=True)\n"
        "print('ready', flush=True)\n"
        "while not jupyter_gq.should_stop() and wait: time.sleep(0.02)\n"
        "handle.update('updated')\n"
    )
    job.prefix("wait = True", "setup").target(source)
    job.start()
    eventually(lambda: "ready" in service.text())
    job.stop()
    assert job.finish()["outcome"] == "PAUSED"
    job.cells[0] = ("setup", "prefix", "wait = False")
    job.run(run=2)
    shown = [output.get("text") or output["data"]["text/plain"] for output in service.outputs()]
    again = "The job started again here; what follows is from run 2."
    assert shown == ["'updated'", "ready\n", again, "'updated'", "ready\n"]
    assert again in job.log(2), "the log says it too"


def test_stop_before_the_target_pauses_at_once(job: Job, service: Service) -> None:
    """The target has computed nothing, so there is no result to wait for."""
    job.prefix("import time\nprint('slow', flush=True)\ntime.sleep(100)").target("print('never')")
    job.start()
    eventually(lambda: "slow" in service.text("prefix"))
    job.stop()
    assert job.finish(seconds=90)["outcome"] == "PAUSED"
    assert service.pieces()[-1]["op"] == "run"
    assert job.processes() == []


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_shutdown_of_the_machine_is_a_pause(job: Job, service: Service, order: list[int]) -> None:
    """Kernel and runner get SIGTERM at once, in any order; the job continues once the machine is back."""
    job.target("import time\nprint('running', flush=True)\ntime.sleep(100)")
    job.start()
    eventually(lambda: "running" in service.text())
    (kernel,) = job.processes()
    processes = [job.process, kernel]
    for number in order:
        processes[number].terminate()
    assert job.finish(seconds=90)["outcome"] == "PAUSED"


def test_stop_while_the_kernel_boots(job: Job) -> None:
    job.target("print('never')")
    job.start()
    eventually(lambda: (job.run_folder() / "result.reserve").exists())
    job.stop()
    assert job.finish(seconds=90)["outcome"] == "PAUSED"


def test_cell_that_ignores_the_stop_and_ends_in_time_has_succeeded(job: Job, service: Service) -> None:
    job.target("import time\nprint('running', flush=True)\ntime.sleep(1.5)\nprint('done')")
    job.start()
    eventually(lambda: "running" in service.text())
    job.stop()
    assert job.finish()["outcome"] == "SUCCEEDED"
    assert service.text() == "running\ndone\n"


def test_exception_after_the_stop_was_seen_is_a_pause(job: Job, service: Service) -> None:
    job.target(
        "import jupyter_gq, time\nprint('running', flush=True)\n"
        "while not jupyter_gq.should_stop(): time.sleep(0.02)\n"
        "raise SystemExit('saved')"
    )
    job.start()
    eventually(lambda: "running" in service.text())
    job.stop()
    assert job.finish()["outcome"] == "PAUSED"


def test_target_that_had_ended_starts_without_outputs_after_a_pause(job: Job, service: Service) -> None:
    job.target("print('plot')", "early")
    job.target(
        "import jupyter_gq, time\nprint('running', flush=True)\n"
        "while not jupyter_gq.should_stop() and (jupyter_gq.checkpoint_dir() / 'x').touch() is None: time.sleep(0.02)"
    )
    job.start()
    eventually(lambda: "running" in service.text())
    job.stop()
    assert job.finish()["outcome"] == "PAUSED"
    job.cells[1] = ("target", "target", "print('second run')")
    job.run(run=2)
    assert service.text("early") == "plot\n"
    assert service.text() == "running\nsecond run\n"


def test_a_stop_does_not_wait_for_a_service_that_is_down(job: Job, service: Service) -> None:
    """The next run delivers the pieces that the service lacks."""
    job.target(
        "import jupyter_gq, time\nprint('running', flush=True)\n"
        "while not jupyter_gq.should_stop() and wait: time.sleep(0.02)\n"
        "print('end')"
    )
    job.prefix("wait = True", "setup")
    job.cells.reverse()
    job.start()
    eventually(lambda: "running" in service.text())
    service.kill()
    job.stop()
    assert job.finish(seconds=90)["outcome"] == "PAUSED"
    assert service.text() == "running\n"
    service.start()
    job.cells[0] = ("setup", "prefix", "wait = False")
    assert job.run(run=2)["outcome"] == "SUCCEEDED"
    assert service.text() == "running\nend\nrunning\nend\n"
    pieces = service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))
    told = [piece["state"] for piece in pieces if piece["op"] == "run"]
    assert told == ["start", "ready", "pause", "start", "ready"]
