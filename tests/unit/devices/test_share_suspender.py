"""A share is suspended as a whole or not at all, and resumed only where there is room."""

import pytest

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem
from jupyter_gq.devices.suspension.host_memory import HostRoom
from jupyter_gq.devices.suspension.journal import FileJournal, Step
from jupyter_gq.devices.suspension.suspender import Recovered, SuspensionError, SuspensionProblem
from tests.fakes.driver import FakeDriver

from .suspender_world import CHECKPOINTED, FAILED, LOCKED, RUNNING, World

P = SuspensionProblem


def test_memory_of_all_processes_leaves_the_device_and_comes_back(world):
    found = world.suspend()
    assert (found.total, found.memory, [each.pid for each in found.processes]) == (3000, {"GPU-0": 3000}, [1, 2])
    assert world.driver.used("GPU-0") == 0
    assert world.suspender.suspensions() == (found,)
    assert world.resume() == found
    assert world.runs_as_before()
    assert world.suspender.suspensions() == world.journal.entries() == ()


def test_share_that_is_suspended_already_stays_so(world):
    assert world.suspend() == world.suspend()


def test_process_that_uses_no_device_is_left_alone(world):
    world.driver.start(3, 0)
    assert [each.pid for each in world.suspend(world.target(pids=(1, 2, 3))).processes] == [1, 2]
    assert world.driver.states()[3] is RUNNING


def test_share_that_is_wanted_meanwhile_runs_on(world):
    seen = []

    def is_wanted():
        seen.append(set(world.driver.states().values()))
        return True

    world.refused(P.WANTED, world.suspend, is_wanted=is_wanted)
    assert seen == [{LOCKED}]
    assert world.runs_as_before()


def test_error_of_the_caller_undoes_the_suspension(world):
    def is_wanted():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        world.suspend(is_wanted=is_wanted)
    assert world.runs_as_before()
    assert world.journal.entries() == ()


def test_work_that_does_not_end_leaves_all_running(world):
    world.driver.processes[2].fails["lock"] = CheckpointProblem.BUSY
    world.refused(P.BUSY, world.suspend)
    assert world.runs_as_before()


def test_refusal_of_the_driver_is_remembered_until_the_share_ends(world):
    world.driver.processes[2].fails["checkpoint"] = CheckpointProblem.UNSUPPORTED
    sentence = world.refused(P.UNSUSPENDABLE, world.suspend)
    assert world.runs_as_before()
    del world.driver.processes[2].fails["checkpoint"]
    world.restart()
    assert world.refused(P.UNSUSPENDABLE, world.suspend) == sentence
    assert world.suspender.unsuspendable("a") == world.suspender.obstacle(world.target()) == sentence
    assert world.suspender.recover() == {"a": Recovered.RUNNING}
    world.suspender.forget("a")
    assert world.suspender.unsuspendable("a") is None
    world.suspend()


def test_refusal_of_a_share_that_ended_while_there_was_no_service_is_removed(world):
    world.driver.processes[2].fails["checkpoint"] = CheckpointProblem.UNSUPPORTED
    world.refused(P.UNSUSPENDABLE, world.suspend)
    world.driver.end(1)
    world.restart()
    world.suspender.recover()
    assert world.suspender.unsuspendable("a"), "one of its programs still runs"
    world.driver.end(2)
    world.restart()
    assert world.suspender.recover() == {"a": Recovered.RUNNING}
    assert world.journal.entries() == ()


def test_share_that_cannot_be_recovered_does_not_keep_others_from_it(world):
    world.suspend(world.target(pids=(1,)))
    world.suspend(world.target("b", pids=(2,)))
    world.driver.processes[1].fails["state"] = CheckpointProblem.BROKEN
    world.restart()
    assert world.suspender.recover() == {"a": Recovered.UNKNOWN, "b": Recovered.SUSPENDED}
    del world.driver.processes[1].fails["state"]
    world.resume()
    assert world.driver.states()[1] is RUNNING, "the next call tries again"


@pytest.mark.parametrize(
    ("problem", "prepare"),
    [
        (P.UNAVAILABLE, lambda driver: setattr(driver, "available", False)),
        (P.UNSUSPENDABLE, lambda driver: driver.obstacle_of.update({"GPU-0": "The GPU is partitioned."})),
        (P.UNKNOWN, lambda driver: setattr(driver, "blind", True)),
        (P.NOTHING_TO_SUSPEND, lambda driver: driver.processes.clear()),
        (P.HOST_MEMORY, lambda driver: setattr(driver, "host", HostRoom(memory=3999, place="this machine"))),
        (P.HOST_MEMORY, lambda driver: setattr(driver, "host", None)),
    ],
    ids=["support", "obstacle", "blind", "nothing", "host memory", "host memory unknown"],
)
def test_suspension_that_cannot_succeed_is_not_begun(world, problem, prepare):
    prepare(world.driver)
    world.driver.before = pytest.fail
    sentence = world.refused(problem, world.suspend)
    assert world.suspender.obstacle(world.target()) == sentence


