"""The daemon of MPS is kept running, and what is wrong with it is told once."""

from pathlib import Path

import pytest

from jupyter_gq.backends.mps import MpsDevices
from jupyter_gq.devices.nvidia.mps import MpsDaemon
from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Device
from tests.fakes import FixedClock
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


class DaemonInWords(MpsDaemon):
    """A daemon that is wrong as the test says, and counts how often it was asked."""

    def __init__(self, *answers, devices=("GPU-0",)):
        super().__init__(folder=Path("/nowhere"), devices=devices)
        object.__setattr__(self, "answers", list(answers))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "devices_at_start", set(devices))

    def served(self):
        return frozenset(self.devices_at_start)

    def ensure(self):
        self.asked.append(True)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Machine:
    def __init__(self, *answers, **daemon):
        self.daemon, self.clock, self.changes = DaemonInWords(*answers, **daemon), FixedClock(), []
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


async def test_device_that_the_daemon_lacks_is_used_without_mps_and_told_until_it_is_served(caplog):
    machine = Machine("", devices=("GPU-0", "GPU-1"))
    machine.daemon.devices_at_start.remove("GPU-1")
    mps = machine.mps = MpsDevices(daemon=machine.daemon, awake=machine.clock.awake, on_change=lambda: None)
    shares = [[Device(id=f"GPU-{n}", index=n, model="A", memory=MiB(8000), pool="p")] for n in range(2)]
    await machine.look()
    assert mps.trouble.startswith("MPS does not share GPU-1 yet")
    assert [mps.serves([share[0].id]) for share in shares] == [True, False]
    assert [bool(mps.environment(share, MilliGpu(500))) for share in shares] == [True, False]
    assert (mps.describe_trouble(["GPU-0"]), mps.describe_trouble(["GPU-1"])) == ("", mps.trouble)
    machine.daemon.devices_at_start.add("GPU-1")
    await machine.look()
    assert (mps.serves(["GPU-1"]), mps.trouble, mps.describe_trouble(["GPU-1"])) == (True, "", "")
    assert [each.message for each in caplog.records][-1] == "MPS runs again."


async def test_trouble_of_the_daemon_concerns_only_what_it_serves():
    machine = Machine("It is missing.")
    await machine.look()
    assert [machine.mps.describe_trouble([each]) for each in ("GPU-0", "GPU-9")] == ["It is missing.", ""]


async def test_trouble_of_the_daemon_concerns_also_the_device_that_it_lacks():
    machine = Machine("", "It is missing.", devices=("GPU-0", "GPU-1"))
    machine.daemon.devices_at_start.remove("GPU-1")
    await machine.look()
    await machine.look()
    assert [machine.mps.describe_trouble([each]) for each in ("GPU-0", "GPU-1")] == ["It is missing."] * 2
    assert (machine.mps.trouble, machine.changes) == ("It is missing.", [1, 1])


async def test_only_named_devices_are_served():
    mps = Machine("").mps
    assert [mps.serves(each) for each in (["GPU-0"], ["GPU-1", "GPU-0"], ["GPU-1"], [])] == [True, True, False, False]
