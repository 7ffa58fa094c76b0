"""Limits of the driver on runs: set once, read again, cleared with the group, and claimed only while they are shown."""

import asyncio
import os
import subprocess
import threading
from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import LimitState
from jupyter_gq.backends.memory_limits import DriverLimits, clear_left_limits
from jupyter_gq.devices.linux.processes import identify
from jupyter_gq.devices.nvidia.driver_limits import LimitError, NeverLimitedError
from tests.fakes import FixedClock
from tests.fakes.driver import DriverThatKeepsLimits
from tests.patience import eventually

pytestmark = pytest.mark.asyncio

KEY = ("nb-1", 1)


class Machine:
    """The limits of one run, whose control group is a folder."""

    def __init__(self, folder):
        self.driver, self.clock, self.changes = DriverThatKeepsLimits(), FixedClock(), 0
        self.group = folder / "group"
        self.group.mkdir()
        self.limits = DriverLimits(
            limiter=self.driver, devices=["a", "b"], parent=None, awake=self.clock.awake, on_change=self.changed
        )

    def changed(self):
        self.changes += 1

    @property
    def state(self):
        return self.limits.state(*KEY)

    async def settle(self, **wanted):
        """Want limits until nothing is under way."""

        def settled():
            self.limits.want(*KEY, wanted)
            found = self.limits._runs[KEY]
            return not found.busy and found.set == wanted

        await eventually(settled, "the limits")

    async def see_again(self, **wanted):
        """Let the limits be read again after a while."""
        self.clock.forward(31)
        self.limits.want(*KEY, wanted)
        await eventually(lambda: not self.limits._runs[KEY].busy, "the second reading")


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.limits.enter(KEY, str(made.group))
    return made


async def test_limit_is_set_once_and_confirmed(machine):
    assert machine.state == LimitState()
    await machine.settle(a=1000)
    assert machine.state == LimitState(confirmed=frozenset("a"))
    assert machine.changes == 1
    await machine.see_again(a=1000)
    assert (machine.driver.calls, machine.changes) == ([("a", 1000)], 1)


async def test_limits_follow_the_share_to_another_device(machine):
    await machine.settle(a=1000)
    await machine.settle(b=2000)
    assert machine.driver.calls == [("a", 1000), ("a", None), ("b", 2000)]
    assert machine.state.confirmed == frozenset("b")


async def test_limit_that_grows_is_set_anew(machine):
    """The old one would hold as well, and be too small."""
    await machine.settle(a=1000)
    await machine.settle(a=2000)
    assert machine.driver.calls == [("a", 1000), ("a", 2000)]


async def test_limit_that_somebody_removed_is_set_again(machine):
    await machine.settle(a=1000)
    machine.driver.limits.clear()
    await machine.see_again(a=1000)
    assert (machine.driver.calls, machine.state.confirmed) == ([("a", 1000)] * 2, frozenset("a"))


async def test_limit_that_the_driver_does_not_show_is_not_claimed(machine):
    machine.driver.forgets = True
    await machine.settle(a=1000)
    assert machine.state.confirmed == frozenset()
    assert machine.state.trouble == "NVIDIA's driver was told the limit 1000 MiB, and does not show it."


async def test_refusal_is_told_and_does_not_hide_the_limits_of_other_devices(machine, caplog):
    machine.driver.limits = {("a", str(machine.group)): 1000}
    await machine.settle(a=1000)
    machine.driver.refusal = "Only root may."
    await machine.settle(a=1000, b=2000)
    assert machine.state == LimitState(confirmed=frozenset("a"), trouble="Only root may.")
    assert "limits of nb-1: Only root may." in caplog.text


async def test_run_without_a_group_has_no_limit_and_says_why(machine):
    machine.limits.enter(("nb-2", 1), "", "It is in another group.")
    machine.limits.want("nb-2", 1, {"a": 1000})
    assert machine.limits.state("nb-2", 1) == LimitState(trouble="It is in another group.")
    assert machine.driver.calls == []


