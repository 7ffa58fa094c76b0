"""Safety: a service that is killed at any moment of a suspension or a resume leaves nothing half done after `recover`.

Each story is played once for each place where the service can be killed: before and after each act of the driver and
each change of the journal. The recovery is killed at each place too. Each story is told of three notebooks: one with
two kernels on one device, one with two kernels on a device each, and one with a kernel that spans two devices.
"""

from dataclasses import dataclass, field

import pytest

from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.journal import AT_REST
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import Recovered, SuspensionError, SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from tests.fakes.driver import FakeDriver, JournalOfAServiceThatDies
from tests.fakes.time_and_death import Fuse, ServiceKilled

RUNNING, LOCKED, CHECKPOINTED, FAILED = CheckpointState
#: More places than any story has.
MOST = 200
#: Id of the program of a stranger, which takes room.
STRANGER = 9


@dataclass(frozen=True)
class Layout:
    """The devices of the notebook: GPU-0, and perhaps another one."""

    devices: tuple[str, ...]
    #: The device of the second kernel.
    second: str = "GPU-0"
    #: Memory in MiB of the second kernel on GPU-0 beside that on its device.
    beside: int = 0


LAYOUTS = {
    "one device": Layout(("GPU-0",)),
    "a device each": Layout(("GPU-0", "GPU-1"), second="GPU-1"),
    "a kernel on two devices": Layout(("GPU-0", "GPU-1"), second="GPU-1", beside=1500),
}
#: The processes that are of the share, if they run.
OF_THE_SHARE = tuple(ProcessId(pid, pid * 10) for pid in (1, 2, 3))


@dataclass
class Story:
    """What goes wrong besides the death of the service."""

    #: Failures of calls for the second process of the share.
    fails: dict[str, CheckpointProblem] = field(default_factory=dict)
    wanted: bool = False
    #: What happens once, before the first call of this name.
    event: str = ""
    does: object = None
    #: The device to resume on; None = where the share was.
    device: str | None = None
    #: The driver may lose a process.
    loses: bool = False
    #: The failures end with the service that saw them.
    heals: bool = False
    #: Some of the processes may stay suspended while others run.
    parts: bool = False


def take_room(driver, device="GPU-0"):
    """Leave room on a device for the smallest process only, after the probe has shown room for all."""
    driver.start(STRANGER, max(0, (driver.free_memory(device) or 0) - 2000), device)


def lose(driver):
    """Let the device of the second kernel fall off the bus; another device answers."""
    driver.lost.add(driver.processes[2].device)


def recycle(driver):
    """Let the second kernel end, and a stranger's program begin with the id of its process."""
    device = driver.processes[2].device
    driver.end(2)
    driver.start(2, 1700, device, ticks=77)


STORIES = {
    "nothing": Story(),
    "busy": Story(fails={"lock": CheckpointProblem.BUSY}),
    "managed memory": Story(fails={"checkpoint": CheckpointProblem.UNSUPPORTED}),
    "lost at the checkpoint": Story(fails={"checkpoint": CheckpointProblem.LOST}, loses=True),
    "restore out of memory": Story(fails={"restore": CheckpointProblem.OUT_OF_MEMORY}, loses=True),
    "wanted": Story(wanted=True),
    "new process": Story(event="checkpoint", does=lambda driver: driver.start(3, 300)),
    "process ends at the checkpoint": Story(event="checkpoint", does=lambda driver: driver.end(2)),
    "process ends at the restore": Story(event="restore", does=lambda driver: driver.end(1)),
    "room is taken at the restore": Story(event="restore", does=take_room),
    "room is taken at the unlock": Story(event="unlock", does=lambda driver: driver.start(9, 7000)),
    "restore refused": Story(fails={"restore": CheckpointProblem.BUSY}, heals=True),
    "room is taken at the restore, on the device of the second kernel": Story(
        event="restore", does=lambda driver: take_room(driver, driver.processes[2].device)
    ),
    "GPU lost at the lock": Story(event="lock", does=lose),
    "GPU lost at the checkpoint": Story(event="checkpoint", does=lose),
    "GPU lost at the restore": Story(event="restore", does=lose),
    "GPU lost at the unlock": Story(event="unlock", does=lose),
    "id used again at the lock": Story(event="lock", does=recycle),
    "id used again at the checkpoint": Story(event="checkpoint", does=recycle),
    "id used again at the restore": Story(event="restore", does=recycle),
    "id used again at the unlock": Story(event="unlock", does=recycle),
}
#: Only shares of one device move.
MOVES = {
    "moved": Story(device="GPU-1"),
    "moved, and the restore is refused": Story(device="GPU-1", fails={"restore": CheckpointProblem.BUSY}, heals=True),
    "moved, and room is taken": Story(device="GPU-1", event="restore", does=lambda driver: take_room(driver, "GPU-1")),
}


