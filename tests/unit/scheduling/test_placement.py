"""Where tasks go: pack and spread, fractions and whole devices, now and once something is free."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.placement import DeviceLedger, View
from jupyter_gq.scheduling.placement.choice import FullnessPolicy
from jupyter_gq.scheduling.placement.gang_placement import place
from tests.builders import a_device, a_job, a_node, running

HALF = Request(devices=1, milli_per_device=MilliGpu(500))
QUARTER = Request(devices=1, milli_per_device=MilliGpu(250))
ONE, TWO = Request(devices=1), Request(devices=2)


def ledger(*nodes, spread=False, held=()):
    made = DeviceLedger(nodes or (a_node("n", 2),), ["train"], choice=FullnessPolicy(spread=spread))
    for workload in held:
        made.hold(workload, stopping=False)
    return made


def devices(task):
    return None if task is None else task.devices


def test_pack_fills_the_fullest_device_that_fits():
    made = ledger(held=[running(a_job("a", "q", "0.5"), "n-1")])
    assert devices(made.place("train", HALF, View.NOW)) == ("n-1",)
    assert devices(made.place("train", HALF, View.NOW)) == ("n-0",)


def test_spread_takes_the_emptiest_device():
    made = ledger(spread=True, held=[running(a_job("a", "q", "0.5"), "n-0")])
    assert devices(made.place("train", QUARTER, View.NOW)) == ("n-1",)
    assert devices(made.place("train", QUARTER, View.NOW)) == ("n-1",)
    assert devices(made.place("train", QUARTER, View.NOW)) == ("n-0",)


def test_ties_go_to_the_lowest_node_and_index():
    made = ledger(a_node("b", 1), a_node("a", 2))
    assert [devices(made.place("train", ONE, View.NOW)) for _ in range(4)] == [("b-0",), ("a-0",), ("a-1",), None]


def test_pack_keeps_large_nodes_free_for_large_requests():
    made = ledger(a_node("big", 2), a_node("small", 1))
    assert devices(made.place("train", QUARTER, View.NOW)) == ("small-0",)
    assert devices(made.place("train", TWO, View.NOW)) == ("big-0", "big-1")


def test_several_devices_are_of_one_node():
    assert ledger(a_node("a", 1), a_node("b", 1)).place("train", TWO, View.NOW) is None


def test_several_devices_with_the_same_fraction_each():
    two_halves = Request(devices=2, milli_per_device=MilliGpu(500))
    made = ledger(a_node("a", 2), a_node("b", 3), held=[running(a_job("x", "q", "0.7"), "a-0")])
    assert devices(made.place("train", two_halves, View.NOW)) == ("b-0", "b-1")
    assert devices(made.place("train", two_halves, View.NOW)) == ("b-0", "b-1")
    assert made.place("train", two_halves, View.NOW) is None


def test_a_device_of_another_pool_or_out_of_order_is_not_taken():
    node = Node(name="n", devices=(a_device("n-0", 0, "build"), a_device("n-1", 1, healthy=False)))
    made = ledger(node)
    assert made.place("train", QUARTER, View.NOW) is None
    assert made.place("nowhere", QUARTER, View.NOW) is None


def test_what_is_stopping_is_free_later_not_now():
    made = ledger(a_node("n", 1))
    made.hold(running(a_job("a", "q", 1), "n-0"), stopping=True)
    assert made.place("train", HALF, View.NOW) is None
    assert devices(made.place("train", HALF, View.FUTURE)) == ("n-0",)


def test_nobody_snatches_what_is_promised():
    made = ledger(a_node("n", 1))
    made.hold(running(a_job("a", "q", "0.5"), "n-0"), stopping=True)
    made.place("train", ONE, View.FUTURE)
    assert made.place("train", HALF, View.NOW) is None


def test_a_rollback_leaves_no_trace():
    made = ledger()
    mark = made.mark()
    before = (made.total("train"), made.total("train", View.FUTURE), made.largest("train"))
    made.place("train", HALF, View.NOW)
    made.place("train", ONE, View.FUTURE)
    made.release(running(a_job("a", "q", 1), "n-0"))
    made.rollback(mark)
    assert (made.total("train"), made.total("train", View.FUTURE), made.largest("train")) == before
    assert devices(made.place("train", TWO, View.NOW)) == ("n-0", "n-1")


def test_released_work_may_stay_only_if_its_room_was_not_promised():
    a, b = running(a_job("a", "q", "0.5"), "n-0"), running(a_job("b", "q", "0.5"), "n-0")
    made = ledger(a_node("n", 1), held=[a, b])
    made.release(a)
    made.release(b)
    made.place("train", HALF, View.FUTURE)
    assert made.undo_release(b, nominated=False)
    assert not made.undo_release(a, nominated=False)


def test_a_gang_is_placed_whole_or_not_at_all():
    made = ledger()
    assert place(made, "train", a_job("g", "q", 1, tasks=3), View.NOW) is None
    assert made.total("train") == 2000
    tasks = place(made, "train", a_job("g", "q", 1, tasks=2), View.NOW)
    assert [devices(task) for task in tasks] == [("n-0",), ("n-1",)]


def test_a_gang_that_fails_half_way_gives_everything_back():
    made = ledger(a_node("a", 2), a_node("b", 1))
    gang = replace(a_job("g", "q", tasks=3), request=Request(devices=2, milli_per_device=MilliGpu(500)))
    assert made.slots("train", gang.request, View.NOW) == 3  # a bound that ignores where the devices are
    assert place(made, "train", gang, View.NOW) is None
    assert made.total("train") == 3000


@pytest.mark.parametrize(("request_", "slots"), [(ONE, 3), (TWO, 1), (HALF, 7), (QUARTER, 14), (Request(devices=4), 0)])
def test_slots_are_an_exact_bound_for_one_fraction_and_whole_devices(request_, slots):
    made = ledger(a_node("a", 3), a_node("b", 1), held=[running(a_job("x", "q", "0.5"), "a-0")])
    assert made.slots("train", request_, View.NOW) == slots
