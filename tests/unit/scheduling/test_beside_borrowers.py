"""What borrowers use of a lent share counts once: the rest is free for work that may not borrow.

See docs/decisions/0294-count-what-is-lent-and-what-borrowers-use-once.md.
"""

from dataclasses import replace

import pytest

from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Resume
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, admitted, evicted, idle, running, why

MOVING = Policy()
STAYING = Policy(consolidate=False)


def lender(gpus="0.5", *, busy=False):
    """Ann's suspended notebook."""
    notebook = replace(running(a_notebook("ann", gpus), "n-0"), suspendable=True)
    return replace(idle(notebook, 4000, busy=busy), state=State.SUSPENDED)


def lent(*others, nodes=1, **fixed):
    """Return a cluster in which half of the first device is lent."""
    cluster = Cluster().fixed("train", ann="0.5", **fixed).queue("q", "0.5").queue("z", 0)
    for name in ("n", "m")[:nodes]:
        cluster.node(name, 1)
    return cluster.add(lender(), *others)


def borrower(name="borrower", gpus="0.5", queue="z"):
    return running(a_job(name, queue, gpus), "n-0")


def places(decision):
    return {each.workload: each.placement[0].devices for each in decision.instructions}


@pytest.mark.parametrize("policy", [MOVING, STAYING], ids=["moving", "staying"])
def test_a_notebook_starts_beside_a_borrower_that_uses_what_is_lent(policy):
    decision = run_cycle(lent(borrower(), a_notebook("carol", "0.5"), carol="0.5").snapshot(), policy, NOW)
    assert places(decision) == {"nb-carol": ("n-0",)}


def test_work_that_may_not_borrow_starts_beside_a_borrower_that_may_not_be_evicted():
    cluster = lent(borrower(queue="q"), a_job("waits", "safe", "0.5", preemptible=False)).queue("safe", "0.5")
    assert admitted(run_cycle(cluster.snapshot(), STAYING, NOW)) == ["waits"]


def test_only_as_many_borrowers_go_as_are_in_the_way():
    borrowers = (borrower("large"), borrower("small", "0.25"), borrower("other", "0.25"))
    decision = run_cycle(lent(*borrowers, a_notebook("carol", "0.25"), carol="0.25").snapshot(), STAYING, NOW)
    assert len(evicted(decision)) == 1


def test_no_work_is_stopped_to_go_on_where_it_was():
    """The borrower would have a place beside carol's job, on what is lent: its own."""
    cluster = lent(borrower(), a_job("carols", "q", "0.5", owner="carol", preemptible=False))
    assert evicted(run_cycle(cluster.snapshot(), MOVING, NOW)) == []


def test_work_that_may_not_borrow_still_leaves_what_is_lent():
    cluster = lent(borrower(gpus="0.25"), a_job("waits", "safe", "0.75", preemptible=False)).queue("safe", "1")
    decision = run_cycle(cluster.snapshot(), STAYING, NOW)
    assert (admitted(decision), evicted(decision)) == ([], [])
    assert why(decision, "waits").why.reason is PendingReason.RESERVED


def test_a_lent_share_is_still_used_last_by_work_that_may_borrow():
    """A borrower that uses one half makes the other one no less a lent share."""
    cluster = lent(borrower(), a_job("next", "q", "0.5"), nodes=2)
    assert places(run_cycle(cluster.snapshot(), STAYING, NOW)) == {"next": ("m-0",)}


def test_a_notebook_comes_back_from_a_borrower_although_another_one_has_the_rest():
    cluster = lent(borrower(), running(a_notebook("carol", "0.5"), "n-0"), carol="0.5")
    cluster.workloads[0] = lender(busy=True)
    (evict,) = run_cycle(cluster.snapshot(), STAYING, NOW).instructions
    assert (type(evict), evict.workload) == (Evict, "borrower")
    cluster.workloads = [each for each in cluster.workloads if each.id != "borrower"]
    (resume,) = run_cycle(cluster.snapshot(), STAYING, NOW).instructions
    assert (type(resume), resume.workload) == (Resume, "nb-ann")


def test_a_recorded_place_beside_a_borrower_is_taken():
    waits = replace(a_notebook("carol", "0.5"), reserved=(TaskPlacement(node="n", devices=("n-0",)),))
    decision = run_cycle(lent(borrower(), waits, carol="0.5").snapshot(), STAYING, NOW)
    assert places(decision) == {"nb-carol": ("n-0",)}


def test_the_index_counts_a_borrower_that_may_not_borrow_any_more():
    """What is kept between cycles is as if it had been counted anew."""
    before, carols = borrower(), a_notebook("carol", "0.5")
    scheduler = Scheduler(lent(before, carols, carol="0.5").snapshot(), STAYING)
    for there, starts in ((before, ["nb-carol"]), (replace(before, preemptible=False), []), (before, ["nb-carol"])):
        scheduler.put(there)
        decision = scheduler.decide(NOW)
        assert admitted(decision) == starts
        assert decision == run_cycle(lent(there, carols, carol="0.5").snapshot(), STAYING, NOW)
