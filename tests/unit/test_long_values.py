"""Errors repeat the beginning of a wrong value only, so that a long one does not hide what to do."""

import argparse

import pytest

from jupyter_gq.domain.amount import parse_cpus, parse_memory, parse_request
from jupyter_gq.domain.errors import JupyterGQError, NotAMember, UnknownQueue
from jupyter_gq.notebook.durations import parse_duration
from jupyter_gq.planning.traces import read_quotas
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.whatif import apply_change, with_nodes, without_node
from tests.builders import Cluster, a_job

LONG = "x" * 5000


def told_by(act) -> str:
    """The error of the act."""
    with pytest.raises((JupyterGQError, argparse.ArgumentTypeError)) as refused:
        act()
    return str(refused.value)


@pytest.mark.parametrize("parse", [parse_request, parse_cpus, parse_memory, parse_duration])
def test_a_long_amount_is_shortened(parse):
    assert len(told_by(lambda: parse(LONG))) < 400


@pytest.mark.parametrize("error", [UnknownQueue(LONG, ("a",)), NotAMember("ann", LONG, ("a",))])
def test_a_long_name_of_a_queue_is_shortened(error):
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "assignment",
    [
        LONG,
        f"{LONG}.a.b=1",
        f"queue.{LONG}.quota=1",
        f"queue.vision.{LONG}=1",
        f"queue.vision.quota={LONG}",
        f"job.{LONG}.gpus=1",
        f"job.j.queue={LONG}",
        f"policy.{LONG}=1",
        f"policy.reclaim_min_runtime.{LONG}=1",
    ],
    ids=lambda text: text.replace(LONG, "LONG"),
)
def test_a_long_part_of_a_change_is_shortened(assignment):
    snapshot = Cluster().node("box", 4).queue("vision", 4).add(a_job("j", "vision", 2)).snapshot()
    assert len(told_by(lambda: apply_change(snapshot, Policy(), assignment))) < 600


def test_long_names_of_nodes_and_pools_are_shortened():
    snapshot = Cluster().node("box", 4).snapshot()
    assert len(told_by(lambda: without_node(snapshot, LONG))) < 400
    assert len(told_by(lambda: with_nodes(snapshot, 1, 1, LONG))) < 400


def test_a_long_cell_of_a_table_is_shortened(tmp_path):
    table = tmp_path / "q.csv"
    table.write_text(f"queue,guaranteed_gpus\na,{LONG}\n")
    assert len(told_by(lambda: read_quotas(table)).replace(str(table), "")) < 400
