"""What the service makes of the agents' reports."""

import pytest

from jupyter_gq.backends.capabilities import AttestationResult
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.client.agents import AgentAbility, AgentAllocation, AgentReport, AgentShare
from jupyter_gq.devices.meter import ShareUse
from tests.fakes import FixedClock

GIVEN = AgentAllocation(namespace="t", pod="p", container="c", resource="nvidia.com/gpu", device_ids=["GPU-1"])


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def agents(clock):
    return Agents(silent_after=60, now=clock.now)


def hear(agents, **fields):
    """Whether the report of a sound node, with these fields, was news."""
    report = AgentReport(**{"probe": "OK", "allocations": [GIVEN], **fields})
    news = agents.is_news("n", report)
    agents.store_report("n", report, lambda uid: frozenset({"GPU-1"}) if uid == "u" else None)
    return news


def test_what_shares_do_at_the_moment_is_no_news_and_is_known_all_the_same(agents):
    assert hear(agents)
    assert not hear(agents, shares=[AgentShare(pod_uid="u", memory_mib=7, utilisation=90)])
    assert agents.use("u") == ShareUse(memory=7, utilisation=90)
    assert not hear(agents, shares=[AgentShare(pod_uid="u", memory_mib=None, utilisation=0)])
    assert agents.use("u") == ShareUse(memory=None, utilisation=0)


def test_what_a_node_can_do_is_no_news_because_it_decides_nothing(agents):
    ability = AgentAbility(name="MIG", state="off", found="No GPU is partitioned.")
    hear(agents)
    assert not hear(agents, abilities=[ability])
    assert agents.report("n").abilities == [ability]


@pytest.mark.parametrize(
    "fields", [{"probe": "LOST"}, {"allocations": []}, {"allocations": None}, {"missing": {"kubelet": "It is away."}}]
)
def test_a_change_of_the_node_is_news_once(agents, fields):
    hear(agents)
    assert hear(agents, **fields)
    assert not hear(agents, **fields)
    assert hear(agents), "and so is its end"


def test_an_agent_that_was_silent_is_news(agents, clock):
    hear(agents)
    clock.forward(61)
    assert agents.use("u") is None
    assert agents.unfit("n") == "The agent of the node n has been silent for 61 s."
    assert hear(agents)
    assert agents.unfit("n") == ""


def test_a_node_whose_device_plugin_shares_devices_is_refused_also_before_anybody_has_one(agents):
    hear(agents, allocations=[], missing={"shares": "The device plugin hands out copies."})
    assert agents.refused("n") == "n: The device plugin hands out copies."
    hear(agents, allocations=[GIVEN.model_copy(update={"device_ids": ["GPU-1::0"]})])
    assert "GPU-1::0" in agents.refused("n")
    hear(agents)
    assert agents.refused("n") == ""


def test_shares_go_to_no_node_whose_kubelet_the_agent_cannot_ask(agents):
    hear(agents, allocations=None, missing={"kubelet": "There is no socket: mount the kubelet's folder."})
    assert agents.unfit("n") == "n: There is no socket: mount the kubelet's folder."
    assert agents.refused("n") == "", "whole devices need no agent"
    hear(agents)
    hear(agents, allocations=None, missing={"kubelet": "It restarts."})
    assert agents.unfit("n") == "", "what it said before still holds"


def test_a_driver_that_does_not_work_takes_no_new_shares(agents):
    hear(agents, probe="LOST", detail="It fell off the bus.")
    assert agents.unfit("n") == "The driver of the node n does not work: It fell off the bus."


def test_a_pod_that_sees_other_devices_than_its_own_is_named_when_it_does_so_twice(agents):
    def wrong(*visible):
        share = AgentShare(pod_uid="u", visible=list(visible))
        report = AgentReport(probe="OK", shares=[share, AgentShare(pod_uid="unknown", visible=["GPU-7"])])
        return agents.store_report("n", report, lambda uid: frozenset({"GPU-1"}) if uid == "u" else None)

    assert wrong("GPU-1", "GPU-2") == frozenset()
    assert wrong("GPU-2") == {"u"}
    assert wrong("GPU-1") == frozenset()
    assert wrong() == frozenset()
    assert wrong() == {"u"}, "none of its own"


