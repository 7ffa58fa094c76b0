"""The policy `fragmentation`, on cases that can be checked by hand."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.placement import DeviceLedger, RequestMix, View, make_policy
from jupyter_gq.scheduling.placement.host_resources import UNCOUNTED
from jupyter_gq.scheduling.placement.node_states import DeviceKind, NodeState, States
from jupyter_gq.scheduling.placement.request_mix import MOST, RequestKind
from jupyter_gq.scheduling.policy import PlacementStrategy
from tests.builders import a_device, a_job, a_node, running

ROOMY = (UNCOUNTED, UNCOUNTED, UNCOUNTED)


def part(milli, **fields):
    return Request(devices=1, milli_per_device=MilliGpu(milli), **fields)


def ledger(*nodes, mix=(), held=()):
    """`mix`: requests and how many tasks of each."""
    known = RequestMix()
    for request, tasks in mix:
        known.add("train", request, tasks)
    made = DeviceLedger(nodes, ["train"], choice=make_policy(PlacementStrategy.FRAGMENTATION, known))
    for number, (milli, device) in enumerate(held):
        workload = replace(a_job(f"w{number}", "q"), request=part(milli))
        made.hold(running(workload, device), stopping=False)
    return made


def put(made, request, view=View.NOW):
    task = made.place("train", request, view)
    return None if task is None else ",".join(task.devices) or task.node


def test_a_rest_that_others_can_use_is_left():
    """On n-0 0.5 is free, on n-1 0.7. After 0.2 of n-0 no half fits there any more; after 0.2 of n-1 one does."""
    made = ledger(a_node("n", 2), mix=[(part(500), 3), (part(200), 1)], held=[(500, "n-0"), (300, "n-1")])
    assert put(made, part(200)) == "n-1"


def test_whole_devices_are_spared_for_who_needs_them():
    made = ledger(a_node("n", 2), mix=[(part(250), 1), (Request(devices=1), 1)], held=[(500, "n-1")])
    assert [put(made, part(250)) for _ in range(3)] == ["n-1", "n-1", "n-0"]


def test_whole_nodes_are_spared_for_gangs_of_a_node():
    made = ledger(a_node("a", 2), a_node("b", 2), mix=[(Request(devices=1), 5), (Request(devices=2), 1)])
    assert [put(made, Request(devices=1)) for _ in range(2)] == ["a-0", "a-1"]
    assert put(made, Request(devices=2)) == "b-0,b-1"


def of_model(name, model):
    return Node(name=name, devices=(replace(a_device(f"{name}-0"), model=model),))


def test_a_scarce_model_is_spared_for_those_who_require_it():
    """Pack would take the first node by name."""
    nodes = [of_model("a", "A100"), *(of_model(name, "T4") for name in ("b", "c", "d"))]
    only = Request(devices=1, models=("A100",))
    made = ledger(*nodes, mix=[(Request(devices=1), 5), (only, 1)])
    assert [put(made, Request(devices=1)) for _ in range(3)] == ["b-0", "c-0", "d-0"]
    assert put(made, only) == "a-0"


def with_cpu(name, cpu, devices=1):
    return replace(a_node(name, devices), cpu_milli=cpu, memory=MiB(100_000))


def test_nodes_with_much_cpu_are_spared_for_those_who_need_it():
    """The small one fits on both; the large one only on `a`."""
    small, large = part(1000, cpu_milli=1000), part(1000, cpu_milli=8000)
    made = ledger(with_cpu("a", 8000), with_cpu("b", 2000), mix=[(small, 1), (large, 1)])
    assert put(made, small) == "b-0"
    assert put(made, large) == "a-0"


def test_what_needs_no_device_takes_cpu_that_no_device_needs():
    """On `b` the device is taken, so its CPU is of no use to who needs one."""
    made = ledger(with_cpu("a", 8000), with_cpu("b", 8000), mix=[(part(500, cpu_milli=4000), 1)], held=[(1000, "b-0")])
    assert put(made, Request(devices=0, cpu_milli=2000)) == "b"
    assert [put(made, Request(devices=0, cpu_milli=8000)) for _ in range(2)] == ["a", None]


def test_several_devices_with_a_fraction_each():
    made = ledger(a_node("n", 3), mix=[(part(500), 1)], held=[(300, "n-0")])
    twice = Request(devices=2, milli_per_device=MilliGpu(400))
    assert put(made, twice) == "n-0,n-1"
    assert put(made, replace(twice, devices=4)) is None


def test_without_a_mix_the_fullest_is_taken():
    made = ledger(a_node("a", 2), a_node("b", 1), held=[(500, "b-0")])
    assert [put(made, part(250)) for _ in range(3)] == ["b-0", "b-0", "a-0"]


def test_the_two_views_are_apart():
    made = ledger(a_node("n", 1), mix=[(part(500), 1)])
    stopping = running(replace(a_job("w", "q"), request=part(750)), "n-0")
    made.hold(stopping, stopping=True)
    assert put(made, part(500)) is None
    assert put(made, part(500), View.FUTURE) == "n-0"
    made.rollback(0)
    assert put(made, part(500)) == "n-0"


def usable(asked, *amounts, room=ROOMY):
    states = States([DeviceKind("train", "A", 0)], 4, [asked])
    (number,) = states.numbers([NodeState(room, tuple(sorted((0, amount) for amount in amounts)))])
    return states.usable[number, 0]


@pytest.mark.parametrize(
    ("asked", "amounts", "room", "expected"),
    [
        (RequestKind("train", 1, 500, 0, 0), (1000, 500, 400), ROOMY, 1500),
        (RequestKind("train", 1, 1000, 0, 0), (1000, 999), ROOMY, 1000),
        (RequestKind("train", 2, 1000, 0, 0), (1000, 1000, 1000), ROOMY, 2000),
        (RequestKind("train", 4, 1000, 0, 0), (1000, 1000, 1000), ROOMY, 0),
        (RequestKind("other", 1, 500, 0, 0), (1000,), ROOMY, 0),
        (RequestKind("train", 1, 500, 0, 0, ("B",)), (1000,), ROOMY, 0),
        (RequestKind("train", 1, 500, 0, 0, (), 1), (1000,), ROOMY, 0),
        # 1 / (1/2000 + 1/2000): CPU for two tasks, a device each
        (RequestKind("train", 1, 500, 4000, 0), (1000, 1000), (8000, UNCOUNTED, UNCOUNTED), 1000),
        (RequestKind("train", 1, 500, 4000, 0), (1000, 1000), (3999, UNCOUNTED, UNCOUNTED), 0),
        (RequestKind("train", 1, 500, 0, 100), (1000,), (UNCOUNTED, 99, UNCOUNTED), 0),
        (RequestKind("train", 1, 500, 0, 0), (1000,), (UNCOUNTED, UNCOUNTED, 0), 0),
        (RequestKind("train", 1, 500, 0, 0), (1000,), (UNCOUNTED, UNCOUNTED, 1), 500),
        (RequestKind("train", 1, 500, 4000, 0), (1000,), (-5, UNCOUNTED, UNCOUNTED), 0),
    ],
)
def test_what_a_kind_of_request_could_use_of_a_node(asked, amounts, room, expected):
    assert usable(asked, *amounts, room=room) == expected


def test_only_the_most_frequent_kinds_are_looked_at():
    mix = RequestMix()
    for number in range(MOST + 10):
        mix.add("train", part(1000, cpu_milli=number), number + 1)
    assert mix.frequent() == list(range(10, MOST + 10))
    mix.add("train", part(1000, cpu_milli=50), -51)
    assert 50 not in mix.frequent()
    assert 9 in mix.frequent()
    mix.add("train", Request(devices=0), 5)
    assert len(mix.kinds) == MOST + 10
