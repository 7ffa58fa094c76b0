"""The daemon of MPS is kept running, and what is wrong with it is told once."""

from pathlib import Path

import pytest

from jupyter_gq.backends.mps import MpsDevices
from jupyter_gq.devices.mps import MpsDaemon
from tests.fakes import FixedClock
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


class DaemonInWords(MpsDaemon):
    """A daemon that is wrong as the test says, and counts how often it was asked."""

    def __init__(self, *answers):
        super().__init__(folder=Path("/nowhere"), devices=("GPU-0",))
        object.__setattr__(self, "answers", list(answers))
        object.__setattr__(self, "asked", [])

    def ensure(self):
        self.asked.append(True)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Machine:
    def __init__(self, *answers):
        self.daemon, self.clock, self.changes = DaemonInWords(*answers), FixedClock(), []
        self.mps = MpsDevices(daemon=self.daemon, awake=self.clock.awake, on_change=lambda: self.changes.append(1))

    async def look(self):
        """Let the daemon be asked again after a while."""
        asked = len(self.daemon.asked)
        self.clock.forward(11)
        self.mps.keep_running()
        await eventually(lambda: len(self.daemon.asked) > asked and not self.mps._busy, "an answer")


async def test_daemon_is_asked_at_the_start_and_then_now_and_then():
    machine = Machine("")
    await machine.look()
    for _ in range(3):
        machine.mps.keep_running()
    assert (len(machine.daemon.asked), machine.mps.trouble, machine.changes) == (1, "", [])


async def test_trouble_is_told_until_the_daemon_runs(caplog):
    machine = Machine("It is missing.", "It is missing.", "")
    await machine.look()
    await machine.look()
    assert (machine.mps.trouble, len(machine.changes)) == ("It is missing.", 1)
    await machine.look()
    assert (machine.mps.trouble, len(machine.changes)) == ("", 2)
    assert [each.message for each in caplog.records] == ["It is missing.", "MPS runs again."]


async def test_defect_is_told_too():
    machine = Machine(ValueError("a defect"))
    await machine.look()
    assert "the service's log says why" in machine.mps.trouble


async def test_only_named_devices_are_served():
    mps = Machine("").mps
    assert [mps.serves(each) for each in (["GPU-0"], ["GPU-1", "GPU-0"], ["GPU-1"], [])] == [True, True, False, False]
