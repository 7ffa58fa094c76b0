"""`jupyter-gq simulate`: what it prints, writes and refuses."""

import io
import json

import pytest

from jupyter_gq.app import main
from jupyter_gq.planning import simulate
from jupyter_gq.planning.progress import ProgressLine

HEADER = "job_id,queue,user,submit_s,duration_s,gpus,num_tasks\n"
MORE = HEADER.replace("\n", ",cpus,memory\n")
#: a borrows the GPU of b from 10 on; b wants it back at 100; a continues when b's job has ended.
JOBS = "a1,a,,0,600,1,1\na2,a,,10,600,1,1\nb1,b,,100,200,1,1\n"


@pytest.fixture
def command(tmp_path):
    def run(*options: str, jobs: str = JOBS, quota: str = "a,1\nb,1\n", header: str = HEADER) -> int:
        (tmp_path / "jobs.csv").write_text(header + jobs)
        (tmp_path / "quota.csv").write_text("queue,guaranteed_gpus\n" + quota)
        files = (str(tmp_path / "jobs.csv"), "--quota", str(tmp_path / "quota.csv"))
        return main(["simulate", *files, *(options or ("--gpus", "2"))])

    return run


def cells(text: str, first: str) -> list[str]:
    """The cells of the line of a table that begins like that."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(first)]
    return [cell.strip() for cell in line.strip().removeprefix(first).split("  ") if cell.strip()]


def test_it_prints_the_figures_beside_static_quotas(command, capsys):
    assert command() == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "jobs.csv: 3 jobs of 2 queues over 10 min, on 2 GPUs in nodes of 8, placement pack and fragmentation\n"
    )
    assert cells(text, "GPUs ") == ["2", "2"]
    assert cells(text, "used") == ["98.4 %", "66.4 %"]
    assert cells(text, "wait, mean") == ["67 s", "197 s"]
    assert cells(text, "wait, 95 of 100") == ["up to", "200 s", "9.8 min"]
    assert cells(text, "preemptions") == ["1", "0"]
    assert cells(text, "GPU-hours lost") == ["0.0 (4.11 %)", "0.0 (0.00 %)"]
    assert cells(text, "guarantee kept, 99 of 100 within") == ["0 s", "0 s"]
    assert cells(text, "a ")[:4] == ["1", "2", "100 s", "200 s"]
    assert cells(text, "b ")[-2:] == ["1", "0 s"]
    assert cells(text, "all")[1:3] == ["3", "67 s"]


#: Both fit by GPUs; each needs most of the memory of the node.
MEMORY = "a1,a,,0,100,1,1,4,48\na2,a,,0,100,1,1,4,48\n"


def test_jobs_that_fit_by_gpus_and_not_by_memory_run_one_after_the_other(command, capsys):
    options = ("--gpus", "2", "--nodes-of", "2", "--node-cpus", "64", "--node-memory", "64 GiB")
    assert command(*options, jobs=MEMORY, quota="a,2\n", header=MORE) == 0
    text = capsys.readouterr().out
    assert "on 2 GPUs in nodes of 2 with 64 CPU cores and 64 GiB, placement" in text
    assert cells(text, "wait, mean") == ["50 s", "0 s"]
    assert "not counted" not in text


def test_cpu_and_memory_that_are_not_counted_are_told(command, capsys):
    assert command("--gpus", "2", jobs=MEMORY, quota="a,2\n", header=MORE) == 0
    text = capsys.readouterr().out
    assert cells(text, "wait, mean") == ["0 s", "0 s"]
    assert "  not counted: the CPU that jobs need; say how much each node has with --node-cpus\n" in text
    assert "  not counted: the memory that jobs need; say how much each node has with --node-memory\n" in text


def test_an_option_that_no_job_asks_for_is_told(command, capsys):
    assert command("--gpus", "2", "--node-cpus", "64") == 0
    assert "  not counted: --node-cpus: no job says how much CPU it needs\n" in capsys.readouterr().out


def test_a_job_that_needs_more_memory_than_a_node_has_is_left_out(command, capsys):
    options = ("--gpus", "2", "--nodes-of", "2", "--node-memory", "64")
    assert command(*options, jobs=MEMORY + "big,a,,0,9,1,1,,65\n", quota="a,2\n", header=MORE) == 0
    assert "left out: 1 job that would not fit on the empty pool\n" in capsys.readouterr().out


def test_what_is_no_amount_of_memory_is_refused(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        command("--gpus", "2", "--node-memory", "much")
    assert "--node-memory: 'much' is not a valid amount of memory: it is not a number" in capsys.readouterr().err


def test_more_to_compare_with(command, capsys):
    assert command("--gpus", "2", "--compare") == 0
    text = capsys.readouterr().out
    assert cells(text, "wait, mean") == ["67 s", "197 s", "197 s", "167 s"]


def test_the_price_of_a_pause_and_the_nodes_can_be_set(command, capsys, tmp_path):
    assert command("--gpus", "2", "--lost-per-pause", "0", "--nodes-of", "1", "--policy", "spread") == 0
    assert cells(capsys.readouterr().out, "GPU-hours lost")[0] == "0.0 (0.00 %)"


def test_what_could_never_run_and_who_has_no_quota_is_left_out_and_said(command, capsys):
    odd = "big,a,,0,9,4,1\nc1,c,,0,9,1,1\nc2,c,,0,9,1,1\n"
    assert command("--gpus", "3", jobs=JOBS + odd + "two,b,,0,9,2,1\n") == 0
    text = capsys.readouterr().out
    assert "left out: 2 jobs of 1 queue without a quota (c)\n" in text
    assert "left out: 1 job that would not fit on the empty pool\n" in text
    assert "left out: 1 job above the whole static quota of the queue\n" in text


def test_the_figures_are_written_as_json(command, tmp_path):
    assert command("--gpus", "2", "--json", str(tmp_path / "out.json")) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    ours = found["policies"]["guaranteed quotas"]
    assert (ours["preemptions"], ours["used_gpu_hours"]) == (1, pytest.approx(1460 / 3600))
    assert ours["queues"]["a"]["p95_wait"] == 200
    assert found["policies"]["static quotas"]["gpus"] == 2
    assert found["left_out"] == {"without_quota": 0, "above_pool": 0, "above_static_quota": 0}


def test_a_picture_is_drawn(command, tmp_path):
    assert command("--gpus", "2", "--plot", str(tmp_path / "out.png")) == 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_many_queues_and_of_a_job_of_no_length(command, tmp_path):
    jobs = "".join(f"j{i},q{i},,{i},{0 if i else 86_400 * 9},0.5,1\n" for i in range(12))
    quota = "".join(f"q{i},1\n" for i in range(12))
    assert command("--gpus", "2", "--plot", str(tmp_path / "out.svg"), jobs=jobs, quota=quota) == 0
    assert "5 other queues" in (tmp_path / "out.svg").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--gpus", "2", "--policy", "tetris"), "--policy 'tetris': there is no such placement; expected pack, spread"),
        (("--gpus", "2", "--plot", "/nowhere/x.png"), "/nowhere/x.png cannot be written: there is no folder /nowhere"),
        (("--gpus", "2", "--plot", "x.txt"), "x.txt cannot be drawn"),
    ],
)
def test_a_wrong_option_is_one_sentence(command, capsys, options, sentence):
    assert command(*options) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"jupyter-gq simulate: {sentence}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("options", [("--gpus", "0"), ("--gpus", "1.5"), ("--gpus", "2", "--lost-per-pause", "-1")])
def test_a_wrong_number_is_refused(command, options):
    with pytest.raises(SystemExit, match="2"):
        command(*options)


def test_a_wrong_line_is_one_sentence(command, capsys):
    assert command(jobs=JOBS + "b2,b,,-1,9,1,1\n") == 2
    assert "jobs.csv, line 5: submit_s is '-1': it is negative" in capsys.readouterr().err


def test_a_pool_on_which_nothing_fits_is_refused(command, capsys):
    assert command("--gpus", "1", jobs="a1,a,,0,9,4,1\n", quota="a,4\n") == 2
    assert "No job of " in capsys.readouterr().err


def test_ctrl_c_ends_it_in_one_line(command, capsys, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "guaranteed", interrupted)
    assert command() == 130
    assert capsys.readouterr().err == "\nInterrupted: nothing was written.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_once_a_percent():
    terminal = Terminal()
    progress = ProgressLine("static quotas", terminal)
    for done in range(1001):
        progress(done, 1000)
    assert terminal.getvalue().count("\r") == 101
    assert (
        "\rstatic quotas                ███████████████░░░░░░░░░░░░░░░  50 %  500 of 1,000 jobs " in terminal.getvalue()
    )
    progress.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_is_not_shown_in_a_file():
    file = io.StringIO()
    ProgressLine("static quotas", file)(1, 2)
    assert file.getvalue() == ""