class Program:
    """A process that runs until it is ended; it is in a group if the test says so."""

    def __init__(self):
        self.process = subprocess.Popen(["sleep", "600"])
        self.id = identify(self.process.pid)

    def enter(self, group):
        (group / "cgroup.procs").write_text(f"1\n{self.id.pid}\n")

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def program():
    made = Program()
    yield made
    made.end()


async def test_limit_does_not_count_while_a_program_outside_the_group_uses_the_device(machine, program, caplog):
    await machine.settle(a=1000)
    program.enter(machine.group)
    machine.limits.note_users(*KEY, [program.id])
    assert (machine.state, machine.changes) == (LimitState(confirmed=frozenset("a")), 1)

    (machine.group / "cgroup.procs").write_text("1\n")
    machine.limits.note_users(*KEY, [program.id])
    machine.limits.note_users(*KEY, [program.id])
    assert (machine.state.confirmed, machine.changes) == (frozenset(), 2)
    assert f"(process {program.id.pid}) has left the control group" in machine.state.trouble
    assert caplog.text.count("has left the control group") == 1

    program.enter(machine.group)
    machine.limits.note_users(*KEY, [program.id])
    assert machine.state.confirmed == frozenset(), "what it has taken outside is not counted"

    program.end()
    machine.limits.note_users(*KEY, [program.id])
    assert (machine.state, machine.changes) == (LimitState(confirmed=frozenset("a")), 3)


async def test_program_that_has_ended_is_not_taken_for_one_outside_the_group(machine, program):
    await machine.settle(a=1000)
    program.end()
    machine.limits.note_users(*KEY, [program.id])
    machine.limits.note_users(*KEY, [replace(identify(os.getpid()), ticks=1)])
    assert machine.state == LimitState(confirmed=frozenset("a"))


async def test_group_that_cannot_be_read_says_nothing_about_its_programs(machine, program):
    await machine.settle(a=1000)
    (machine.group / "cgroup.procs").mkdir()
    machine.limits.note_users(*KEY, [program.id])
    assert machine.state == LimitState(confirmed=frozenset("a"))
    (machine.group / "cgroup.procs").rmdir()
    machine.limits.note_users(*KEY, [program.id])
    assert machine.state.confirmed == frozenset(), "no program is in a group that is gone"


async def test_run_that_got_another_group_has_its_limits_set_there(machine, tmp_path):
    await machine.settle(a=1000)
    machine.limits.enter(KEY, str(machine.group))
    assert machine.state.confirmed == frozenset("a"), "it is known"
    machine.limits.enter(KEY, str(tmp_path / "other"))
    await machine.settle(a=1000)
    assert machine.driver.limits[("a", str(tmp_path / "other"))] == 1000


async def test_end_of_a_run_clears_its_limits_before_its_group_goes(machine):
    await machine.settle(a=1000)
    machine.limits.leave(KEY, str(machine.group))
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert (machine.driver.calls[-1], machine.state) == (("a", None), LimitState())


async def test_group_goes_at_once_if_it_has_no_limit(machine):
    await machine.settle()
    machine.limits.leave(KEY, str(machine.group))
    assert not machine.group.exists()


async def test_limit_that_an_earlier_service_left_is_cleared_with_the_group(machine):
    """The run ended while there was no service, so that nobody has told this one its limits."""
    machine.driver.limits = {("b", str(machine.group)): 1000}
    machine.limits.leave(("nb-9", 1), str(machine.group))
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert machine.driver.calls == [("b", None)]


async def test_limit_that_an_earlier_service_set_on_another_device_is_cleared(machine):
    """The share has moved meanwhile, or its device is shared by MPS now."""
    machine.driver.limits = {("b", str(machine.group)): 1000}
    await machine.settle(a=2000)
    assert machine.driver.calls == [("b", None), ("a", 2000)]
    machine.limits.enter(("nb-2", 1), other := str(machine.group / "other"))
    machine.driver.limits[("b", other)] = 1000
    machine.limits.want("nb-2", 1, {})
    await eventually(lambda: machine.driver.limits[("b", other)] is None, "the end of the limit")


