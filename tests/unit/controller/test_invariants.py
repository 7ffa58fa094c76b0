"""The assertion mode finds what must never be."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.controller.loop.invariants import (
    InvariantBroken,
    check_capabilities,
    check_limits,
    check_placements,
    check_runs,
)
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Leaving, Request, TaskGroup, TaskPlacement
from jupyter_gq.scheduling.decision import Decision, Grow, Resume, Shrink, Suspend
from tests.builders import NOW, a_job, a_queue, running, stopping
from tests.fakes import FakeBackend, FakeResizingBackend, FixedClock, SuspendsShares


def test_two_on_one_device_may_share_it_up_to_the_whole():
    half = [running(a_job(name, "q", "0.5"), "gpu") for name in ("a", "b")]
    check_placements(half)
    with pytest.raises(InvariantBroken, match="gpu"):
        check_placements([*half, running(a_job("c", "q", "0.001"), "gpu")])


def test_who_does_not_hold_has_no_place():
    waiting = replace(a_job("a", "q"), placement=(TaskPlacement(node="box", devices=("gpu",)),))
    with pytest.raises(InvariantBroken, match="still has a place"):
        check_placements([waiting])


def test_a_gang_is_placed_whole():
    gang = running(a_job("a", "q", "0.25", tasks=2, min_members=2), "gpu", "gpu")
    check_placements([gang])
    with pytest.raises(InvariantBroken, match="1 of 2 tasks"):
        check_placements([replace(gang, placement=gang.placement[:1])])
    with pytest.raises(InvariantBroken, match="devices a task"):
        check_placements([replace(gang, placement=(TaskPlacement(node="box", devices=()),) * 2)])


def test_each_group_of_a_gang_is_placed_with_its_own_least_size():
    groups = tuple(TaskGroup(name=name, request=Request(devices=1), tasks=2, min_members=1) for name in ("a", "b"))
    gang = running(replace(a_job("g", "q", tasks=4, min_members=2), groups=groups), "x", "y")
    one_each = tuple(replace(task, group=name) for task, name in zip(gang.placement, ("a", "b"), strict=True))
    check_placements([replace(gang, placement=one_each)])
    of_one = tuple(replace(task, group="a") for task in gang.placement)
    with pytest.raises(InvariantBroken, match=r"g \(b\) is placed with 0 of 2 tasks"):
        check_placements([replace(gang, placement=of_one)])
    check_placements([replace(gang, placement=of_one, stale_since=NOW)])


def test_a_task_that_is_leaving_still_holds_its_device():
    stop = stopping(a_job("b", "q")).stop
    leaving = (Leaving(task=TaskPlacement(node="box", devices=("x",)), stop=stop),)
    shrunk = replace(running(a_job("a", "q", tasks=2, min_members=1), "y"), leaving=leaving)
    check_placements([shrunk])
    with pytest.raises(InvariantBroken, match="device x"):
        check_placements([shrunk, running(a_job("c", "q", "0.5"), "x")])
    with pytest.raises(InvariantBroken, match="queue q holds 2000"):
        check_limits([shrunk], [a_queue("q", limit=1)], ["a"])


@pytest.mark.parametrize(
    "instruction",
    [
        Grow(workload="a", placement=()),
        Shrink(workload="a", placement=(), reason=EvictReason.RECLAIMED, by=None, sentence=""),
        Suspend(workload="a", by=None, sentence=""),
        Resume(workload="a", placement=()),
    ],
)
def test_nothing_is_decided_that_a_backend_cannot_do(instruction):
    decision, backend = Decision(instructions=(instruction,), pending=()), FakeBackend(FixedClock(), ())
    with pytest.raises(InvariantBroken, match="a gets a"):
        check_capabilities(decision, {"a": backend})
    backend.capabilities = Capabilities(
        suspension=SuspendsShares(FixedClock(), ()), resizing=FakeResizingBackend(FixedClock(), ())
    )
    check_capabilities(decision, {"a": backend})


def test_a_limit_holds_for_who_was_just_admitted_and_for_everything_above():
    queues = [a_queue("top", limit="0.5"), a_queue("q", parent="top")]
    job = running(a_job("a", "q", "1"), "gpu")
    check_limits([job], queues, [])
    with pytest.raises(InvariantBroken, match="queue top holds 1000"):
        check_limits([job], queues, ["a"])


def test_no_workload_runs_twice_at_once():
    def seen(run, phase):
        return Observation(workload="a", run=run, phase=phase, since=Instant(0))

    job = running(a_job("a", "q"), "gpu")
    check_runs([job], [seen(1, Phase.ENDED), seen(2, Phase.RUNNING)])
    with pytest.raises(InvariantBroken, match="runs 2 times"):
        check_runs([job], [seen(1, Phase.RUNNING), seen(2, Phase.STARTING)])
