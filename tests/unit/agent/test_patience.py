"""A driver that hangs holds up neither the reports nor the end of the agent."""

import threading

import pytest

from jupyter_gq.agent.patience import PatientLook
from jupyter_gq.client.agents import AgentReport, WatchedPod

pytestmark = pytest.mark.asyncio
WATCH = [WatchedPod(pod_uid="u", namespace="team", pod="a")]


class Hangs:
    """A node whose driver answers only when the test lets it."""

    def __init__(self):
        self.may_answer, self.looks = threading.Event(), 0

    def look(self, watch):
        self.looks += 1
        self.may_answer.wait(30)
        return AgentReport(probe="OK", detail=f"look {self.looks}")


class Breaks:
    """A node that cannot be looked at for a defect of ours."""

    def look(self, watch):
        raise RuntimeError("a defect")


@pytest.fixture
def node():
    node = Hangs()
    yield node
    node.may_answer.set()


async def test_while_the_driver_hangs_all_is_unknown_and_it_is_not_asked_again(node):
    looks = PatientLook(node, 0.05)
    for _ in range(3):
        report = await looks.look(WATCH)
        assert report.probe == "BROKEN"
        assert "0.05 seconds" in report.detail
        assert (report.allocations, report.devices) == (None, [])
        assert [(share.pod_uid, share.memory_mib, share.utilisation, share.visible) for share in report.shares] == [
            ("u", None, None, None)
        ]
        assert {"suspend", "kubelet"} <= set(report.missing)
    assert node.looks == 1


async def test_when_it_answers_again_what_the_late_look_saw_is_not_told(node):
    looks = PatientLook(node, 0.5)
    assert (await looks.look(WATCH)).probe == "BROKEN"
    node.may_answer.set()
    assert (await looks.look(WATCH)).detail == "look 2"
    assert (await looks.look(WATCH)).detail == "look 3"


async def test_a_look_in_time_is_told(node):
    node.may_answer.set()
    assert (await PatientLook(node, 10).look(WATCH)).detail == "look 1"


async def test_a_defect_is_raised_where_the_look_is_awaited():
    looks = PatientLook(Breaks(), 10)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a defect"):
            await looks.look(WATCH)
