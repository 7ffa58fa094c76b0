"""What suspended notebooks leave to work that may not borrow from them, and how their devices are reserved."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.placement import View, empty_ledger
from jupyter_gq.scheduling.state.lender_index import LenderIndex
from tests.builders import a_job, a_node, a_notebook, running


def lender(owner, gpus, *devices):
    return replace(running(a_notebook(owner, gpus), *devices), state=State.SUSPENDED)


def fixed(gpus, **fields):
    return a_job("fixed", "q", gpus, preemptible=False, **fields)


def index(*lenders, devices=2):
    found = LenderIndex((a_node("n", devices),), ())
    for notebook in lenders:
        found.add(notebook)
    return found


@pytest.mark.parametrize(("gpus", "has_room"), [("0.5", True), ("0.75", False), (1, False), (2, False), (0, True)])
def test_work_that_may_not_borrow_has_the_room_that_lenders_leave(gpus, has_room):
    lenders = index(lender("ann", "0.5", "n-0"), lender("bob", 1, "n-1"))
    assert lenders.leave_room_for("train", fixed(gpus)) is has_room
    assert lenders.leave_room_for("train", replace(fixed(gpus), preemptible=True))


def test_all_tasks_of_a_gang_count():
    lenders = index(lender("ann", "0.5", "n-0"), lender("bob", "0.5", "n-1"))
    assert lenders.leave_room_for("train", fixed("0.5", tasks=2))
    assert not lenders.leave_room_for("train", fixed("0.5", tasks=3))


def test_lenders_that_come_and_go_after_the_first_question_are_counted():
    ann, bob = lender("ann", 1, "n-0"), lender("bob", 1, "n-1")
    lenders = index(ann)
    assert lenders.leave_room_for("train", fixed(1))
    lenders.add(bob)
    assert not lenders.leave_room_for("train", fixed(1))
    lenders.remove(ann)
    assert lenders.leave_room_for("train", fixed(1))
    assert (list(lenders.by_id), list(lenders.on_device)) == (["nb-bob"], ["n-1"])


@pytest.mark.parametrize("cores", [None, 4000])
def test_a_bundle_reserves_what_its_workloads_would_reserve_one_by_one(cores):
    nodes = (replace(a_node("n", 3), cpu_milli=cores), a_node("m", 1))
    whole = Request(devices=2, cpu_milli=1000)
    notebooks = [
        lender("ann", "0.5", "n-0"),
        lender("bob", "0.5", "n-0"),
        lender("eve", "0.25", "n-1"),
        replace(lender("dan", 2, "n-1", "n-2"), request=whole),
        lender("fay", "0.5", "m-0"),
        lender("lost", "0.5", "gone-0"),
    ]
    together, apart = empty_ledger(nodes), empty_ledger(nodes)
    bundle = together.bundle(notebooks)
    together.shift_bundle(bundle, future=0, firm=-1)
    for notebook in notebooks:
        apart.reserve_devices(notebook, notebook.placement)

    def free(ledger):
        amounts = [ledger.amount(device, View.FUTURE) for device in ("n-0", "n-1", "n-2", "m-0")]
        return amounts, list(ledger.resources.room(View.FUTURE))

    assert free(together) == free(apart) == ([0, 0, 0, 500], free(empty_ledger(nodes))[1])
    together.shift_bundle(bundle, future=0, firm=1)
    assert free(together) == free(empty_ledger(nodes))
