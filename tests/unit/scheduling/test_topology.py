"""Topology: required and preferred levels, for workloads and groups, now and once something is free."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.workload import Request, TaskGroup, TaskPlacement, TopologyConstraint
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.placement import DeviceLedger, View, make_policy
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from tests.builders import NOW, Cluster, a_job, a_node, admitted, evicted, running

WHERE = Topology(name="where", levels=("zone", "rack"))
IN_RACK = TopologyConstraint(topology="where", required="rack")
IN_ZONE = TopologyConstraint(topology="where", required="zone")
NEAR = TopologyConstraint(topology="where", preferred="rack")
RACK_IF_POSSIBLE = TopologyConstraint(topology="where", required="zone", preferred="rack")


def node(name: str, devices: int = 1) -> Node:
    """A node called `<zone><rack>-<number>`."""
    return replace(a_node(name, devices), labels={"zone": name[0], "rack": name[1]})


def ledger(*nodes, spread=False):
    placement = PlacementStrategy.SPREAD if spread else PlacementStrategy.PACK
    return DeviceLedger(nodes, ["train"], choice=make_policy(placement), topologies=[WHERE])


def a_gang(tasks, topology, gpus=1, **fields):
    return replace(a_job("g", "q", gpus, tasks=tasks, **fields), topology=topology)


def nodes(made, job, view=View.NOW):
    placed = assemble.place(made, "train", job, view)
    return None if placed is None else sorted(task.node for task in placed)


def test_all_tasks_stand_in_one_domain_of_the_required_level_or_nowhere():
    made = ledger(node("a1-0"), node("a1-1"), node("a2-0"), node("b1-0"))
    assert nodes(made, a_gang(3, IN_RACK)) is None
    assert made.total("train") == 4000
    assert nodes(made, a_gang(3, IN_ZONE)) == ["a1-0", "a1-1", "a2-0"]


def test_racks_of_the_same_name_in_two_zones_are_two_racks():
    assert nodes(ledger(node("a1-0"), node("b1-0")), a_gang(2, IN_RACK)) is None


def test_a_node_without_the_label_is_in_no_domain():
    bare = replace(a_node("n", 9), labels={"rack": "1"})
    assert nodes(ledger(bare, node("a1-0")), a_gang(2, IN_RACK)) is None


@pytest.mark.parametrize(("spread", "expected"), [(False, ["a2-0", "a2-1"]), (True, ["a1-0", "a1-1"])])
def test_pack_takes_the_domain_with_the_least_room_that_fits_spread_the_one_with_the_most(spread, expected):
    made = ledger(*(node(name) for name in ("a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "b1-0")), spread=spread)
    assert nodes(made, a_gang(2, IN_RACK)) == expected


def test_a_preferred_level_gives_way_to_wider_ones_and_then_to_anywhere():
    made = ledger(node("a1-0"), node("a2-0"), node("b1-0"), node("b1-1"))
    assert nodes(made, a_gang(2, NEAR)) == ["b1-0", "b1-1"]
    assert nodes(made, a_gang(2, NEAR)) == ["a1-0", "a2-0"]
    spread_out = ledger(node("a1-0"), node("b1-0"))
    assert nodes(spread_out, a_gang(2, NEAR)) == ["a1-0", "b1-0"]


def test_a_preferred_level_inside_a_required_one():
    made = ledger(node("a1-0"), node("a2-0"), node("b1-0"))
    assert nodes(made, a_gang(3, RACK_IF_POSSIBLE)) is None
    assert nodes(made, a_gang(2, RACK_IF_POSSIBLE)) == ["a1-0", "a2-0"]


def test_a_topology_or_level_that_does_not_exist_is_never_met_but_may_be_preferred():
    made = ledger(node("a1-0"))
    assert nodes(made, a_gang(1, TopologyConstraint(topology="none", required="rack"))) is None
    assert nodes(made, a_gang(1, TopologyConstraint(topology="where", required="room"))) is None
    assert nodes(made, a_gang(1, TopologyConstraint(topology="none", preferred="rack"))) == ["a1-0"]


def group(name, tasks, topology=None, gpus=1, parent=None):
    request = Request(devices=gpus)
    return TaskGroup(name=name, request=request, tasks=tasks, min_members=tasks, parent=parent, topology=topology)


def test_each_group_has_its_own_rack_inside_the_zone_of_all():
    names = ("a1-0", "a1-1", "a2-0", "b1-0", "b1-1", "b2-0", "b2-1")
    job = replace(a_gang(4, IN_ZONE), groups=(group("x", 2, IN_RACK), group("y", 2, IN_RACK)))
    placed = assemble.place(ledger(*map(node, names)), "train", job, View.NOW)
    assert placed is not None
    where = {name: sorted(task.node for task in placed if task.group == name) for name in "xy"}
    assert where == {"x": ["b1-0", "b1-1"], "y": ["b2-0", "b2-1"]}


def test_a_group_may_ask_for_a_wider_level_than_the_whole_gang():
    job = replace(a_gang(2, IN_RACK), groups=(group("x", 1), group("y", 1, IN_ZONE)))
    assert nodes(ledger(*map(node, ("a1-0", "a2-0", "b1-0", "b1-1"))), job) == ["b1-0", "b1-1"]


def test_groups_inside_a_group_stand_where_that_stands():
    names = ("a1-0", "a2-0", "b1-0", "b1-1", "c1-0")
    pair = TaskGroup(name="pair", request=Request(devices=0), tasks=0, min_members=0, topology=IN_ZONE)
    job = replace(
        a_gang(3, None), groups=(pair, group("x", 1, parent="pair"), group("y", 1, parent="pair"), group("z", 1))
    )
    placed = assemble.place(ledger(*map(node, names)), "train", job, View.NOW)
    assert placed is not None
    zones = {task.group: task.node[0] for task in placed}
    assert zones["x"] == zones["y"]
    assert len(placed) == 3


def test_unlike_tasks_are_placed_whole_or_not_at_all():
    job = replace(a_job("g", "q", tasks=3), groups=(group("small", 2), group("large", 1, gpus=2)))
    made = ledger(node("a1-0", 2), node("a1-1", 1))
    assert nodes(made, job) is None
    assert made.total("train") == 3000
    assert nodes(ledger(node("a1-0", 2), node("a1-1", 2)), job) == ["a1-0", "a1-1", "a1-1"]


def test_what_is_added_to_running_work_keeps_its_domain():
    cluster = Cluster().queue("q", 4)
    cluster.nodes += [node("a1-0"), node("a1-1"), node("a2-0"), node("a2-1")]
    job = replace(a_gang(3, IN_RACK, min_members=1), elastic=True)
    there = replace(running(job, "a2-0-0"), placement=(TaskPlacement(node="a2-0", devices=("a2-0-0",)),))
    snapshot = replace(cluster.add(there).snapshot(), topologies=(WHERE,))
    (grown,) = run_cycle(snapshot, Policy(), NOW).instructions
    assert [task.node for task in grown.placement] == ["a2-1"]


def racks_full_of(count, jobs):
    cluster = Cluster().queue("mine", count).queue("theirs", 0)
    for rack in range(count // 2):
        cluster.nodes += [node(f"a{rack}-0"), node(f"a{rack}-1")]
    for number in range(jobs):
        name = f"a{number // 2}-{number % 2}"
        cluster.add(running(a_job(f"v{number}", "theirs"), f"{name}-0", since=number))
    return cluster


def test_the_victims_for_a_gang_of_one_rack_stand_in_one_rack():
    cluster = racks_full_of(6, 6).add(replace(a_gang(2, IN_RACK, submitted=500), queue="mine"))
    decision = run_cycle(replace(cluster.snapshot(), topologies=(WHERE,)), Policy(), NOW)
    assert sorted(evicted(decision)) == ["v4", "v5"]  # the newest two of one rack
    assert {i.by for i in decision.instructions if isinstance(i, Evict)} == {"g"}


def test_a_rack_that_is_half_free_costs_only_one_victim():
    cluster = racks_full_of(6, 5).add(replace(a_gang(2, IN_RACK, submitted=500), queue="mine"))
    decision = run_cycle(replace(cluster.snapshot(), topologies=(WHERE,)), Policy(), NOW)
    assert evicted(decision) == ["v4"]


def test_nobody_goes_for_a_gang_that_no_rack_can_hold():
    cluster = racks_full_of(6, 6).add(replace(a_gang(3, IN_RACK, submitted=500), queue="mine"))
    decision = run_cycle(replace(cluster.snapshot(), topologies=(WHERE,)), Policy(), NOW)
    assert decision.instructions == ()


def test_a_gang_is_promised_one_rack_and_starts_there():
    cluster = Cluster().queue("q", 4)
    cluster.nodes += [node("a1-0"), node("a1-1"), node("a2-0"), node("a2-1")]
    job = a_gang(2, IN_RACK)
    snapshot = replace(cluster.add(job).snapshot(), topologies=(WHERE,))
    decision = run_cycle(snapshot, Policy(), NOW)
    assert admitted(decision) == ["g"]
    assert len({task.node[:2] for task in decision.instructions[0].placement}) == 1
