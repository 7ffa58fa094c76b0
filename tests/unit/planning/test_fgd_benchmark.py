"""The fragmentation experiment: its rules, on a cluster of two nodes, and what it says of bad files."""

import json
import sys

import pytest

from benchmarks import fgd
from jupyter_gq.scheduling.policy import PlacementStrategy

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,1000,2,T4\nb,8000,1000,2,A100\n"
PODS = (
    "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "1000,10,1,1000,\n1000,10,1,500,\n1000,10,2,1000,A100|V100\n9000,10,1,1000,\n1000,10,0,0,\n"
)
PUBLISHED = "workload,sc_policy,100,130\nsmall,06-FGD,50,60\nother,06-FGD,1,2\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / fgd.NODES.removesuffix(".gz")).write_text(NODES)
    (tmp_path / "small.csv").write_text(PODS)
    (tmp_path / fgd.PUBLISHED).write_text(PUBLISHED)
    return tmp_path


def run(monkeypatch, folder, *more):
    nodes = ("--nodes", str(folder / fgd.NODES.removesuffix(".gz")))
    monkeypatch.setattr(sys, "argv", ["fgd", "--pods", str(folder / "small.csv"), *nodes, "--seeds", "2", *more])
    fgd.main()


def test_the_table_has_both_figures_of_each_policy_beside_the_published_ones(files, monkeypatch, capsys):
    run(monkeypatch, files, "--json", str(files / "out.json"))
    rows = json.loads((files / "out.json").read_text())
    assert [(row["case"], row["figure"]) for row in rows] == [
        (str(placement), f"allocated % at {percent}") for placement in PlacementStrategy for percent in (100, 130)
    ]
    assert {(row["figure"], row["peer"]) for row in rows} == {("allocated % at 100", 50), ("allocated % at 130", 60)}
    assert [row["goal"] for row in rows] == [None] * 4 + [50, 60]
    assert all(0 < row["ours"] <= 100 for row in rows)
    assert "06-FGD" in capsys.readouterr().out


def test_pods_arrive_up_to_130_percent_and_the_seed_decides_their_order(files):
    pods = fgd.read_pods(files / "small.csv")
    first = fgd.arrivals(pods, 5200, 42)
    assert first == fgd.arrivals(pods, 5200, 42)
    assert sum(pod.total for pod in first) <= 5200
    assert first != fgd.arrivals(pods, 5200, 43)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("small.csv", "cpu_milli,memory_mib,num_gpu,gpu_milli\n", "there is no column gpu_spec"),
        ("small.csv", PODS + "1000,10,1,-5,\n", r"line 7: gpu_milli is '-5'. Write a whole number"),
        ("small.csv", PODS + "1000,10,1,1500,\n", r"line 7: gpu_milli is 1500. Write 1 to 1000"),
        ("small.csv", "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1,1,0,0,\n", "no pod asks for a GPU"),
        ("openb_node_list_gpu_node.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n", "no node has a GPU"),
        ("openb_node_list_gpu_node.csv", NODES + "c,many,1,0,\n", "line 4: cpu_milli is 'many'"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(files, monkeypatch, name, text, words):
    (files / name).write_text(text)
    with pytest.raises(SystemExit, match=words):
        run(monkeypatch, files)
