"""Devices are prepared for each task of a run on its own."""

from dataclasses import replace

from jupyter_gq.backends.kubernetes.shares.preparation import DevicePreparation
from jupyter_gq.domain.workload import TaskPlacement
from tests.builders import a_job

from .paper import Paper

LENT, FREE = "n1/0", "n1/1"


def test_slot_of_a_task_by_count_is_not_claimed_because_the_device_of_another_task_is_named():
    paper = Paper()
    preparation = DevicePreparation(nodes=paper.nodes, agents=paper.agents, reservation_pods=paper.slots)
    places = (TaskPlacement(node="n1", devices=(LENT,)), TaskPlacement(node="n1", devices=(FREE,)))
    gang = replace(a_job("gang", "q", tasks=2), placement=places)
    preparation.claim(gang, {LENT: "GPU-0"})
    assert paper.slots.is_in_use(LENT)
    assert not paper.slots.is_in_use(FREE), "the device plugin has chosen its device"
