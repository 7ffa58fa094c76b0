"""The plan for suspended notebooks in which cells wait: who is before them on their devices, and who leaves first."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import KeptOut, Returning
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, apply, idle, running, stopped, stopping


def decide(snapshot):
    return run_cycle(snapshot, Policy(consolidate=False), NOW)


def plans(snapshot):
    return {each.workload: each for each in decide(snapshot).returning}


def waits(owner, at, device="n-0", gpus="0.5", busy=True):
    """A notebook whose share is lent and in which a cell waits; its server asked for the share at `at`."""
    notebook = replace(running(a_notebook(owner, gpus), device), suspendable=True, submitted_at=at)
    return replace(idle(notebook, 4000, busy=busy), state=State.SUSPENDED)


def two_on_one_device(*borrowers, eve_waits=True):
    """Two notebooks with a half each of one device, ann's the older, and the work that has borrowed it."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5", eve="0.5").queue("z", 0)
    return cluster.add(waits("ann", 10.0), waits("eve", 20.0, busy=eve_waits), *borrowers)


def test_one_job_leaves_for_both_notebooks_and_the_older_one_is_first():
    found = plans(two_on_one_device(running(a_job("j", "z", "1"), "n-0")).snapshot())
    assert found == {
        "nb-ann": Returning(workload="nb-ann", ahead=0, leaving=("j",)),
        "nb-eve": Returning(workload="nb-eve", ahead=1, leaving=("j",)),
    }


def test_the_plan_is_the_same_while_the_job_is_stopping():
    snapshot = two_on_one_device(running(a_job("j", "z", "1"), "n-0")).snapshot()
    before, after = decide(snapshot), apply(snapshot, decide(snapshot))
    assert decide(after).returning == before.returning


def test_two_jobs_that_leave_are_named_and_the_older_notebook_gets_the_first_room():
    jobs = [running(a_job(name, "z", "0.5"), "n-0") for name in "jk"]
    snapshot = two_on_one_device(*jobs).snapshot()
    assert {name: plan.leaving for name, plan in plans(snapshot).items()} == {
        "nb-ann": ("j", "k"),
        "nb-eve": ("j", "k"),
    }
    half = apply(snapshot, decide(snapshot))
    one_left = [w for w in half.workloads if w.id != "k"]
    decision = decide(replace(half, workloads=tuple(one_left)))
    assert [each.workload for each in decision.instructions] == ["nb-ann"]
    assert {each.workload: (each.ahead, each.leaving) for each in decision.returning} == {"nb-eve": (0, ("j",))}


def test_a_notebook_whose_cell_does_not_wait_is_before_nobody():
    snapshot = two_on_one_device(running(a_job("j", "z", "1"), "n-0"), eve_waits=False).snapshot()
    assert plans(snapshot) == {"nb-ann": Returning(workload="nb-ann", leaving=("j",))}


def test_a_notebook_on_another_device_is_before_nobody():
    cluster = Cluster().node("n", 2).fixed("train", ann="1", eve="1").queue("z", 0)
    cluster.add(waits("ann", 10.0, gpus="1"), waits("eve", 20.0, "n-1", gpus="1"))
    cluster.add(*(running(a_job(name, "z", "1"), f"n-{index}") for index, name in enumerate("jk")))
    assert {name: (plan.ahead, plan.leaving) for name, plan in plans(cluster.snapshot()).items()} == {
        "nb-ann": (0, ("j",)),
        "nb-eve": (0, ("k",)),
    }


def test_a_notebook_that_is_resumed_waits_for_nothing():
    assert plans(two_on_one_device().snapshot()) == {}


def test_a_job_that_its_user_cancelled_makes_room_as_well():
    cancelled = stopping(running(a_job("j", "z", "1"), "n-0"), requeue=False)
    assert plans(two_on_one_device(cancelled).snapshot())["nb-ann"].leaving == ("j",)


@pytest.mark.parametrize("kind", ["preemptible", "fixed"])
def test_work_that_cannot_give_way_is_counted_and_nobody_is_behind_the_notebook(kind):
    there = running(a_job("fixed", "z", "1", preemptible=kind == "preemptible"), "n-0")
    found = plans(two_on_one_device(there).snapshot())
    if kind == "preemptible":
        assert all(plan.is_coming for plan in found.values())
    else:
        assert found == {
            name: Returning(workload=name, kept_out=KeptOut.WORK, blockers=1) for name in ("nb-ann", "nb-eve")
        }


def test_a_notebook_that_cannot_be_observed_is_not_coming():
    snapshot = two_on_one_device(running(a_job("j", "z", "1"), "n-0")).snapshot()
    found = plans(replace(snapshot, unobserved=(Kind.NOTEBOOK,)))
    assert {plan.kept_out for plan in found.values()} == {KeptOut.UNOBSERVED}


def test_a_notebook_that_only_an_older_one_keeps_out_is_told_so():
    """A job that cannot give way leaves room for one of two notebooks."""
    fixed = running(a_job("fixed", "z", "0.5", preemptible=False), "n-0")
    kept = {"nb-eve": Returning(workload="nb-eve", kept_out=KeptOut.OLDER, ahead=1)}
    assert plans(two_on_one_device(fixed).snapshot()) == kept
    found = plans(two_on_one_device(fixed, running(a_job("j", "z", "0.5"), "n-0")).snapshot())
    assert found == kept | {"nb-ann": Returning(workload="nb-ann", leaving=("j",))}


def test_a_notebook_is_kept_out_by_a_share_that_is_being_restored():
    fixed = running(a_job("fixed", "z", "0.5", preemptible=False), "n-0")
    ann, eve = waits("ann", 10.0), waits("eve", 20.0)
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5", eve="0.5").queue("z", 0)
    found = plans(cluster.add(replace(ann, state=State.RESUMING), eve, fixed).snapshot())
    assert found == {"nb-eve": Returning(workload="nb-eve", kept_out=KeptOut.OTHER)}


@pytest.mark.parametrize(("what", "why"), [("gone", KeptOut.MISSING), ("lost", KeptOut.UNUSABLE)])
def test_a_notebook_whose_device_is_gone_or_lost_is_told_so(what, why):
    snapshot = two_on_one_device(running(a_job("j", "z", "1"), "n-0")).snapshot()
    (node,) = snapshot.nodes
    devices = () if what == "gone" else tuple(replace(each, healthy=False) for each in node.devices)
    found = plans(replace(snapshot, nodes=(replace(node, devices=devices),)))
    assert {plan.kept_out for plan in found.values()} == {why}


def test_all_is_back_once_the_jobs_have_stopped():
    snapshot = two_on_one_device(*(running(a_job(name, "z", "0.5"), "n-0") for name in "jk")).snapshot()
    after = stopped(apply(snapshot, decide(snapshot)))
    decision = decide(after)
    assert sorted(each.workload for each in decision.instructions) == ["nb-ann", "nb-eve"]
    assert decision.returning == ()
