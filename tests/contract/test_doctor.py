"""`jupyter-gq doctor` and `devices` on odd machines say what to install or set, with fakes of the driver."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.driver_fakes import HERE, build, compiler
from tests.patience import scaled

DEVICE = "GPU-00000000-0000-0000-0000-000000000001"
COMMAND = "import sys; from jupyter_gq.app import main; sys.exit(main(sys.argv[1:]))"


class OddMachine:
    """A machine with one fake GPU."""

    def __init__(self, folder):
        self.folder, self.libraries, self.programs = folder, folder / "libraries", folder / "programs"
        self.libraries.mkdir()
        self.programs.mkdir()
        (folder / "devices").write_text(f"{DEVICE} {40_960 << 20}\n")
        self.config = folder / "config.py"
        self.config.write_text('c.SimulatedDevices.mode = "never"\n')

    def has_mps(self, *, alive):
        """Let MPS be switched on, with a daemon that the service has started, and that may have died since."""
        for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
            shutil.copy(HERE / "nvidia-cuda-mps-control", self.programs / name)
        (self.folder / "mps/pipe").mkdir(parents=True)
        (self.folder / "mps/devices").write_text(f"{DEVICE}\n")
        if alive:
            (self.folder / "mps/pipe/daemon").touch()
        with self.config.open("a") as file:
            file.write(f"c.LocalBackend.mps_devices = [{DEVICE!r}]\nc.LocalBackend.mps_dir = '{self.folder}/mps'\n")

    def run(self, command):
        """Return the exit code of a command, and what it says."""
        environment = {
            **os.environ,
            "GQ_FAKE_DRIVER": str(self.folder),
            "LD_LIBRARY_PATH": str(self.libraries),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        found = subprocess.run(
            [sys.executable, "-c", COMMAND, command, "--config", self.config],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=scaled(120),
        )
        assert found.stderr == ""
        return found.returncode, " ".join(found.stdout.split())


@pytest.fixture
def machine(tmp_path):
    if compiler() is None:
        pytest.skip("there is no C compiler for the fake libraries of the driver")
    return OddMachine(tmp_path)


def test_old_driver_is_named_with_the_version_to_install(machine):
    build(machine.libraries, "-DOLD_DRIVER")
    for command in ("doctor", "devices"):
        assert "too old to suspend processes: install version 570 or newer." in machine.run(command)[1]
    code, text = machine.run("doctor")
    assert code == 1
    assert "resume on another GPU: Install" not in text, "that is not what is missing first"


def test_missing_libcuda_is_told_with_what_a_container_needs(machine):
    build(machine.libraries)
    (machine.libraries / "libcuda.so.1").write_text("no library")
    code, text = machine.run("doctor")
    assert code == 1
    assert "NVIDIA_DRIVER_CAPABILITIES must name `compute`." in text
    assert "NVIDIA_DRIVER_CAPABILITIES" in machine.run("devices")[1]


def test_libraries_of_another_version_than_the_kernel_module_ask_for_a_restart(machine):
    build(machine.libraries)
    (machine.folder / "mismatch").touch()
    for command in ("doctor", "devices"):
        assert "are of different versions: restart the machine." in machine.run(command)[1]
    assert "Install driver 580" not in machine.run("doctor")[1]


def test_machine_whose_only_gpu_is_partitioned_cannot_suspend(machine):
    build(machine.libraries)
    assert machine.run("doctor")[0] == 0
    (machine.folder / "mig").touch()
    code, text = machine.run("doctor")
    assert code == 1
    assert "suspend missing The GPU is partitioned (MIG)" in text
    assert "`nvidia-smi -mig 0`" in text
    assert "Not suspendable: The GPU is partitioned (MIG)" in machine.run("devices")[1]


@pytest.mark.parametrize("alive", [True, False])
def test_daemon_of_mps_that_has_died_is_told(machine, alive):
    build(machine.libraries)
    machine.has_mps(alive=alive)
    code, text = machine.run("doctor")
    assert code == 1, "all GPUs are shared by MPS, so nothing is suspended"
    assert "suspend missing The GPU is shared by MPS" in text
    assert ("Its daemon does not answer." in text) is not alive
    assert (f"{machine.folder}/mps/log says why." in text) is not alive
