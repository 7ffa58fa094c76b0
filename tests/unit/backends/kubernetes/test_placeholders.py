"""Placeholders: one for each node that is wanted, until it is there, and never again and again."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.views import NodeView, PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.new_nodes import new_nodes
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.nodes.placeholders import Placeholders
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.agents import AgentDevice, AgentReport
from jupyter_gq.domain.cluster import SHARE_LABEL
from jupyter_gq.domain.pod_pool import PodPool, ScaleUp

from .paper import GPU, OPTIONS, Clock, WritesOnPaper

POOL = PodPool(name="p", selector={"pool": "p"}, scale_up=ScaleUp(gpus=2, nodes=3, cpu_milli=8000))
FIRST, SECOND = "gq-grow-p-0", "gq-grow-p-1"


class Growing:
    """A pool that grows, on paper."""

    def __init__(self):
        self.clock, self.writes, self.pools = Clock(), WritesOnPaper(), [POOL]
        self.agents = Agents(silent_after=60.0, now=self.clock.now)
        self.nodes = Nodes(pools=lambda: self.pools, agents=self.agents, now=self.clock.now, lost_after=60.0)
        self.used = set()
        self.pods = {}
        self.asked = self.service()

    def service(self):
        return Placeholders(
            OPTIONS,
            writes=self.writes,
            agents=self.agents,
            nodes=self.nodes,
            on_created=lambda pod: None,
            now=self.clock.now,
        )

    def want(self, count, seconds=0.0):
        """A decision wants so many, and a look follows."""
        self.clock.at += seconds
        self.asked.want({"p": count} if count else {})
        self.asked.step(lambda: self.used)

    def pod(self, name=FIRST, **fields):
        """The placeholder is seen like that."""
        before = self.pods.get(name)
        start = PodView(
            namespace="nodes",
            name=name,
            uid=f"{name}-{self.clock.at}",
            created="1970-01-01T00:16:40Z",
            annotations={names.GROWS: "p"},
        )
        self.pods[name] = replace(before or start, **fields)
        self.asked.apply_change(before, self.pods[name])
        return self.pods[name]

    def gone(self, name=FIRST):
        self.asked.apply_change(self.pods.pop(name), None)

    def node(self, name="n1", *, gpus=2, agent=True, **fields):
        """A node of the pool comes."""
        view = NodeView(name=name, ready=True, labels={"pool": "p"}, devices={GPU: gpus} if gpus else {}, **fields)
        self.nodes.apply_change(None, view)
        if agent:
            devices = [AgentDevice(uuid=f"{name}-{i}", index=i, model="A100", memory_mib=40_000) for i in range(gpus)]
            self.agents.store_report(name, AgentReport(probe="OK", devices=devices), lambda uid: None)

    @property
    def made(self):
        return self.writes.made

    @property
    def deleted(self):
        return [uid.rpartition("-")[0] for uid in self.writes.deleted]

    @property
    def left(self):
        return new_nodes(self.nodes, self.asked)[0].count


@pytest.fixture
def growing():
    return Growing()


def test_nothing_is_done_before_anybody_has_said_what_is_wanted(growing):
    growing.pod()
    growing.asked.step(lambda: ())
    assert (growing.made, growing.deleted) == ([], [])


def test_one_for_each_node_that_is_wanted_and_no_other_while_they_stand(growing):
    growing.want(2)
    assert growing.made == [FIRST, SECOND]
    growing.pod(FIRST)
    growing.pod(SECOND)
    growing.want(2, 1000)
    assert (growing.made, growing.deleted) == ([FIRST, SECOND], [])
    growing.want(3)
    assert growing.made == [FIRST, SECOND, "gq-grow-p-2"], "more is wanted"


def test_another_process_goes_on_with_those_that_stand(growing):
    growing.want(1)
    pod = growing.pod()
    growing.asked = growing.service()
    growing.asked.apply_change(None, pod)
    growing.writes.made.clear()
    growing.want(1)
    assert (growing.made, growing.deleted) == ([], [])


def test_it_goes_when_it_is_not_wanted_any_more_and_the_pool_waits_before_it_asks_again(growing):
    growing.want(1)
    growing.pod()
    growing.want(0)
    assert growing.deleted == [FIRST]
    growing.gone()
    growing.want(1, 59)
    assert growing.made == []
    growing.want(1, 2)
    assert growing.made == [FIRST]


def test_of_several_the_one_goes_whose_node_has_not_come(growing):
    growing.want(2)
    growing.node(agent=False)
    growing.pod(FIRST)
    growing.pod(SECOND, node="n1")
    growing.want(1)
    assert growing.deleted == [FIRST]


def test_its_name_is_not_given_again_while_it_still_ends(growing):
    growing.want(1)
    growing.pod(terminating=True)
    growing.want(1)
    assert growing.made == [FIRST, SECOND]


def test_it_goes_as_soon_as_work_can_be_placed_on_its_node(growing):
    growing.want(1)
    growing.node(agent=False)
    growing.pod(node="n1")
    growing.want(1)
    assert growing.asked.arriving() == {"n1"}, "no share could go there"
    assert growing.deleted == []
    growing.node(agent=True)
    growing.want(1)
    assert (growing.deleted, growing.asked.arriving()) == ([FIRST], frozenset())


def test_a_node_that_has_just_come_is_left_to_the_placeholder_that_made_it_come(growing):
    growing.node("old")
    growing.asked.step(lambda: ())
    growing.want(1)
    growing.pod()
    growing.want(1)
    assert growing.asked.arriving() == frozenset(), "it has been there before"
    growing.node("n1")
    growing.node("n2")
    growing.want(1)
    assert growing.asked.arriving() == {"n1"}, "one is enough"
    growing.want(1, 9)
    assert growing.asked.arriving() == {"n1"}
    growing.want(1, 2)
    assert growing.asked.arriving() == frozenset(), "it keeps off that node for another reason"


def test_a_node_that_a_placeholder_has_left_has_not_just_come(growing):
    growing.want(2)
    growing.pod(FIRST)
    growing.pod(SECOND)
    growing.node("n1")
    growing.pod(FIRST, node="n1")
    growing.want(2)
    assert growing.deleted == [FIRST]
    assert growing.asked.arriving() == frozenset(), "the second one waits for another"


def test_what_is_there_when_the_service_begins_has_not_just_come(growing):
    growing.want(1)
    pod = growing.pod()
    growing.node("n1")
    growing.asked = growing.service()
    growing.asked.apply_change(None, pod)
    growing.asked.step(lambda: ())
    growing.want(1)
    assert growing.asked.arriving() == frozenset()


@pytest.mark.parametrize("fields", [{"gpus": 0}, {"cordoned": True}, {"taints": (("x", "", "NoSchedule"),)}])
def test_a_node_that_does_not_get_ready_is_not_waited_for_for_ever(growing, fields):
    growing.want(1)
    growing.node(**fields)
    growing.pod(node="n1")
    growing.want(1, 59)
    assert growing.deleted == []
    growing.asked.restart_clocks()
    growing.want(1, 59)
    assert growing.deleted == [], "the API server was away"
    growing.want(1, 2)
    assert growing.deleted == [FIRST]


def test_where_work_of_ours_is_its_placeholder_is_in_the_way(growing):
    growing.want(1)
    growing.node(agent=False)
    growing.pod(node="n1")
    growing.used = {"n1"}
    growing.want(1)
    assert growing.deleted == [FIRST]


def came(growing, node):
    """A node came for the placeholder, and was of no use."""
    growing.want(1)
    assert growing.made == [FIRST]
    growing.node(node)
    growing.pod(node=node)
    growing.want(1)
    growing.gone()


def test_a_pool_waits_twice_as_long_after_each_node_that_served_nobody(growing):
    for node, pause in (("n1", 60), ("n2", 120), ("n3", 240)):
        came(growing, node)
        growing.want(1, pause - 1)
        assert growing.made == []
        growing.clock.at += 2
    growing.want(0)
    came(growing, "n4")
    growing.want(1, 61)
    assert growing.made == [FIRST], "the last one has served somebody"


def test_who_takes_it_away_does_not_have_it_back_at_once(growing):
    growing.want(1)
    growing.pod()
    growing.gone()
    growing.want(1, 1)
    assert growing.made == []
    growing.want(1, 60)
    assert growing.made == [FIRST]


def test_one_that_was_evicted_goes_and_another_is_made_after_a_while(growing):
    growing.want(1)
    growing.pod(phase="Failed")
    growing.want(1)
    assert growing.deleted == [FIRST]
    growing.want(1, 59)
    assert growing.made == [FIRST]
    growing.want(1, 2)
    assert growing.made == [FIRST, SECOND]


def test_what_the_cluster_refuses_is_said_and_tried_again_ever_more_seldom(growing):
    growing.writes.refusal = "no PriorityClass with name x was found"
    growing.want(1)
    assert growing.asked.request_state("p").sentence == "no PriorityClass with name x was found"
    growing.writes.refusal = ""
    growing.want(1, 59)
    assert growing.made == []
    growing.want(1, 2)
    assert growing.made == [FIRST]
    assert growing.asked.request_state("p") is None
    growing.pod()
    assert growing.asked.request_state("p").since == 1000.0


@pytest.mark.parametrize("pools", [[], [replace(POOL, scale_up=None)]])
def test_those_of_a_pool_that_does_not_grow_any_more_go(growing, pools):
    growing.want(1)
    growing.pod()
    growing.pools = pools
    growing.want(1)
    assert growing.deleted == [FIRST]
    growing.gone()
    growing.want(0)
    assert growing.asked.request_state("p") is None


def test_it_keeps_off_the_nodes_that_are_there_and_free(growing):
    bodies = []
    growing.writes.create = lambda ref, body, created: (
        bodies.append(body()) or WritesOnPaper().create(ref, body, created)
    )
    growing.node("free")
    growing.node("used")
    growing.node("small", gpus=1)
    growing.node("away", cordoned=True)
    growing.used = {"used"}
    growing.want(1)
    (term,) = bodies[0]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [field["values"] for field in term["matchFields"]] == [["free"]]


# --- what may still come


def test_what_may_come_is_what_the_pool_may_have_less_what_is_there(growing):
    assert growing.left == 3
    growing.node("n1")
    assert growing.left == 2
    for name in ("n2", "n3", "n4"):
        growing.node(name)
    assert growing.left == 0


def test_a_node_that_was_asked_for_is_still_to_come_until_work_can_be_placed_there(growing):
    growing.want(3)
    growing.pod()
    growing.node("n1", gpus=0)
    assert growing.left == 3
    growing.node("n1", agent=False)
    growing.pod(node="n1")
    assert growing.left == 3
    growing.node("n1")
    growing.want(3)
    assert growing.left == 2


def test_one_that_nobody_has_asked_for_is_there_although_it_offers_nothing(growing):
    growing.node("broken", gpus=0)
    assert growing.left == 2


def test_a_new_node_is_like_those_that_are_there(growing):
    (before,) = new_nodes(growing.nodes, growing.asked)
    assert [device.model for device in before.like.devices] == ["GPU", "GPU"]
    growing.node("n1")
    (new,) = new_nodes(growing.nodes, growing.asked)
    assert [(device.model, device.memory, device.pool) for device in new.like.devices] == [("A100", 40_000, "p")] * 2
    assert len({device.id for node in new.first(2) for device in node.devices}) == 4
    assert new.like.labels.items() >= {SHARE_LABEL, ("pool", "p")}
    assert (new.like.cpu_milli, new.like.memory) == (8000, None)


def test_the_labels_of_a_pool_may_say_what_its_devices_are(growing):
    labels = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81920"}
    growing.pools = [replace(POOL, selector=labels)]
    (new,) = new_nodes(growing.nodes, growing.asked)
    assert {(device.model, device.memory) for device in new.like.devices} == {("H100", 81920)}
