"""A share that comes back half-way is suspended again, and waits and moves as a whole."""

import pytest

from jupyter_gq.devices.checkpointer import CheckpointProblem
from jupyter_gq.devices.suspension.settling import MOST_ATTEMPTS
from jupyter_gq.devices.suspension.suspender import SuspensionError
from jupyter_gq.devices.suspension.suspender import SuspensionProblem as P

from .suspender_world import CHECKPOINTED, LOCKED, RUNNING


def test_move_that_is_broken_off_remembers_who_was_moved(world):
    world.suspend()

    def take(call, process):
        if call == "restore" and 9 not in world.driver.processes:
            world.driver.start(9, 8000, "GPU-1")

    world.driver.before = take
    world.refused(P.NO_ROOM, world.resume, device="GPU-1")
    assert world.suspender.suspensions()[0].memory == {"GPU-1": 1000, "GPU-0": 2000}


def test_move_that_was_broken_off_ends_where_the_next_attempt_leads(world):
    world.suspend()

    def take(call, process):
        if call == "restore" and 9 not in world.driver.processes:
            world.driver.start(9, 8000, "GPU-1")

    world.driver.before = take
    world.refused(P.NO_ROOM, world.resume, device="GPU-1")
    world.driver.end(9)
    world.driver.start(9, 9000)
    world.resume(device="GPU-1")
    assert set(world.driver.states().values()) == {RUNNING}
    assert world.driver.used("GPU-1") == 3000


def test_resume_that_the_driver_refuses_leaves_nothing_on_the_device(world):
    world.suspend()
    world.driver.processes[2].fails["restore"] = CheckpointProblem.BUSY
    world.refused(P.BROKEN, world.resume, device="GPU-1")
    assert (world.driver.used("GPU-0"), world.driver.used("GPU-1")) == (0, 0)
    assert world.suspender.suspensions()[0].total == 3000
    world.driver.processes[2].fails.clear()
    world.resume(device="GPU-0")
    assert world.runs_as_before()


def half_back(world):
    """Leave a share half back on another device, where the driver does not suspend it again."""
    world.suspend()
    world.driver.processes[1].fails["checkpoint"] = world.driver.processes[2].fails["restore"] = CheckpointProblem.BUSY
    with pytest.raises(SuspensionError):
        world.resume(device="GPU-1")
    assert world.driver.states() == {1: LOCKED, 2: CHECKPOINTED}
    world.driver.processes[2].fails.clear()


def test_share_that_is_half_back_elsewhere_comes_back_as_a_whole_on_the_device_that_it_has_now(world):
    half_back(world)
    world.driver.processes[1].fails.clear()
    world.restart()
    world.resume(device="GPU-0")
    assert world.runs_as_before()


def test_share_that_is_half_back_elsewhere_and_cannot_be_suspended_again_is_not_said_to_be_back(world):
    half_back(world)
    with pytest.raises(SuspensionError, match="on another GPU"):
        world.resume(device="GPU-0")
    assert world.driver.states() == {1: LOCKED, 2: CHECKPOINTED}
    world.resume(device="GPU-1")
    assert world.driver.used("GPU-1") == 3000


@pytest.mark.parametrize("ended", [(2,), (1, 2)])
def test_share_of_which_nothing_came_back_can_still_move_once_processes_of_it_have_ended(world, ended):
    world.suspend()
    world.driver.processes[1].fails["restore"] = CheckpointProblem.BUSY
    with pytest.raises(SuspensionError):
        world.resume(device="GPU-1")
    world.driver.processes[1].fails.clear()
    for pid in ended:
        world.driver.end(pid)
    world.resume(device="GPU-0")
    assert set(world.driver.states().values()) <= {RUNNING}
    assert world.driver.used("GPU-1") == 0
    assert world.journal.entries() == ()


def test_place_of_what_was_suspended_again_is_known_although_the_driver_fails_then(world):
    world.driver.start(3, 4000)
    world.suspend(world.target(pids=(1, 2, 3)))
    second, suspended_again = world.driver.processes[2], []

    def disturb(call, process):
        if call == "restore" and process == second.id:
            world.driver.total["GPU-1"] = 5000
            second.fails |= {"checkpoint": CheckpointProblem.BUSY, "unlock": CheckpointProblem.BROKEN}
        if call == "checkpoint" and process == second.id:
            suspended_again.append(process)
            if len(suspended_again) > MOST_ATTEMPTS:
                second.fails.clear()

    world.driver.before = disturb
    world.refused(P.BROKEN, world.resume, device="GPU-1")
    assert len(suspended_again) == MOST_ATTEMPTS + 1
    assert world.suspender.suspensions()[0].memory == {"GPU-1": 3000, "GPU-0": 4000}
