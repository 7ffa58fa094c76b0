"""A driver that hangs delays neither the reports nor the end of the agent."""

import threading

import pytest

from jupyter_gq.agent.observer import NodeObserver
from jupyter_gq.client.agents import AgentReport, WatchedPod
from tests.patience import scaled

pytestmark = pytest.mark.asyncio
WATCH = [WatchedPod(pod_uid="u", namespace="team", pod="a")]


class HangingNode:
    """A node whose driver answers only once the test allows it."""

    def __init__(self):
        self.may_answer, self.observations = threading.Event(), 0

    def observe(self, watch):
        self.observations += 1
        self.may_answer.wait(scaled(30))
        return AgentReport(probe="OK", detail=f"observation {self.observations}")


class BrokenNode:
    """A node that cannot be observed because of a defect in the agent."""

    def observe(self, watch):
        raise RuntimeError("a defect")


@pytest.fixture
def node():
    node = HangingNode()
    yield node
    node.may_answer.set()


async def test_everything_is_unknown_while_the_driver_hangs_and_no_second_call_is_made(node):
    observer = NodeObserver(node, 0.05)
    for _ in range(3):
        report = await observer.observe(WATCH)
        assert report.probe == "BROKEN"
        assert "0.05 seconds" in report.detail
        assert (report.allocations, report.devices) == (None, [])
        assert [(share.pod_uid, share.memory_mib, share.utilisation, share.visible) for share in report.shares] == [
            ("u", None, None, None)
        ]
        assert {"suspend", "kubelet"} <= set(report.missing)
    assert node.observations == 1


async def test_late_observation_is_dropped_and_a_new_one_is_reported(node):
    observer = NodeObserver(node, 0.5)
    assert (await observer.observe(WATCH)).probe == "BROKEN"
    node.may_answer.set()
    observer._timeout = scaled(30)  # a thread may take a while to begin
    assert (await observer.observe(WATCH)).detail == "observation 2"
    assert (await observer.observe(WATCH)).detail == "observation 3"


async def test_observation_within_the_timeout_is_reported(node):
    node.may_answer.set()
    assert (await NodeObserver(node, 10).observe(WATCH)).detail == "observation 1"


async def test_defect_is_raised_where_the_observation_is_awaited():
    observer = NodeObserver(BrokenNode(), 10)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a defect"):
            await observer.observe(WATCH)
