"""`python -m benchmarks.quota`: its rows."""

import json

import pytest

from benchmarks import quota

HEADER = "job_id,queue,user,submit_s,duration_s,gpus,num_tasks\n"
#: On 2 GPUs a2 is paused for b1; static quotas make it wait for a1. c has no quota, d no job.
JOBS = "a1,a,,0,600,1,1\na2,a,,10,600,1,1\nb1,b,,100,200,1,1\nc1,c,,0,9,1,1\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "jobs.csv").write_text(HEADER + JOBS)
    (tmp_path / "quota.csv").write_text("queue,guaranteed_gpus\na,1\nb,1\nd,0\n")
    return ["--trace", str(tmp_path / "jobs.csv"), "--quota", str(tmp_path / "quota.csv")]


def test_each_figure_stands_beside_static_quotas_and_beside_one_line(files, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert quota.main([*files, "--gpus", "2", "--json", str(out)]) == 1, "it misses the goal for lost work"
    rows = json.loads(out.read_text())
    assert {row["case"] for row in rows} == {"jobs, 2 GPUs"}
    static = {row["figure"]: row for row in rows[:6]}
    line = {row["figure"].removesuffix(", pooled"): row for row in rows[6:]}
    assert list(static) == list(line) == list(quota.FIGURES)
    assert (static["mean wait s"]["ours"], static["mean wait s"]["peer"]) == pytest.approx((200 / 3, 590 / 3))
    assert static["mean wait s"]["goal"] == static["mean wait s"]["peer"]
    assert line["mean wait s"]["peer"] == pytest.approx(500 / 3)
    kept = line["guarantee p99 s"]
    assert (kept["figure"], kept["ours"], kept["peer"], kept["goal"]) == ("guarantee p99 s, pooled", 0, 500, 60)
    assert static["lost %"]["ours"] == pytest.approx(100 * 60 / 1460)
    assert (
        "static quotas have 2 GPUs; 3 jobs in 0 s of CPU time; left out: 1 of queues without a quota"
        in capsys.readouterr().out
    )


def test_the_smallest_pool_with_that_mean_wait(files, capsys):
    """Static quotas need 4 GPUs: of 3 each queue has 1.5, which is one whole device."""
    assert quota.main([*files, "--gpus", "2", "--smallest", "70"]) == 1
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if "smallest pool" in line]
    assert row[-4:-2] == ["2", "4"]


def test_a_wrong_file_or_number_is_one_sentence(files, tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text("nothing")
    with pytest.raises(SystemExit) as ended:
        quota.main(files)
    assert ended.value.code == 2
    assert "the column job_id is missing" in capsys.readouterr().err
