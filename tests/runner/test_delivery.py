"""Output has no gap and no duplicate, whatever happens to the service and to the runner."""

import json
import subprocess
import sys
import time

import pytest

from jupyter_gq.backends.local.accounts import UnixAccounts
from jupyter_gq.backends.local.spools import read_spool
from jupyter_gq.client.exit_status import OUTPUTS_LOST
from tests.patience import scaled

from .conftest import Job, Service, eventually

#: A runner whose folder goes with it, and who waits half a second where it would wait an hour.
HASTY = """
import sys
from pathlib import Path
from jupyter_gq.runner import boot, run
from jupyter_gq.runner.files.folder import RunFolder
run.EPHEMERAL_DELIVERY_TIMEOUT = float(sys.argv[2])
sys.exit(boot.boot(RunFolder(job=Path(sys.argv[1]), run=1, task=0), ephemeral=True))
"""

COUNT = "import time\nfor n in range(40):\n    print(n, flush=True)\n    time.sleep(0.05)"
NUMBERS = "".join(f"{n}\n" for n in range(40))


def test_no_output_is_lost_if_the_service_is_killed_and_restarted(job: Job, service: Service) -> None:
    job.target(COUNT)
    job.start()
    eventually(lambda: "5\n" in service.text())
    service.kill()
    time.sleep(0.8)
    service.start()
    assert job.finish()["outcome"] == "SUCCEEDED"
    assert service.text() == NUMBERS
    pieces = service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))


def test_run_does_not_wait_for_a_service_that_is_down_and_leaves_its_outputs(job: Job, service: Service) -> None:
    """The service finds the outputs in the folder of the run; nothing of the run holds a GPU meanwhile."""
    service.kill()
    job.target("print('kept')")
    job.start()
    eventually(lambda: (job.folder / "output.ipynb").exists() and not job.processes())
    kernel_ended = time.perf_counter()
    assert job.finish()["outcome"] == "SUCCEEDED"
    assert time.perf_counter() - kernel_ended < scaled(60), "the run waits for the service"
    account = UnixAccounts(system_users=False).look_up("ann")
    left = read_spool(job.run_folder() / "spool.jsonl", account, 0)
    texts = [piece["output"]["text"] for piece in left.pieces if piece["op"] == "append"]
    assert texts == ["kept\n"]


def test_files_that_are_deleted_while_the_job_prints_end_it_with_a_sentence(job: Job, service: Service) -> None:
    job.target("import time\nfor n in range(1000):\n    print(n, flush=True)\n    time.sleep(0.1)")
    job.start()
    eventually(lambda: "2\n" in service.text())
    for file in job.run_folder().iterdir():
        if file.is_file():
            file.unlink()
    result = job.finish()
    assert result["outcome"] == "FAILED"
    assert "were deleted while it ran" in result["sentence"]


@pytest.mark.parametrize(("stopped", "outcome"), [(False, "FAILED"), (True, "PAUSED")])
def test_run_whose_output_is_lost_with_its_folder_does_not_succeed(
    job: Job, service: Service, stopped: bool, outcome: str
) -> None:
    service.kill()
    job.target("print('kept')").write_bundle()
    job.run_folder().mkdir(parents=True)
    (job.run_folder() / "token").write_text("secret-of-the-job")
    environment = {**job.environment(), "GQ_STOP_GRACE": "2"}
    command = [sys.executable, "-c", HASTY, str(job.folder), "100" if stopped else "0.5"]
    with (job.run_folder() / "log").open("ab") as log:
        job.process = subprocess.Popen(command, cwd=job.cwd, env=environment, stdout=log, stderr=log)
    if stopped:
        eventually(lambda: (job.folder / "output.ipynb").exists() and not job.processes())
        job.stop()
    result = job.finish(seconds=90)
    assert result["outcome"] == outcome
    assert "last outputs are lost, because the scheduler service did not take them" in result["sentence"]
    assert result["sentence"].startswith(OUTPUTS_LOST) == stopped


def test_next_run_delivers_the_output_of_a_killed_runner(job: Job, service: Service) -> None:
    """The next run delivers it first, then goes on numbering."""
    job.target("import time\nprint('one', flush=True)\ntime.sleep(100)")
    job.start()
    eventually(lambda: "one" in service.text())
    service.kill()
    job.cells = [("target", "target", "print('two')")]
    spool = job.run_folder() / "spool.jsonl"
    with spool.open("a") as file:
        last = json.loads(spool.read_text().splitlines()[-1])
        output = {"output_type": "stream", "name": "stdout", "text": "one and a half\n"}
        file.write(json.dumps({**last, "seq": last["seq"] + 1, "output": output}) + "\n")
        file.write('{"seq": 99, "run": 1, "torn')
    job.clean_up()
    service.start()
    assert job.run(run=2)["outcome"] == "SUCCEEDED"
    pieces = service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))
    assert service.text() == "one\none and a half\ntwo\n"


