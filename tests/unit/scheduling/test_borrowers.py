"""Which work uses what suspended notebooks have lent, and which has its place in its own right."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskGroup, TaskPlacement
from jupyter_gq.scheduling.workloads.borrowers import borrowers_on
from tests.builders import a_job, a_notebook, running

ANN = replace(running(a_notebook("ann", "0.5"), "n-0"), state=State.SUSPENDED)


def using(name, gpus, since, **fields):
    return running(a_job(name, fields.pop("queue", "q"), gpus, **fields), "n-0", since=since)


def names(*users, above=()):
    return [each.id for each in borrowers_on("n-0", [ANN], users, above)]


def test_nobody_borrows_who_fits_beside_the_lender():
    assert names(using("a", "0.25", 1), using("b", "0.25", 2)) == []


def test_work_that_came_first_has_its_place_and_later_work_that_fits_beside_it_too():
    users = using("first", "0.25", 1), using("large", "0.5", 2), using("small", "0.25", 3)
    assert names(*users) == names(*reversed(users)) == ["large"]


def test_work_that_has_not_started_came_last():
    waits = replace(using("new", "0.5", 0), started_at=None)
    assert names(waits, using("old", "0.5", 900)) == ["new"]


def test_work_within_its_quota_has_its_place_before_work_above_it():
    assert names(using("over", "0.5", 1), using("within", "0.5", 2, queue="z"), above=("q",)) == ["over"]


@pytest.mark.parametrize("fixed", [{"preemptible": False}, {"kind": ANN.kind}])
def test_work_that_may_not_borrow_never_does(fixed):
    assert names(using("job", "0.5", 1), using("fixed", "0.5", 2, **fixed)) == ["job"]


def test_each_task_counts_with_the_request_of_its_group_also_while_it_leaves():
    half = Request(devices=1, milli_per_device=MilliGpu(500))
    groups = (TaskGroup(name="a", request=half, tasks=1, min_members=1),)
    job = replace(a_job("gang", "q", 1), groups=groups, state=State.RUNNING, started_at=0.0)
    job = replace(job, placement=(TaskPlacement(node="n", devices=("n-0",), group="a"),))
    assert names(job) == []
    assert names(job, using("next", "0.25", 1)) == ["next"]