class DriverThatDeniesItsPrograms(FakeDriver):
    """A driver that says of each program that it uses no device, or does not tell if `problem` is set."""

    problem = None

    def uses_device(self, process):
        if self.problem is not None:
            raise CheckpointError(self.problem, "The driver does not tell.")
        return False


@pytest.mark.parametrize("problem", [None, CheckpointProblem.NO_PERMISSION])
def test_share_is_not_empty_because_the_driver_denies_its_programs(world, problem):
    world.driver = DriverThatDeniesItsPrograms()
    world.driver.problem = problem
    world.driver.start(1, 1000)
    world.restart()
    world.refused(P.UNKNOWN, world.suspend)
    world.driver.processes.clear()
    world.refused(P.NOTHING_TO_SUSPEND, world.suspend)


def test_share_that_can_be_suspended_has_no_obstacle(world):
    world.driver.host = HostRoom(memory=4000, place="this machine")
    assert world.suspender.obstacle(world.target()) is None


def test_suspended_memory_is_capped(tmp_path):
    limits = [3500]
    world = World(tmp_path / "journal", most_suspended=lambda: limits[0])
    world.suspend()
    world.driver.start(3, 501)
    other = world.target("b", pids=(3,))
    assert "3000 MiB are" in world.refused(P.HOST_MEMORY, world.suspend, other)
    limits[0] = 3501
    world.suspend(other)


def test_memory_taken_until_the_lock_counts(world):
    def grow(call, process):
        if call == "lock" and process.pid == 2:
            world.driver.processes[1].memory = 1500

    world.driver.before = grow
    assert world.suspend().total == 3500


def test_process_that_begins_to_use_the_device_meanwhile_is_suspended_too(world):
    def start(call, process):
        if call == "checkpoint" and process.pid == 1 and 3 not in world.driver.processes:
            world.driver.start(3, 300)

    world.driver.before = start
    assert [each.pid for each in world.suspend(world.target(pids=(1, 2, 3))).processes] == [1, 2, 3]
    assert world.driver.used("GPU-0") == 0


def test_share_that_starts_programs_again_and_again_runs_on(world):
    def start(call, process):
        if call == "checkpoint" and process.pid + 10 not in world.driver.processes:
            world.driver.start(process.pid + 10, 10)

    world.driver.before = start
    world.refused(P.BUSY, world.suspend, world.target(pids=range(100)))
    assert set(world.driver.states().values()) == {RUNNING}


def test_process_that_ends_meanwhile_is_passed_over(world):
    world.driver.before = lambda call, process: world.driver.processes.pop(2, None) if call == "checkpoint" else None
    world.suspend()
    world.resume()
    assert world.driver.states() == {1: RUNNING}


def test_memory_that_stays_on_the_device_ends_the_suspension(world):
    stayed = world.driver.start(3, 400)
    world.driver.uses_device = lambda process: process != stayed and FakeDriver.uses_device(world.driver, process)
    world.refused(P.MEMORY_STAYED, world.suspend, world.target(pids=(1, 2, 3)))
    assert set(world.driver.states().values()) == {RUNNING}
    assert world.now >= 10


def test_resume_restores_nothing_before_the_probe_shows_room(world):
    world.suspend()
    world.driver.start(9, 7000)
    world.driver.before = pytest.fail
    sentence = world.refused(P.NO_ROOM, world.resume, timeout=5)
    assert sentence == "To resume, this share needs 3100 MiB on GPU-0, where 3000 MiB are free."
    assert 5 <= world.now < 6
    assert world.suspender.suspensions()[0].total == 3000


def test_resume_waits_for_room(world):
    world.suspend()
    world.driver.start(9, 7000)
    world.meanwhile = lambda: world.driver.processes.pop(9, None) if world.now > 3 else None
    world.resume(timeout=5)
    world.driver.processes.pop(9, None)
    assert world.runs_as_before()


def test_resume_that_the_probe_cannot_judge_is_refused(world):
    world.suspend()
    world.driver.blind = True
    assert "does not tell" in world.refused(P.NO_ROOM, world.resume)


