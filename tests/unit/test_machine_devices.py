"""The commands `devices` and `doctor` show the machine on which they run."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from traitlets.config import Config

from jupyter_gq.app import main
from jupyter_gq.devices.choose import choose_checkpointer
from jupyter_gq.devices.linux.control_group import find_group
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.local_shares import LocalShare, find_local_shares
from jupyter_gq.devices.nvidia.driver_limits import NoLimiter
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.machine_devices import (
    find_limits,
    find_mps_devices,
    format_devices,
    open_probe,
    read_devices,
    read_settings,
)
from tests.fakes.driver import DriverThatKeepsLimits, FakeDriver

NO_LIMITS = NoLimiter("There are no limits.")
#: Of this process, since tests in another one may run at the same time.
USER = f"eva-of-test-{os.getpid()}"
SHARE = {
    "JUPYTER_GQ_DEVICES": "GPU-sim-0",
    "JUPYTER_GQ_GPUS": "0.25",
    "JUPYTER_GQ_MEMORY_FRACTION": "0.2109",
    "JUPYTERHUB_USER": USER,
    "JUPYTERHUB_SERVER_NAME": "big",
}
KERNEL = "import jupyter_gq; jupyter_gq.simulate_memory(1200); print('done', flush=True); input()"


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.py"
    file.write_text('c = get_config()\nc.SimulatedDevices.mode = "always"\nc.SimulatedDevices.devices = "2x T4-16GB"\n')
    return file


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Start a program with a share; its reports are in a folder of this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        env={**os.environ, **SHARE, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "done\n"
        yield read_process(process.pid).id
        process.communicate("\n")


def own_share(found):
    (share,) = (each for each in found.devices[0].shares if USER in each.name)
    return share


def test_share_of_a_running_program_is_shown_with_its_memory(kernel, config, capsys):
    assert main(["devices", "--config", str(config), "--output", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["devices"]
    assert (first["id"], first["memory_mib"], first["used_mib"], first["suspendable"]) == (
        "GPU-sim-0",
        15360,
        1200,
        True,
    )
    share = {"name": f"notebook of {USER} (big)", "gpus": "0.25", "memory_mib": 1200, "suspended": False}
    share["level"] = "cooperative"
    assert share in first["shares"]
    assert share not in second["shares"]
    assert main(["devices", "--config", str(config)]) == 0
    assert f"notebook of {USER} (big) (0.25 GPU, 1200 MiB)" in capsys.readouterr().out


def test_suspended_share_is_shown_as_such(kernel, config):
    probe = open_probe(read_settings(config))
    checkpointer = choose_checkpointer(probe)
    checkpointer.lock(kernel, Seconds(1))
    checkpointer.checkpoint(kernel)
    found = read_devices(probe, checkpointer, NO_LIMITS, find_local_shares())
    assert (own_share(found).suspended, found.devices[0].used_mib) == (True, 0)
    assert "(0.25 GPU, suspended)" in format_devices(found, width=None)[2]


def test_programs_of_one_share_are_one_share(kernel, config):
    (found,) = (each for each in find_local_shares() if USER in each.name)
    assert (found.devices, found.processes) == (("GPU-sim-0",), (kernel,))


def test_device_that_cannot_be_suspended_says_why():
    driver = FakeDriver()
    driver.obstacle_of["GPU-1"] = "The GPU is partitioned (MIG)."
    found = read_devices(driver, driver, NO_LIMITS, ())
    assert [each.suspendable for each in found.devices] == [True, False]
    assert format_devices(found, width=None)[-1] == "Not suspendable: The GPU is partitioned (MIG)."
    driver.available = False
    assert {each.reason for each in read_devices(driver, driver, NO_LIMITS, ()).devices} == {"The driver is too old."}


@pytest.mark.parametrize(
    ("gpus", "capped", "level"),
    [("1", False, "hardware"), ("0.5", True, "cooperative"), ("0.5", False, "advisory"), ("much", False, "advisory")],
)
def test_level_of_a_share_follows_from_what_its_programs_were_told(gpus, capped, level):
    driver = FakeDriver()
    share = LocalShare(name="s", gpus=gpus, devices=("GPU-0",), processes=(driver.start(1, 5),), capped=capped)
    found = read_devices(driver, driver, NO_LIMITS, [share])
    assert found.devices[0].shares[0].level == level
    header, first = format_devices(found, width=None)[1:3]
    assert first[header.index("LIMITS") :].startswith(level)


class SeesClients(FakeDriver):
    """A driver on which the programs of `clients` use MPS."""

    clients = frozenset()

    def usage(self, device, pids):
        return tuple(replace(each, through_mps=each.pid in self.clients) for each in super().usage(device, pids))


@pytest.mark.parametrize(
    ("clients", "told", "level"),
    [({1, 2}, True, "mps"), ({1}, True, "cooperative"), ({1, 2}, False, "cooperative")],
)
def test_level_is_mps_if_all_programs_are_its_clients_and_were_told_their_limits(clients, told, level):
    driver = SeesClients()
    driver.clients = clients
    processes = (driver.start(1, 5), driver.start(2, 5))
    share = LocalShare(name="s", gpus="0.5", devices=("GPU-0",), processes=processes, capped=True, through_mps=told)
    assert read_devices(driver, driver, NO_LIMITS, [share]).devices[0].shares[0].level == level


def test_device_that_is_shared_by_mps_cannot_be_suspended():
    driver = FakeDriver()
    found = read_devices(driver, driver, NO_LIMITS, (), ["GPU-1"])
    assert [(each.suspendable, "MPS" in each.reason) for each in found.devices] == [(True, False), (False, True)]


def test_what_the_configuration_prints_is_no_part_of_the_answer(tmp_path, capsys):
    file = tmp_path / "config.py"
    file.write_text("print('loading')\n")
    assert main(["devices", "--config", str(file), "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["devices"]
    assert printed.err == "loading\n"


@pytest.mark.parametrize("fault", ["raise ValueError(1)", "import sys; sys.exit(3)", "x = = 1", "unknown"])
def test_error_in_the_configuration_is_told_with_its_line(tmp_path, capsys, fault):
    file = tmp_path / "config.py"
    file.write_text(f"x = 1\n{fault}\n")
    assert main(["devices", "--config", str(file)]) != 0
    assert f"{file}, line 2: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["devices", "doctor"])
def test_wrong_setting_is_refused(tmp_path, capsys, command):
    file = tmp_path / "config.py"
    file.write_text("get_config().SimulatedDevices.devices = 'x'\n")
    assert main([command, "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"jupyter-gq {command}: c.SimulatedDevices.devices = 'x': the memory of")


@pytest.mark.parametrize(("line", "found"), [('["GPU-1"]', ("GPU-1",)), ("7", ()), ("[]", ())])
def test_devices_of_mps_are_read_from_the_configuration(tmp_path, line, found):
    file = tmp_path / "config.py"
    file.write_text(f"get_config().LocalBackend.mps_devices = {line}\n")
    assert find_mps_devices(read_settings(file)) == found
    assert find_mps_devices(read_settings(None)) == ()


@pytest.mark.parametrize(
    ("gpus", "limit", "level"),
    [
        ("0.5", 5000, "driver"),
        ("0.5", None, "cooperative"),
        ("0.5", 9000, "cooperative"),
        ("1", 5000, "hardware"),
        ("-1e99999999", 5000, "cooperative"),
        ("1e99999999", 5000, "hardware"),
    ],
)
def test_limit_of_the_driver_is_shown_if_it_is_not_above_the_share(gpus, limit, level):
    """Of a device with 10,000 MiB; the program is this process."""
    limiter, driver = DriverThatKeepsLimits(), FakeDriver()
    group = find_group(Path("/proc/self"))
    if group is None:
        pytest.skip("this process is in no control group of version 2")
    limiter.limits = {("GPU-0", str(group)): limit}
    share = LocalShare(name="s", gpus=gpus, devices=("GPU-0",), processes=(driver.start(os.getpid(), 5),), capped=True)
    assert read_devices(driver, driver, limiter, [share]).devices[0].shares[0].level == level


def test_memory_that_the_driver_does_not_tell_is_unknown():
    driver = FakeDriver()
    driver.blind = True
    share = LocalShare(name="s", gpus="1", devices=("GPU-0",), processes=(driver.start(1, 5),))
    first, second = read_devices(driver, driver, NO_LIMITS, [share]).devices
    assert (first.used_mib, first.shares[0].memory_mib) == (None, None)
    assert second.shares == []
    assert "unknown" in format_devices(read_devices(driver, driver, NO_LIMITS, [share]), width=None)[2]


def test_file_that_cannot_be_read_is_refused(capsys, tmp_path):
    assert main(["devices", "--config", str(tmp_path / "none.py")]) == 2
    assert "there is no such file that can be read" in capsys.readouterr().err


def test_a_path_that_no_file_has_is_refused(capsys):
    assert main(["devices", "--config", "a\0b"]) == 2
    assert capsys.readouterr().err.endswith("a\\x00b': no path has a NUL character. Check the path.\n")


def test_devices_that_are_no_text_are_named_as_the_file_names_them(tmp_path, capsys):
    file = tmp_path / "jupyterhub_config.py"
    file.write_text("c.SimulatedDevices.devices = 5\n")
    assert main(["devices", "--config", str(file)]) == 2
    assert "c.SimulatedDevices.devices = 5: this is no text. Write numbers and models" in capsys.readouterr().err


def test_doctor_of_simulated_devices_finds_that_they_can_be_suspended(config, capsys):
    assert main(["doctor", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Simulated: GPU memory is moved" in next(line for line in lines if line.startswith("suspend "))
    assert main(["doctor", "--config", str(config), "-o", "json"]) == 0
    assert {"name", "state", "found", "advice"} == json.loads(capsys.readouterr().out)["abilities"][0].keys()


def test_doctor_of_a_machine_that_cannot_suspend_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    config = tmp_path / "config.py"
    config.write_text('get_config().SimulatedDevices.mode = "never"\n')
    assert main(["doctor", "--config", str(config)]) == 1
    assert "x86-64 machines only" in capsys.readouterr().out


def test_doctor_says_whether_jobs_can_be_started_here(config, tmp_path, capsys, monkeypatch):
    assert main(["doctor", "--config", str(config)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("start of jobs "))
    assert line.split()[3] == "works"
    monkeypatch.setattr("jupyter_gq.backends.local.tasks.ENTER", str(tmp_path / "no-env"))
    assert main(["doctor", "--config", str(config), "-o", "json"]) == 1
    (found,) = [each for each in json.loads(capsys.readouterr().out)["abilities"] if each["name"] == "start of jobs"]
    assert found["state"] == "missing"
    assert "Jobs cannot be started on this machine" in found["found"]
    assert "Install GNU coreutils 8.28" in found["found"]


def test_doctor_names_a_journal_that_was_set_aside(config, tmp_path, capsys):
    folder = tmp_path / "state"
    folder.mkdir()
    with config.open("a") as file:
        file.write(f"\nget_config().SchedulerService.state_dir = {str(folder)!r}\n")
    assert main(["doctor", "--config", str(config)]) == 0
    assert "journal" not in capsys.readouterr().out
    aside = folder / "suspensions.json.damaged"
    aside.touch()
    assert main(["doctor", "--config", str(config), "-o", "json"]) == 0
    last = json.loads(capsys.readouterr().out)["abilities"][-1]
    assert (last["name"], last["state"]) == ("journal of suspensions", "missing")
    assert f"was set aside as {aside}" in last["found"]


def test_doctor_finds_the_devices_that_mps_was_started_without(tmp_path):
    driver, folder = FakeDriver(devices=3), tmp_path / "mps"
    folder.mkdir()
    settings = Config()
    settings.LocalBackend.mps_devices = ["GPU-0", "GPU-1", "GPU-7"]
    settings.LocalBackend.mps_dir = str(folder)
    found = find_limits(settings, driver)
    assert (found.mps_absent, found.mps_lacking) == (("GPU-7",), ()), "the daemon will be started with all of them"
    (folder / "devices").write_text("GPU-0\n")
    assert find_limits(settings, driver).mps_lacking == ("GPU-1",)