def test_what_is_known_of_the_devices_that_a_pod_sees(agents, clock):
    def tell(*visible, uid="u", **fields):
        share = AgentShare(pod_uid=uid, visible=list(visible) if visible != (None,) else None)
        hear(agents, shares=[share], **fields)
        return agents.attestation("n", uid)

    assert agents.attestation("n", "u") is AttestationResult.UNWATCHED
    hear(agents)
    assert agents.attestation("n", "u") is AttestationResult.UNCHECKED
    assert tell("GPU-1") is AttestationResult.RIGHT
    assert tell("GPU-1", "GPU-2") is AttestationResult.UNCHECKED, "it may still be set up"
    assert tell("GPU-1", "GPU-2") is AttestationResult.WRONG
    assert tell("GPU-1") is AttestationResult.RIGHT
    assert tell(None) is AttestationResult.UNCHECKED, "its processes may only have begun"
    clock.forward(5)
    assert agents.attestation("n", "u") is AttestationResult.UNCLEAR
    assert "cannot tell" in agents.explain_unclear_check("n", "u")
    assert tell(None, missing={"visible": "The driver does not say."}) is AttestationResult.UNCLEAR
    assert agents.explain_unclear_check("n", "u") == "The driver does not say."
    tell(None, missing={"devices": "The driver counts another device."})
    assert agents.explain_unclear_check("n", "u") == "The driver counts another device."
    assert tell("GPU-1", uid="unknown") is AttestationResult.UNCHECKED, "whose devices are not known"
    clock.forward(61)
    assert agents.attestation("n", "u") is AttestationResult.UNWATCHED


def test_of_a_slice_of_a_gpu_it_cannot_be_told_and_nobody_is_stopped(agents):
    """The kubelet names the slice, the agent sees the GPU that it is a slice of."""
    report = AgentReport(probe="OK", shares=[AgentShare(pod_uid="u", visible=["GPU-1"])])
    for _ in range(3):
        assert agents.store_report("n", report, lambda uid: frozenset({"MIG-7"})) == frozenset()
    assert agents.attestation("n", "u") is AttestationResult.UNCLEAR, "and nobody waits for it"
    assert agents.explain_unclear_check("n", "u").startswith("The pod was given MIG-7, a slice of a GPU")


def test_what_a_pod_sees_is_news_once(agents):
    """A pod waits for that before it begins."""
    hear(agents)
    assert hear(agents, shares=[AgentShare(pod_uid="u", visible=["GPU-1"])])
    assert not hear(agents, shares=[AgentShare(pod_uid="u", visible=["GPU-1"])])
    assert hear(agents, shares=[AgentShare(pod_uid="u", visible=[])])


def test_what_is_wrong_with_a_share_is_news_once(agents):
    hear(agents)
    assert hear(agents, shares=[AgentShare(pod_uid="u", trouble="It stands still.")])
    assert not hear(agents, shares=[AgentShare(pod_uid="u", trouble="It stands still.")])
    assert hear(agents, shares=[AgentShare(pod_uid="u")])


def test_trouble_belongs_to_one_share(agents):
    hear(agents, shares=[AgentShare(pod_uid="u", trouble="It stands still."), AgentShare(pod_uid="v")])
    assert [agents.trouble("n", uid) for uid in ("u", "v", "w")] == ["It stands still.", "", ""]


def test_what_the_kubelet_said_stays_known_while_it_cannot_be_asked(agents, clock):
    hear(agents)
    heard_at = clock.now()
    clock.forward(5)
    hear(agents, allocations=None)
    assert agents.given("n", "t", "p", "nvidia.com/gpu") == ("GPU-1",)
    assert agents.allocations_reported_at("n") == heard_at, "it was not said since"