async def test_device_that_cannot_tell_its_limit_is_asked_again_and_hides_no_other(machine):
    machine.driver.limits = {("a", str(machine.group)): 1000, ("b", str(machine.group)): 1000}
    machine.driver.unread = {"a": LimitError("Not now.")}
    await machine.see_again()
    assert machine.driver.calls == [("b", None)]
    await machine.see_again()
    machine.driver.unread.clear()
    await machine.see_again()
    assert (machine.driver.calls, machine.limits._runs[KEY].set) == ([("b", None), ("a", None)], {})


async def test_device_that_never_has_a_limit_is_not_asked_again(machine):
    machine.driver.unread = {"a": NeverLimitedError("It is divided.")}
    await machine.settle()
    assert machine.limits._runs[KEY].set == {}


async def test_limits_are_unknown_after_a_crash_of_the_driver(machine):
    machine.driver.limits = {("b", str(machine.group)): 1000}
    machine.driver.unread = {"a": MemoryError("a crash")}
    await machine.see_again()
    machine.driver.unread.clear()
    await machine.see_again()
    assert machine.driver.calls == [("b", None)]


async def test_limit_that_could_not_be_cleared_is_tried_again_now_and_then(machine):
    await machine.settle(a=1000)
    machine.driver.refusal = "Not now."
    machine.limits.want(*KEY, {})
    await eventually(lambda: not machine.limits._runs[KEY].busy, "the refusal")
    machine.limits.want(*KEY, {})
    assert machine.driver.calls == [("a", 1000), ("a", None)], "not at once"
    machine.driver.refusal = ""
    await machine.see_again()
    assert (machine.driver.calls[2:], machine.limits._runs[KEY].set) == ([("a", None)], {})


async def test_run_that_ends_while_its_limit_is_set_leaves_none(machine):
    machine.driver.answers.clear()
    machine.limits.want(*KEY, {"a": 1000})
    machine.limits.leave(KEY, str(machine.group))
    assert machine.group.exists(), "the driver is at work on it"
    machine.driver.answers.set()
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert machine.driver.calls == [("a", 1000), ("a", None)]


async def test_group_that_is_made_again_meanwhile_is_not_removed_under_its_new_run(machine):
    """A run that had started in part is launched again in one step of the loop."""
    machine.driver.limits = {("b", str(machine.group)): 1000}
    machine.driver.answers.clear()
    machine.limits.leave(KEY, str(machine.group))
    (clearing,) = [thread for thread in threading.enumerate() if thread.name == "clear memory limits"]
    machine.group.mkdir(exist_ok=True)
    machine.driver.answers.set()
    clearing.join()
    assert machine.group.exists(), "no program has entered it yet"
    (machine.group / "cgroup.procs").write_text("1\n")
    await asyncio.sleep(0)  # what the thread has left to the loop
    assert (machine.driver.calls, machine.group.exists()) == ([("b", None)], True)


@pytest.mark.parametrize("ends", ["while its limit is set", "later"])
async def test_slow_driver_clears_nothing_of_a_run_that_was_launched_again(machine, ends):
    machine.limits.enter(KEY, str(machine.group))
    begun, set_limit, read_limit = threading.Event(), machine.driver.set_limit, machine.driver.read_limit

    def slowly(call):
        def wait(*arguments):
            begun.set()
            machine.driver.answers.wait()
            return call(*arguments)

        return wait

    if ends == "later":
        await machine.settle(a=100)
    machine.driver.answers.clear()
    machine.driver.set_limit, machine.driver.read_limit = slowly(set_limit), slowly(read_limit)
    if ends != "later":
        machine.limits.want(*KEY, {"a": 100})
    machine.limits.leave(KEY, str(machine.group))
    machine.limits.enter(KEY, str(machine.group))
    await eventually(begun.is_set, "the call of the driver")
    machine.driver.set_limit, machine.driver.read_limit = set_limit, read_limit
    machine.limits.want(*KEY, {"a": 200})
    assert not machine.limits._runs[KEY].busy, "nothing is set before the limit of the run before is cleared"
    assert machine.state.confirmed == frozenset()
    machine.driver.answers.set()
    (machine.group / "process").touch()  # the group is in use, and stays
    await machine.settle(a=200)
    assert machine.driver.limits[("a", str(machine.group))] == 200
    assert machine.state.confirmed == frozenset({"a"})
    assert not machine.limits._left


