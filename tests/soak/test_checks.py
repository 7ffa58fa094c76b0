"""The judges of a soak run find what they are for: each of these worlds has one fault, or none."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from jupyter_gq.backends.local.environment import MARK
from jupyter_gq.client.models import JobView

from . import checks
from .processes import find_orphans, live_workloads, overcommitted_devices
from .troubles import Damage
from .users import Sent
from .watch import MemorySample, MemoryTrend, Seen, Watcher, fit_memory


def a_view(phase="done", run=1):
    return JobView(
        id="job-1", name="k", owner="u", queue="q", gpus="1", tasks=1, priority=0, phase=phase, sentence="",
        submitted_at=0.0, run=run,
    )  # fmt: skip


def a_piece(seq, number, run=1):
    output = {"output_type": "stream", "name": "stdout", "text": f"n {number}\n"}
    return {"seq": seq, "run": run, "op": "append", "cell": "c1", "output": output}


@pytest.fixture
def sent(tmp_path):
    """A job whose first run wrote 0, 1, 2 and came to its end."""
    (tmp_path / "run-1-17-99").write_text("0\n1\n2\nend\n")
    return Sent("k", "u", "short", tmp_path, id="job-1")


def judged(sent, numbers, view=None, seqs=None):
    pieces = [a_piece(seq, number) for seq, number in zip(seqs or range(1, 100), numbers, strict=False)]
    return checks._judge_outputs(sent, view or a_view(), pieces)


def test_outputs_are_stored_once_in_order_and_completely(sent):
    assert judged(sent, [0, 1, 2]) == []
    for wrong in ([0, 1], [0, 1, 1, 2], [0, 2, 1], []):
        assert "wrote 3 numbers" in judged(sent, wrong)[0]
    assert "gaps or doubles" in judged(sent, [0, 1, 2], seqs=[1, 2, 4])[0]


def test_a_later_run_may_send_all_outputs_again_in_place_of_earlier_pieces(sent):
    (sent.place / "run-1-17-99").write_text("0\n1\n")
    (sent.place / "run-2-18-99").write_text("5\nend\n")
    for last, stored, faults in ((5, (0, 1), 0), (5, (0,), 0), (5, (), 0), (6, (0, 1), 1), (5, (1,), 1)):
        outputs = [a_piece(0, number)["output"] for number in stored]
        whole = {"seq": 4, "run": 2, "op": "set", "cell": "c1", "outputs": outputs}
        pieces = [{**a_piece(2, 0), "op": "cell", "output": {}}, whole, a_piece(last, 5, run=2)]
        assert len(checks._judge_outputs(sent, a_view(run=2), pieces)) == faults


def test_the_last_run_lacks_nothing_also_if_an_earlier_one_had_come_to_its_end(sent):
    (sent.place / "run-2-18-99").write_text("0\n1\nend\n")
    assert judged(sent, [0, 1, 2, 0, 1], a_view(run=2)) == []
    assert judged(sent, [0, 1], a_view(run=2)) == []
    assert "wrote 5 numbers" in judged(sent, [0, 1, 2, 0], a_view(run=2))[0]


def test_a_killed_run_may_lack_its_last_outputs_only(sent):
    (sent.place / "run-1-17-99").write_text("0\n1\n2\n")
    (sent.place / "run-2-18-99").write_text("end\n")
    assert judged(sent, [0, 1], a_view(run=2)) == []
    assert "wrote 3 numbers" in judged(sent, [0, 2], a_view(run=2))[0]


def test_a_cancelled_job_may_lack_its_last_outputs_only_if_its_owner_was_told(sent):
    view = a_view("cancelled")
    assert "wrote 3 numbers" in judged(sent, [0, 1], view)[0]
    told = view.model_copy(update={"sentence": f"Cancelled. {checks.OUTPUTS_LOST}: the database is full."})
    assert judged(sent, [0, 1], told) == []
    assert "wrote 3 numbers" in judged(sent, [0, 2], told)[0]


def test_a_job_that_is_done_came_to_its_end_in_its_last_run(sent):
    assert "did not come to its end" in judged(sent, [0, 1, 2], a_view(run=2))[0]


def test_a_run_executes_its_cell_once_and_alone(sent):
    (sent.place / "run-1-18-99").write_text("0\n1\n2\nend\n")
    assert "executed its cell 2 times" in judged(sent, [0, 1, 2])[0]
    (sent.place / "doubled-1-19-99").touch()
    assert "ran twice at one time" in judged(sent, [0, 1, 2])[0]


@pytest.mark.parametrize(("kind", "phase"), [("short", "done"), ("fails", "failed")])
def test_jobs_end_as_their_script_says(sent, kind, phase):
    sent.kind = kind
    assert checks._judge_phase(sent, a_view(phase), Damage()) == []
    for other in {"done", "failed", "cancelled"} - {phase}:
        assert checks._judge_phase(sent, a_view(other), Damage())


def test_what_was_done_to_a_job_explains_its_end(sent):
    damage = Damage()
    damage.lost_runs["job-1"] = 3
    assert checks._judge_phase(sent, a_view("failed"), damage), "a job survives three lost runs"
    damage.lost_runs["job-1"] = 4
    assert not checks._judge_phase(sent, a_view("failed"), damage)
    damage = Damage(lost_kernels={("job-1", 1)})
    assert not checks._judge_phase(sent, a_view("failed"), damage)
    assert checks._judge_phase(sent, a_view("failed", run=2), damage), "another run's kernel was killed"
    sent.cancelled = True
    assert not checks._judge_phase(sent, a_view("cancelled"), damage)


def test_each_accepted_job_is_in_the_list_once_and_no_other(sent):
    assert checks.compare_list("u", [sent], Counter({"k": 1})) == []
    assert "0 times" in checks.compare_list("u", [sent], Counter())[0]
    assert "2 times" in checks.compare_list("u", [sent], Counter({"k": 2}))[0]
    assert "accepted 0 times" in checks.compare_list("u", [], Counter({"k": 1}))[0]


def test_memory_is_judged_by_the_longest_lived_service():
    flat = [MemorySample(at=float(at), pid=1, mib=100 + at % 3) for at in range(0, 3600, 10)]
    grows = [MemorySample(at=float(at), pid=1, mib=100 + at / 36) for at in range(0, 3600, 10)]
    started = [MemorySample(at=4000.0 + at, pid=2, mib=float(at * 20)) for at in range(20)]
    assert checks.judge_memory(fit_memory(flat + started)) == []
    trend = fit_memory(grows + started)
    assert trend.mib_per_hour == pytest.approx(100)
    assert "grew by 100 MiB an hour" in checks.judge_memory(trend)[0]
    assert "the chart's limit is 1024 MiB" in checks.judge_memory(MemoryTrend(60, 0, 1025))[0]
    assert checks.judge_memory(fit_memory(flat[:3]))


def test_errors_of_the_service_are_found_in_the_log(tmp_path):
    fine = {"level": "INFO", "logger": "jupyter_gq.x", "message": "request GET 200"}
    failed = {"level": "ERROR", "logger": "jupyter_gq.x", "message": "m", "traceback": "Traceback\nKeyError: 1"}
    log = tmp_path / "log"
    full = {"level": "ERROR", "logger": "jupyter_gq.x", "message": "request POST 507", "status": 507}
    log.write_text(f"[E of the Hub] Traceback\n{json.dumps(fine)}\n{json.dumps(full)}\n")
    assert checks.judge_logs([log]) == []
    for why in (
        "The scheduler's database 'gq' at db does not answer (no route).",
        "The disk with the database is full.",
    ):
        said = f"The scheduler service cannot start. {why}"
        log.write_text(json.dumps({"level": "CRITICAL", "logger": "SchedulerService", "message": said}))
        assert checks.judge_logs([log]) == []
    broken = {"level": "ERROR", "logger": "jupyter_gq.x", "message": "request POST 500", "status": 500}
    log.write_text(json.dumps(broken))
    assert checks.judge_logs([log]) == ["the log has: jupyter_gq.x: request POST 500 (1 times)"]
    log.write_text(f"{json.dumps(failed)}\n{json.dumps(failed)}\n")
    assert checks.judge_logs([log]) == ["the log has: jupyter_gq.x: m KeyError: 1 (2 times)"]


@pytest.fixture
def start(tmp_path):
    """Start a process that waits, by default below `tmp_path` with the mark of a run; all end after the test."""
    started = []

    def start(job="", gpus="0", folder=tmp_path):
        mark = {MARK: f"{job}/1/0", "JUPYTER_GQ_GPUS": gpus, "CUDA_VISIBLE_DEVICES": "GPU-1"} if job else {}
        code = "print('up', flush=True); input()"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env=os.environ | mark,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        process.stdout.readline()
        started.append(process)
        return process

    yield start
    for process in started:
        process.communicate(b"\n")


def test_shares_of_living_processes_add_up_to_one_device_at_most(tmp_path, start):
    for job in ("job-1", "job-1", "job-2"):
        start(job, "0.5")
    assert overcommitted_devices(tmp_path) == {}
    start("nb-1", "0")  # a server without a GPU holds no device
    start("job-3", "0.25")
    assert overcommitted_devices(tmp_path) == {"GPU-1": 1.25}
    assert live_workloads(tmp_path) == {"job-1", "job-2", "job-3"}


class LedgerNeverChanges(Watcher):
    """A watcher of a service whose account is always the same."""

    def __init__(self, folder, held) -> None:
        super().__init__(SimpleNamespace(live_workloads=lambda: live_workloads(folder)), Seen())
        self.held = held

    async def read_ledger(self):
        return self.held


def test_a_device_that_nobody_uses_and_a_process_without_a_device_are_found(tmp_path, start):
    start("job-1", "0.5")

    def compare(*held):
        return asyncio.run(LedgerNeverChanges(tmp_path, set(held)).compare(settles_within=0.1))

    assert compare("job-1") == []
    assert "job-2 holds a device and has no process" in compare("job-1", "job-2")[0]
    assert "job-1 has processes and no device" in compare()[0]


def test_a_service_that_does_not_answer_in_calm_is_a_fault(tmp_path):
    watcher = LedgerNeverChanges(tmp_path, None)
    assert "did not answer" in asyncio.run(watcher.compare(settles_within=0.1))[0]


def test_processes_of_runs_and_daemons_in_home_folders_are_orphans(tmp_path, start):
    home = tmp_path / "homes" / "u"
    home.mkdir(parents=True)
    start(folder=tmp_path)  # as the Hub and the service
    assert find_orphans(tmp_path) == []
    run, daemon = start("job-1", "0.5"), start(folder=home)
    left = find_orphans(tmp_path)
    assert sorted(int(sentence.split()[1]) for sentence in left) == sorted([run.pid, daemon.pid])
    assert any("of job-1" in sentence for sentence in left)
    assert any("in a home folder" in sentence for sentence in left)
