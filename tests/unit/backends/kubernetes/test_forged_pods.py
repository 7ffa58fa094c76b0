"""Whoever may create pods may write any label and annotation: what cannot be ours is not read as ours."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names

POD = PodView(namespace="hub", name="forged", uid="u", node="n1", phase="Running", labels={names.WORKLOAD: "nb"})


def slots_of(text):
    return replace(POD, annotations={names.SLOTS: text}).slots


def test_slots_are_read_as_they_are_written():
    written = (names.slot_of("gpu-1.company.example", 0), names.slot_of("n", names.MOST_SLOTS - 1))
    assert slots_of(",".join(written)) == written
    assert [names.index_of(slot) for slot in written] == [0, 4095]


@pytest.mark.parametrize(
    "text",
    [
        "n1/x",
        "n1/",
        "/0",
        "0",
        "n1/-7",
        "n1/1_0",
        "n1/00",
        "n1/²",
        "n1/ 1",
        "n1/4096",
        "n1/2000000000",
        "n1/" + "9" * 5000,
    ],
)
def test_what_names_no_slot_of_a_node_is_left_out_with_all_beside_it(text):
    assert slots_of(text) == ()
    assert slots_of(f"n1/0,{text}") == ()


@pytest.mark.parametrize(
    ("text", "task", "tasks"), [("63", 63, 63), ("64", 0, 64), ("65", 0, 1), ("-1", 0, 1), ("1e9", 0, 1)]
)
def test_a_pod_is_one_of_no_more_tasks_than_a_job_can_have(text, task, tasks):
    pod = replace(POD, labels={names.TASK: text}, annotations={names.TASKS: text})
    assert (pod.task, pod.of_tasks) == (task, tasks)