def test_endless_printer_is_bounded_and_its_end_is_kept(job: Job, service: Service) -> None:
    job.target(
        "import time\n"
        "begun = time.time()\n"
        "n = 0\n"
        "while time.time() - begun < 4:\n"
        "    n += 1\n"
        "    print(n, 'x' * 100)\n"
        "print('the end')"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    first, *_, last = service.outputs()
    assert "left out here" in first["data"]["text/plain"]
    assert last["text"].endswith("the end\n")
    assert sum(len(output.get("text", "")) for output in service.outputs()) <= 1024 * 1024
    assert service.file.stat().st_size < 6 * 1024 * 1024
    assert job.notebook()["cells"][0]["outputs"] == service.outputs()


def test_ten_thousand_lines_that_overwrite_each_other_are_the_last_one(job: Job, service: Service) -> None:
    job.target("for step in range(10_000):\n    print(f'\\rstep {step}', end='', flush=step % 20 == 0)")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "step 9999"
    assert job.notebook()["cells"][0]["outputs"] == service.outputs()
    assert service.file.stat().st_size < 100_000, "lines that are gone before they are sent are not sent"


def test_a_huge_display_is_replaced_by_a_notice(job: Job, service: Service) -> None:
    job.target("from IPython.display import HTML\nHTML('x' * 50_000_000)")
    assert job.run()["outcome"] == "SUCCEEDED"
    text = service.outputs()[0]["data"]["text/plain"]
    assert "47.7 MiB" in text
    assert "left out" in text
    assert service.file.stat().st_size < 10_000


def test_unwanted_job_ends_without_waiting(job: Job, service: Service) -> None:
    """A job that the service does not know (any more) does not keep its runner."""
    job.env = {"GQ_JOB_ID": "job-unknown"}
    job.target("print(1)")
    assert job.run()["outcome"] == "SUCCEEDED"


_TQDM = (
    "from {module} import tqdm\nfor _ in tqdm(range(2)): pass",
    "bar = tqdm(total=4, desc='epochs')\nbar.update(3)\nbar.refresh()\n",
)
_RICH = (
    "from rich.progress import Progress, track\nfor _ in track(range(2)): pass",
    "bar = Progress()\nbar.start()\nbar.update(bar.add_task('epochs', total=4), advance=3, refresh=True)\n",
)


@pytest.mark.parametrize(
    ("bars", "module"),
    [(_TQDM, "tqdm"), (_TQDM, "tqdm.notebook"), (_RICH, "rich")],
    ids=["tqdm", "widgets of tqdm", "rich"],
)
def test_heartbeats_carry_the_progress_of_a_bar(job, service, bars, module):
    earlier, target = bars
    job.prefix(earlier.format(module=module))
    job.target(f"import time\n{target}time.sleep(3600)")
    job.start()
    eventually(lambda: [beat for beat in service.beats() if (beat["progress"] or {}).get("fraction") == 0.75])
    assert service.beats()[-1]["progress"]["text"].startswith("epochs")
    assert not [beat for beat in service.beats() if (beat["progress"] or {}).get("fraction") == 1], "a replayed bar"


def test_heartbeats_name_the_replayed_cell_that_runs_until_the_target_begins(job, service):
    job.prefix("x = 1")
    job.prefix("import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)", cell_id="second")
    job.target("import time\ntime.sleep(3600)")
    job.start()
    said = {"fraction": None, "text": "Runs cell 2 of 2 before the one that was sent."}
    eventually(lambda: service.beats() and service.beats()[-1]["progress"] == said)
    (job.cwd / "go").touch()
    eventually(lambda: service.beats()[-1]["progress"] == {"fraction": None, "text": ""})


def test_reported_progress_counts_more_than_a_bar(job, service):
    job.prefix("import jupyter_gq\nfrom tqdm import tqdm")
    job.target("for _ in tqdm(range(4)): jupyter_gq.progress(1, 10, 'mine')")
    job.run()
    assert service.beats()[-1]["progress"] == {"fraction": 0.1, "text": "mine"}


def test_no_printed_line_ends_a_job_or_its_heartbeats(job, service):
    job.target(
        "import jupyter_gq, time\n"
        "print('Epoch 1/1' + '0' * 5000 + '\\n37/100 ━━━━━━━━ 12s', flush=True)\n"
        "print('\\0\\u202e 50%|█████     | 1/2', flush=True)\n"
        "while not jupyter_gq.should_stop(): time.sleep(0.05)\n"
    )
    job.start()
    eventually(lambda: len(service.beats()) >= 3 and service.beats()[-1]["progress"]["fraction"] == 0.5)
    job.stop()
    assert job.finish()["outcome"] == "PAUSED", job.log()