def test_resume_on_another_device(world):
    world.suspend()
    world.driver.start(9, 9000)
    world.resume(device="GPU-1")
    assert world.driver.used("GPU-1") == 3000
    assert world.suspend(world.target(devices=("GPU-1",))).memory == {"GPU-1": 3000}


def test_resume_on_another_device_needs_a_driver_that_can(world):
    world.suspend()
    world.driver.can_move = False
    world.refused(P.UNAVAILABLE, world.resume, device="GPU-1")
    world.resume()


def test_share_that_is_not_suspended_is_not_resumed(world):
    world.refused(P.NOT_SUSPENDED, world.resume)


def test_lost_process_takes_no_other_with_it(world):
    world.suspend()
    world.driver.processes[1].fails["restore"] = CheckpointProblem.OUT_OF_MEMORY
    world.refused(P.LOST, world.resume)
    assert world.driver.states() == {1: FAILED, 2: RUNNING}
    assert world.journal.entries() == ()


def test_room_that_is_taken_during_the_resume_suspends_the_share_again(world):
    world.suspend()

    def take(call, process):
        if call == "restore" and 9 not in world.driver.processes:
            world.driver.start(9, 8000)

    world.driver.before = take
    world.refused(P.NO_ROOM, world.resume)
    assert world.suspender.suspensions()[0].total == 3000
    assert world.driver.used("GPU-0") == 8000
    world.driver.end(9)
    world.driver.before = lambda call, process: None
    world.resume()
    assert world.runs_as_before()


def test_process_that_cannot_be_suspended_again_runs(world):
    world.suspend()

    def take(call, process):
        if call == "restore" and 9 not in world.driver.processes:
            world.driver.processes[1].fails["checkpoint"] = CheckpointProblem.BROKEN
            world.driver.start(9, 8000)

    world.driver.before = take
    world.refused(P.NO_ROOM, world.resume)
    assert world.driver.states() == {1: RUNNING, 2: CHECKPOINTED, 9: RUNNING}
    assert world.suspender.suspensions()[0].total == 2000


def test_share_whose_programs_have_ended_is_resumed_at_once(world):
    world.suspend()
    world.driver.processes.clear()
    world.resume()
    assert world.journal.entries() == ()


def test_driver_that_fails_for_a_moment_is_asked_again(world):
    world.suspend()
    process = world.driver.processes[2]
    process.fails["unlock"] = CheckpointProblem.BROKEN
    world.meanwhile = process.fails.clear
    world.resume()
    assert world.runs_as_before()


def test_entry_that_a_failing_driver_leaves_is_settled_by_the_next_call(world):
    world.suspend()
    process = world.driver.processes[2]
    process.fails["unlock"] = CheckpointProblem.BROKEN
    with pytest.raises(SuspensionError):
        world.resume()
    assert [entry.step for entry in world.journal.entries()] == [Step.RESTORING]
    process.fails.clear()
    assert world.suspender.recover() == {"a": Recovered.RUNNING}
    assert world.runs_as_before()


def test_disk_that_refuses_the_journal_undoes_the_suspension(world, monkeypatch):
    writes = []

    def write(entry):
        writes.append(entry.step)
        if entry.step is Step.CHECKPOINTING:
            raise OSError(28, "No space left on device")
        FileJournal.write(world.journal, entry)

    monkeypatch.setattr(world.journal, "write", write)
    assert "No space left" in world.refused(P.DISK, world.suspend)
    assert world.runs_as_before()
    assert writes == [Step.LOCKING, Step.CHECKPOINTING]


def test_journal_of_an_earlier_start_of_the_machine_is_dropped(world):
    world.suspend()
    assert len(FileJournal(world.path, boot="boot-1").entries()) == 1
    assert FileJournal(world.path, boot="boot-2").entries() == ()


def test_damaged_journal_is_kept_aside(world, caplog):
    world.path.write_text('{"boot": "boot-1", "shares": [{"name"')
    assert FileJournal(world.path, boot="boot-1").entries() == ()
    assert world.path.with_name("journal.damaged").exists()
    assert "could not be read, and was set aside" in caplog.text


def test_entry_is_on_the_disk_before_the_step_begins(world):
    seen = []

    def look(call, process):
        seen.append((call, FileJournal(world.path, boot="boot-1").find("a").step))

    world.driver.before = look
    world.suspend()
    world.resume()
    assert seen == [
        *[("lock", Step.LOCKING)] * 2,
        *[("checkpoint", Step.CHECKPOINTING)] * 2,
        *[("restore", Step.RESTORING)] * 2,
        *[("unlock", Step.RESTORING)] * 2,
    ]
