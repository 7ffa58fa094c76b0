"""The abilities of a machine follow from its files, and each that is missing says what to do."""

import pytest

from jupyter_gq.devices.abilities import AbilityState, LimitFindings, Machine, find_abilities
from jupyter_gq.devices.checkpointer import CheckpointSupport
from jupyter_gq.devices.probe import ProbeState, ProbeStatus

WORKS, UNVERIFIED, OFF, MISSING, UNKNOWN = AbilityState
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}.65.06  Sun Jul 27 07:10:15 UTC 2025\n"
OPEN_DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}.65.06  Release Build\n"


class World:
    """A machine with everything that shares can use."""

    def __init__(self, root):
        self.root = root
        self.programs = {"nvidia-cuda-mps-control", "nvidia-cuda-mps-server"}
        self.status = ProbeStatus(state=ProbeState.OK, detail="2x A100.")
        self.support = CheckpointSupport(available=True, can_move=True, detail="It works.")
        self.limits = LimitFindings(on=True)
        self.write("proc/driver/nvidia/version", DRIVER.format(615))
        self.write("proc/self/uid_map", "         0          0 4294967295\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids dmem\n")
        self.write("run/nvidia-persistenced/socket", "")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def find(self, *, simulated=False):
        machine = Machine(
            proc=self.root / "proc",
            sys=self.root / "sys",
            run=self.root / "run",
            which=lambda name: name if name in self.programs else None,
        )
        found = find_abilities(machine, self.status, self.support, simulated=simulated, limits=self.limits)
        return {each.name: each for each in found}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_machine_with_everything_lacks_nothing_and_is_unverified(world):
    found = world.find()
    assert {name for name, each in found.items() if each.state in (MISSING, UNKNOWN)} == set()
    assert {name for name, each in found.items() if each.state is UNVERIFIED} == {
        "suspend",
        "resume on another GPU",
        "MPS",
        "memory limits of the driver",
        "programs of other users",
    }


@pytest.mark.parametrize(
    ("limits", "state", "found", "advice"),
    [
        (LimitFindings(on=True), UNVERIFIED, "It is switched on.", ""),
        (LimitFindings(on=False), UNVERIFIED, "root sets limits.", "c.LocalBackend.driver_memory_limits = True"),
        (LimitFindings(obstacle="No dmem.", on=True), MISSING, "tells no limit.", "No dmem."),
    ],
)
def test_memory_limits_are_found_with_what_the_driver_says(world, limits, state, found, advice):
    world.limits = limits
    shown = world.find()["memory limits of the driver"]
    assert (shown.state, found in shown.found, advice in shown.advice) == (state, True, True)
    assert bool(shown.advice) == bool(advice)


def test_mps_says_whether_it_is_switched_on(world):
    world.limits = LimitFindings(mps_devices=("GPU-1", "GPU-2"))
    found = world.find()["MPS"]
    assert (found.state, found.advice) == (UNVERIFIED, "")
    assert found.found.endswith("It is switched on for GPU-1, GPU-2.")
    world.limits = LimitFindings()
    assert "c.LocalBackend.mps_devices" in world.find()["MPS"].advice


def test_each_device_that_mps_does_not_share_is_named_with_what_to_do(world):
    world.limits = LimitFindings(mps_devices=("GPU-1", "GPU-2", "GPU-9"), mps_absent=("GPU-9",), mps_lacking=("GPU-2",))
    found = world.find()["MPS"]
    assert found.state is MISSING
    assert found.found.endswith("It is switched on for GPU-1, GPU-2, GPU-9. It does not share GPU-2, GPU-9.")
    assert "GPU-9: this machine has no such GPU. Correct c.LocalBackend.mps_devices" in found.advice
    assert "GPU-2: the daemon was started without it, so its programs run without MPS." in found.advice
    assert "when the notebooks and jobs on GPU-1 are ended." in found.advice


def test_simulation_is_verified(world):
    found = world.find(simulated=True)["suspend"]
    assert (found.state, found.advice) == (WORKS, "")


def test_suspension_on_real_gpus_says_that_it_is_off_until_it_is_turned_on(world):
    assert "c.IdlePolicy.suspend = True" in world.find()["suspend"].advice


@pytest.mark.parametrize("text", [DRIVER, OPEN_DRIVER], ids=["closed", "open"])
@pytest.mark.parametrize(("version", "state"), [(570, WORKS), (565, MISSING)])
def test_version_of_the_driver_is_read(world, text, version, state):
    world.write("proc/driver/nvidia/version", text.format(version))
    found = world.find()["driver"]
    assert (found.state, str(version) in found.found) == (state, True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("devices", lambda world: setattr(world, "status", ProbeStatus(state=ProbeState.LOST, detail="Lost."))),
        ("driver", lambda world: (world.root / "proc/driver/nvidia/version").unlink()),
        ("MPS", lambda world: world.programs.discard("nvidia-cuda-mps-server")),
        ("memory limits of the driver", lambda world: world.write("proc/driver/nvidia/version", DRIVER.format(614))),
        ("control groups", lambda world: (world.root / "sys/fs/cgroup/cgroup.controllers").unlink()),
        ("control groups", lambda world: world.write("sys/fs/cgroup/cgroup.controllers", "cpu pids")),
        ("persistence", lambda world: (world.root / "run/nvidia-persistenced/socket").unlink()),
        ("programs of other users", lambda world: world.write("proc/self/uid_map", "0 1000 1\n")),
    ],
)
def test_what_is_missing_says_what_to_do(world, name, change):
    change(world)
    found = world.find()[name]
    assert found.state in (MISSING, UNKNOWN)
    assert found.found.endswith(".")
    assert name == "devices" or found.advice.endswith(".")


def test_support_that_is_missing_has_the_sentence_of_the_checkpointer(world):
    world.support = CheckpointSupport(available=False, can_move=False, detail="The driver is too old.")
    assert world.find()["suspend"].state is MISSING
    assert world.find()["suspend"].found == "The driver is too old."