async def test_limits_of_the_group_that_a_run_had_before_are_cleared(machine, tmp_path):
    await machine.settle(a=1000)
    machine.limits.enter(KEY, str(tmp_path / "other"))
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert machine.driver.limits == {("a", str(machine.group)): None}


async def test_group_goes_although_the_driver_refuses_to_clear_its_limit(machine, caplog):
    caplog.set_level("INFO")
    await machine.settle(a=1000)
    machine.driver.refusal = "It is not supported."
    machine.limits.leave(KEY, str(machine.group))
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert "were not cleared: It is not supported." in caplog.text


async def test_limits_of_runs_that_go_on_are_cleared_after_they_were_switched_off(machine, tmp_path):
    groups = [tmp_path / name for name in ("jupyter-gq-server-nb-1-1", "jupyter-gq-job-1", "of-others")]
    for group in groups:
        group.mkdir()
        machine.driver.limits["b", str(group)] = 1000
    clear_left_limits(machine.driver, ["a", "b"], tmp_path)
    await eventually(lambda: len(machine.driver.calls) == 2, "the end of the limits")
    assert machine.driver.limits == {("b", str(group)): 1000 if group.name == "of-others" else None for group in groups}


async def test_device_that_refuses_keeps_no_other_limit_from_being_cleared(machine, tmp_path):
    machine.driver.unread = {"a": NeverLimitedError("It is divided.")}
    groups = [tmp_path / name for name in ("jupyter-gq-job-1", "jupyter-gq-job-2")]
    for group in groups:
        group.mkdir()
        machine.driver.limits["b", str(group)] = 1000
    clear_left_limits(machine.driver, ["a", "b"], tmp_path)
    await eventually(lambda: machine.driver.calls == [("b", None)] * 2, "the end of the limits")

    machine.driver.limits["b", str(machine.group)] = 1000
    machine.limits.leave(("nb-9", 1), str(machine.group))
    await eventually(lambda: not machine.group.exists(), "the end of the group")
    assert machine.driver.limits["b", str(machine.group)] is None


async def test_driver_that_hangs_is_asked_once_and_holds_up_nothing(machine):
    machine.driver.answers.clear()
    for _ in range(3):
        machine.limits.want(*KEY, {"a": 1000})
    assert machine.state == LimitState()
    machine.driver.answers.set()
    await machine.settle(a=1000)
    assert machine.driver.calls == [("a", 1000)]


async def test_run_says_so_while_a_driver_that_hangs_keeps_its_limit_from_being_set(machine, caplog):
    await machine.settle(a=100)
    machine.driver.answers.clear()
    machine.limits.leave(KEY, str(machine.group))
    machine.limits.enter(KEY, str(machine.group))
    changes = machine.changes
    for seconds in (0, 29):
        machine.clock.forward(seconds)
        machine.limits.want(*KEY, {"a": 200})
        assert machine.state == LimitState(), "a driver may be slow for a moment"
    for _ in range(2):
        machine.clock.forward(1)
        machine.limits.want(*KEY, {"a": 200})
    assert machine.state.confirmed == frozenset()
    assert machine.state.trouble.startswith("The GPU driver has not answered for more than half a minute")
    assert machine.changes == changes + 1
    assert caplog.text.count("The GPU driver has not answered") == 1
    machine.driver.answers.set()
    (machine.group / "process").touch()  # the group is in use, and stays
    await machine.settle(a=200)
    assert machine.state == LimitState(confirmed=frozenset("a"))


async def test_group_that_is_used_again_while_it_is_cleared_keeps_the_limit_of_its_new_run(machine):
    """A server was started again right after the service."""
    machine.driver.limits = {("a", str(machine.group)): 100}
    machine.driver.answers.clear()
    machine.limits.remove(["", str(machine.group)])
    machine.limits.want(*KEY, {"a": 200})
    assert not machine.limits._runs[KEY].busy, "nothing is set before the limits that were left are cleared"
    (machine.group / "process").touch()
    machine.driver.answers.set()
    await machine.settle(a=200)
    assert machine.driver.calls == [("a", None), ("a", 200)]
    assert machine.group.exists()
