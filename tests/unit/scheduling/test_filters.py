"""Where tasks may go at all: CPU, memory and number of tasks of nodes, models, labels, device memory."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.placement import DeviceLedger, Domain, View, make_policy, resolved
from jupyter_gq.scheduling.placement.gang_placement import place
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from tests.builders import NOW, Cluster, a_device, a_job, a_node, a_notebook, admitted, evicted, running, stopping

HALF = Request(devices=1, milli_per_device=MilliGpu(500), cpu_milli=4000)
ONE = Request(devices=1, cpu_milli=4000, memory=MiB(1000))
NONE = Request(devices=0, cpu_milli=4000)


def counted(name, devices=2, cpu=8000, memory=16_000, tasks=None, **fields):
    return replace(a_node(name, devices), cpu_milli=cpu, memory=MiB(memory), max_tasks=tasks, **fields)


def ledger(*nodes, spread=False):
    return DeviceLedger(
        nodes, ["train"], choice=make_policy(PlacementStrategy.SPREAD if spread else PlacementStrategy.PACK)
    )


def nodes(made, request, count=9, view=View.NOW):
    found = [made.place("train", request, view) for _ in range(count)]
    return [task.node for task in found if task is not None]


@pytest.mark.parametrize("request_", [ONE, HALF, NONE, Request(devices=2, cpu_milli=4000)])
def test_a_node_takes_no_more_than_its_cpu(request_):
    made = ledger(counted("a", 16, cpu=9000), counted("b", 16, cpu=4000))
    assert made.slots("train", request_, View.NOW) == 3
    assert sorted(nodes(made, request_)) == ["a", "a", "b"]
    assert made.slots("train", request_, View.NOW) == 0


def test_a_node_takes_no_more_than_its_memory():
    assert nodes(ledger(counted("a", memory=1999), counted("b", memory=999)), ONE) == ["a"]


def test_a_node_takes_no_more_tasks_than_it_may():
    assert nodes(ledger(counted("a", 4, tasks=2)), Request(devices=1)) == ["a", "a"]
    assert nodes(ledger(counted("a", 0, tasks=2)), Request(devices=0)) == ["a", "a"]


def test_several_fractions_of_one_task_count_its_cpu_once():
    request = Request(devices=2, milli_per_device=MilliGpu(250), cpu_milli=4000)
    assert nodes(ledger(counted("a", 2)), request) == ["a", "a"]


def test_the_fullest_node_that_has_room_is_taken():
    made = ledger(counted("a", 1, cpu=1000), counted("b", 2), counted("c", 3))
    assert nodes(made, ONE) == ["b", "b", "c", "c"]


def test_a_node_that_counts_nothing_has_room_for_everything():
    assert nodes(ledger(a_node("a", 2)), replace(ONE, cpu_milli=10**9)) == ["a", "a"]


def test_what_is_stopping_still_holds_its_cpu():
    made = ledger(counted("a", 2, cpu=4000))
    job = replace(a_job("j", "q"), request=ONE)
    made.hold(running(job, "a-0"), stopping=True)
    assert nodes(made, ONE) == []
    assert nodes(made, ONE, view=View.FUTURE) == ["a"]
    assert nodes(made, NONE, view=View.FUTURE) == []  # it is promised by now


def test_room_that_was_promised_is_not_given_back():
    made = ledger(counted("a", 2, cpu=4000))
    job = running(replace(a_job("j", "q"), request=ONE), "a-0")
    made.hold(job, stopping=False)
    made.release(job)
    mark = made.mark()
    assert nodes(made, ONE, view=View.FUTURE) == ["a"]  # on the other device, but with its CPU
    assert not made.undo_release(job, nominated=False)
    made.rollback(mark)
    assert made.undo_release(job, nominated=False)
    assert nodes(made, ONE, view=View.FUTURE) == []


def test_a_rollback_gives_the_room_back():
    made = ledger(counted("a", 4))
    mark = made.mark()
    assert nodes(made, ONE) == ["a", "a"]
    made.rollback(mark)
    assert made.resources.room(View.NOW)[0] == (8000, 16_000, 1 << 60)
    assert nodes(made, ONE) == ["a", "a"]


def test_tasks_without_devices_go_first_where_there_is_none_then_where_least_room_is_left():
    made = ledger(counted("a", 1, cpu=4000), counted("b", 0, cpu=9000), counted("c", 0, cpu=8000))
    assert nodes(made, NONE) == ["c", "c", "b", "b", "a"]
    spread = ledger(counted("a", 1, cpu=4000), counted("b", 0, cpu=9000), counted("c", 0, cpu=8000), spread=True)
    assert nodes(spread, NONE) == ["b", "c", "b", "c", "a"]


def test_tasks_without_devices_stay_out_of_other_pools():
    build = replace(a_node("a", 1, "build"), cpu_milli=8000)
    assert nodes(ledger(build, counted("b", 1)), NONE) == ["b", "b"]
    assert nodes(ledger(build), NONE) == ["a", "a"]  # there is no other


def test_a_job_without_devices_waits_for_cpu():
    cluster = Cluster().queue("q", 0)
    cluster.nodes.append(counted("a", 0, cpu=8000))
    cluster.add(*(replace(a_job(name, "q", 0), request=NONE) for name in "xyz"))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert admitted(decision) == ["x", "y"]
    assert [entry.workload for entry in decision.pending] == ["z"]


MIXED = Node(
    name="m",
    devices=(
        replace(a_device("m-0", 0), model="T4", memory=MiB(16_000)),
        replace(a_device("m-1", 1), model="A100", memory=MiB(40_000)),
        replace(a_device("m-2", 2), model="A100", memory=MiB(40_000)),
    ),
)


def devices(made, request, count=9):
    found = [made.place("train", request, View.NOW) for _ in range(count)]
    return [device for task in found if task is not None for device in task.devices]


def test_only_devices_of_the_required_models_are_taken():
    assert devices(ledger(MIXED), Request(devices=1, models=("A100",))) == ["m-1", "m-2"]
    assert devices(ledger(MIXED), Request(devices=2, models=("A100", "H100"))) == ["m-1", "m-2"]
    assert devices(ledger(MIXED), Request(devices=1, models=("H100",))) == []
    half = Request(devices=1, milli_per_device=MilliGpu(500), models=("T4",))
    assert devices(ledger(MIXED), half) == ["m-0", "m-0"]


def test_preferred_models_come_first_in_their_order():
    made = ledger(MIXED)
    assert devices(made, Request(devices=1, preferred_models=("H100", "A100"))) == ["m-1", "m-2", "m-0"]


def test_a_preferred_model_that_is_not_allowed_does_not_count():
    assert devices(ledger(MIXED), Request(devices=1, models=("T4",), preferred_models=("A100",))) == ["m-0"]


def test_devices_of_several_models_on_one_node_serve_one_task_that_takes_any():
    assert devices(ledger(MIXED), Request(devices=3)) == ["m-0", "m-1", "m-2"]


def test_only_nodes_with_the_labels_are_taken():
    made = ledger(a_node("a", 1), replace(a_node("b", 1), labels={"disk": "ssd", "zone": "1"}))
    assert nodes(made, Request(devices=1, node_labels=(("disk", "ssd"),))) == ["b"]
    assert nodes(made, Request(devices=0, node_labels=(("disk", "hdd"),))) == []


def test_a_place_may_be_asked_for_within_a_domain():
    racks = [replace(a_node(name, 1), labels={"rack": name[0]}) for name in ("a1", "b1", "b2")]
    made = DeviceLedger(racks, ["train"], topologies=[Topology(name="t", levels=("rack",))])
    rack = Domain("t", ("rack",), ("b",))
    found = [made.place("train", Request(devices=1), View.NOW, within=(rack,)) for _ in range(3)]
    assert [task.node if task else None for task in found] == ["b1", "b2", None]


def test_device_memory_is_a_part_of_the_smallest_device_that_is_large_enough():
    cluster = Cluster().queue("q", 1)
    cluster.nodes.append(MIXED)
    request = Request(devices=1, device_memory=MiB(10_001))
    jobs = [replace(a_job("small", "q"), request=request)]
    jobs += [replace(a_job("large", "q"), request=replace(request, device_memory=MiB(16_001)))]
    jobs += [replace(a_job("model", "q"), request=replace(request, models=("A100",)))]
    jobs += [replace(a_job("never", "q"), request=replace(request, device_memory=MiB(80_000)))]
    snapshot = resolved(cluster.add(*jobs).snapshot())
    assert [job.request.milli_per_device for job in snapshot.workloads] == [630, 410, 260, 1000]
    assert resolved(snapshot) == snapshot
    without = Cluster().queue("q", 1).add(a_job("j", "q")).snapshot()
    assert resolved(without) is without


def test_a_memory_request_goes_to_a_device_that_is_large_enough():
    cluster = Cluster().queue("q", 3)
    cluster.nodes.append(MIXED)
    request = Request(devices=1, device_memory=MiB(20_000))
    cluster.add(*(replace(a_job(name, "q"), request=request) for name in "abcde"))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert [i.placement[0].devices[0] for i in decision.instructions] == ["m-1", "m-1", "m-2", "m-2"]


def test_a_gang_counts_the_room_of_all_its_tasks():
    made = ledger(counted("a", 4, cpu=8000), counted("b", 4, cpu=4000))
    job = replace(a_job("g", "q", tasks=4), request=ONE)
    assert place(made, "train", job, View.NOW) is None
    assert made.total("train") == 8000
    three = place(made, "train", replace(job, tasks=3, min_members=3), View.NOW)
    assert three is not None
    assert [task.node for task in three] == ["a", "a", "b"]


def test_a_cycle_waits_for_the_cpu_of_who_is_stopping():
    cluster = Cluster().queue("q", 2)
    cluster.nodes.append(counted("a", 2, cpu=4000))
    going = stopping(running(replace(a_job("old", "q"), request=ONE), "a-0"), requeue=False)
    cluster.add(going, replace(a_job("new", "q"), request=ONE))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert decision.instructions == ()
    assert [entry.workload for entry in decision.pending] == ["new"]


def test_what_is_suspended_keeps_its_cpu_and_gives_up_its_devices():
    notebook = replace(a_notebook("ann", 1), request=ONE, suspendable=True)
    cluster = Cluster().fixed("train", ann="1").queue("q", 2)
    cluster.nodes.append(counted("a", 2, cpu=8000))
    cluster.add(running(notebook, "a-0", state=State.SUSPENDED), *(replace(a_job(n, "q"), request=ONE) for n in "xy"))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert admitted(decision) == ["x"]
    made = ledger(counted("a", 2, cpu=8000))
    made.hold(running(notebook, "a-0"), stopping=False)
    made.release(running(notebook, "a-0"))
    assert made.resources.room(View.FUTURE)[0][0] == 4000
    assert made.total("train", View.FUTURE) == 2000
    assert made.undo_release(running(notebook, "a-0"), nominated=False)
    assert (made.resources.room(View.FUTURE)[0][0], made.total("train", View.FUTURE)) == (4000, 1000)


@pytest.mark.parametrize("milli", [1000, 500])
def test_only_the_named_devices_are_taken(milli):
    made = ledger(a_node("a", 2), a_node("b", 2))
    device = made.layout.devices[2].id
    request = Request(devices=1, milli_per_device=MilliGpu(milli), only_devices=(device,))
    assert made.slots("train", request, View.NOW) == 1000 // milli
    found = [made.place("train", request, View.NOW) for _ in range(3)]
    assert {task.devices for task in found if task is not None} == {(device,)}
    assert made.slots("train", Request(devices=1), View.NOW) == 3
    assert made.slots("train", request, View.NOW) == 0


def test_a_job_for_a_named_device_waits_for_it_and_makes_room_there_only():
    cluster = Cluster().node("a", 2).queue("p", 1).queue("q", 0)
    cluster.add(running(a_job("old", "q"), "a-0"), running(a_job("new", "q"), "a-1", since=5))
    wanted = replace(a_job("back", "p"), request=Request(devices=1, only_devices=("a-0",)))
    assert evicted(run_cycle(cluster.add(wanted).snapshot(), Policy(), NOW)) == ["old"]