class Machine:
    """A machine that plays one story, with services that come and go."""

    def __init__(self, story, layout, path):
        self.story, self.layout, self.path = story, layout, path
        self.fuse = Fuse()
        self.driver = FakeDriver(fuse=self.fuse)
        self.driver.start(1, 1000)
        self.driver.start(2, 2000, layout.second, **story.fails)
        if layout.beside:
            self.driver.processes[2].elsewhere = {"GPU-0": layout.beside}
        self.driver.before = self.happen
        self.happened = False
        self.clock = 0.0
        self.restart()

    def happen(self, call, process):
        if call == self.story.event and not self.happened:
            self.happened = True
            self.story.does(self.driver)

    def restart(self):
        if self.story.heals and hasattr(self, "suspender"):
            self.driver.processes[2].fails.clear()
        self.journal = JournalOfAServiceThatDies(self.path, self.fuse)
        self.suspender = ShareSuspender(
            checkpointer=self.driver,
            probe=self.driver,
            host=self.driver,
            journal=self.journal,
            waiting=Waiting(monotonic=lambda: self.clock, sleep=self.sleep),
            limits=SuspensionLimits(host_margin=0, device_margin=0),
        )

    def sleep(self, seconds):
        self.clock += seconds

    def find(self):
        """Return the processes of the share; a recycled id is of a stranger."""
        return [process.id for process in self.driver.processes.values() if process.id in OF_THE_SHARE]

    def play(self):
        """Suspend and resume the share, as far as the story lets that happen."""
        target = SuspensionTarget(name="a", devices=self.layout.devices, find_processes=self.find)
        try:
            self.suspender.suspend(target, lambda: self.story.wanted)
            self.suspender.resume("a", timeout=0, device=self.story.device)
        except SuspensionError:
            pass

    def dies_at(self, places, act):
        """Let the service die after so many places of this act; return False if the act ends before."""
        self.fuse.light(places)
        try:
            act()
        except ServiceKilled:
            return True
        finally:
            self.fuse.left = None
        return False

    def check(self, recovered):
        states = {process.pid: self.driver.states()[process.pid] for process in self.find()}
        strangers = self.driver.states().keys() - states.keys()
        assert {self.driver.states()[pid] for pid in strangers} <= {RUNNING}
        assert LOCKED not in states.values()
        assert all(entry.step in AT_REST for entry in self.journal.entries())
        assert self.story.loses or FAILED not in states.values()
        suspended = {pid for pid, state in states.items() if state is CheckpointState.CHECKPOINTED}
        kept = self.suspender.suspensions()
        # Each byte is counted once: by the probe, or in the journal.
        assert {process.pid for each in kept for process in each.processes} == suspended
        assert sum(each.total for each in kept) == self.driver.in_host_memory(suspended)
        assert self.story.parts or len(set(states.values()) - {FAILED}) <= 1
        for each in kept:
            assert each.memory == self.driver.held_by(suspended)
            assert self.story.parts or not any(self.driver.held_by(states.keys() - suspended - self.failed()).values())
        for name, state in recovered.items():
            assert name == "a"
            assert state is Recovered.LOST or (state is Recovered.SUSPENDED) == bool(suspended)

    def failed(self):
        return {pid for pid, state in self.driver.states().items() if state is FAILED}

    def end_well(self):
        """Make room, resume what is suspended, and check that nothing but lost processes stands still."""
        self.driver.processes.pop(STRANGER, None)
        self.driver.lost.clear()
        self.driver.before = lambda call, process: None
        for process in self.driver.processes.values():
            process.fails.clear()
        for each in self.suspender.suspensions():
            self.suspender.resume(each.name, timeout=0)
        assert set(self.driver.states().values()) <= {RUNNING, FAILED}
        assert self.suspender.suspensions() == ()


@pytest.mark.parametrize(
    ("story", "layout"),
    [
        *(
            pytest.param(STORIES[story], LAYOUTS[layout], id=f"{story}-{layout}")
            for story in STORIES
            for layout in LAYOUTS
        ),
        *(pytest.param(MOVES[story], LAYOUTS["one device"], id=story) for story in MOVES),
    ],
)
def test_killed_service_leaves_nothing_half_done(story, layout, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # the service dies here, not the machine
    for places in range(MOST):
        if not kill_each_recovery(story, layout, tmp_path, places):
            assert places > 3
            return
    pytest.fail("the story has more places than expected")


def kill_each_recovery(story, layout, folder, places):
    """Kill the story at this place, and its recovery at each of its own; return False if the story ends before."""
    for later in range(MOST):
        machine = Machine(story, layout, folder / f"journal-{places}-{later}")
        if not machine.dies_at(places, machine.play):
            machine.check({})
            machine.end_well()
            return False
        machine.restart()
        died = machine.dies_at(later, machine.suspender.recover)
        machine.restart()
        machine.check(machine.suspender.recover())
        machine.end_well()
        if not died:
            return True
    return pytest.fail("the recovery has more places than expected")
