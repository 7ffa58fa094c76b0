"""Gangs: their groups and their amounts."""

from dataclasses import replace

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.workload import Request, TaskGroup, TaskPlacement
from jupyter_gq.scheduling.workloads import gang
from tests.builders import a_job

LEADER = TaskGroup(name="leader", request=Request(devices=0), tasks=1, min_members=1)
WORKERS = TaskGroup(name="workers", request=Request(devices=2), tasks=3, min_members=2, parent="all")
EVALUATION = TaskGroup(
    name="evaluation", request=Request(devices=1, milli_per_device=MilliGpu(250)), tasks=2, min_members=1
)
ALL = TaskGroup(name="all", request=Request(devices=0), tasks=0, min_members=0)
UNLIKE = replace(a_job("g", "q"), groups=(ALL, LEADER, WORKERS, EVALUATION))


def test_like_tasks_are_one_group_without_a_name():
    job = a_job("g", "q", 2, tasks=3, min_members=2)
    assert gang.groups_of(job) == (TaskGroup(name="", request=job.request, tasks=3, min_members=2),)
    assert (gang.smallest(job), gang.held(job), job.milli) == (4000, 6000, 6000)


def test_a_group_that_only_holds_others_together_has_no_tasks():
    assert gang.groups_of(UNLIKE) == (LEADER, WORKERS, EVALUATION)


def test_amounts_go_by_the_groups():
    assert gang.smallest(UNLIKE) == 2 * 2000 + 250
    assert UNLIKE.milli == 3 * 2000 + 2 * 250
    there = (TaskPlacement(node="n", group="leader"), TaskPlacement(node="n", devices=("a", "b"), group="workers"))
    assert gang.held(replace(UNLIKE, placement=there)) == 2000
