"""Simulated devices follow from a setting, and their use from CPU use and reports of processes."""

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.probe import ProbeState, ProbeStatus
from jupyter_gq.devices.simulated import devices as simulated
from jupyter_gq.devices.simulated import memory
from jupyter_gq.devices.simulated.devices import SimulatedDevices, SimulatedProbe, parse_devices
from tests.patience import scaled


class ManualClock:
    """A clock that the test sets."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def probe(clock):
    return SimulatedProbe(parse_devices("2x A100-40GB"), why="for a test.", now=clock.now)


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Return the folder in which this user's processes report their memory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"jupyter-gq-sim-{os.getuid()}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2x A100-40GB", [("A100-40GB", 40960)] * 2),
        ("T4-16GB", [("T4-16GB", 15360)]),
        (" 1 x h100-80gb ,2×V100-16GB,", [("h100-80gb", 81559), ("V100-16GB", 16384), ("V100-16GB", 16384)]),  # noqa: RUF001
        ("Mine-12GB", [("Mine-12GB", 12288)]),
        ("", []),
        ("0x T4-16GB", []),
    ],
)
def test_devices_are_parsed_from_text(text, found):
    devices = parse_devices(text)
    assert [(device.model, device.memory) for device in devices] == found
    assert [device.index for device in devices] == list(range(len(found)))
    assert len({device.uuid for device in devices}) == len(found)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2x FOO", "'FOO' is not known: write it as FOO-16GB"),
        ("2 A100-40GB", "'2 A100-40GB' is not a device"),
        ("9999x T4-16GB", "more than 1024"),
        ("X-0GB", "not known"),
    ],
)
def test_error_of_a_wrong_value_names_the_trait_and_the_fix(text, problem):
    with pytest.raises(TraitError, match=problem) as raised:
        SimulatedDevices(config=Config({"SimulatedDevices": {"devices": text}}))
    assert "c.SimulatedDevices.devices" in str(raised.value)


def test_status_says_what_is_simulated_and_why(probe, clock):
    assert probe.status() == ProbeStatus(state=ProbeState.OK, detail="Simulated (2x A100-40GB): for a test.")
    assert SimulatedProbe((), why="", now=clock.now).status().state is ProbeState.NO_DEVICES


@pytest.mark.parametrize("record", ["[" * 60_000, '{"ticks": {"a":', '{"ticks": 1e999}', "[]", '{"moves": {}}', "\x00"])
def test_what_a_user_writes_in_the_place_of_a_record_is_none(probe, reports, record):
    pid = os.getpid()
    (reports / f"{pid}.gpu").write_text(record)
    (reports / str(pid)).write_text("1234")
    assert probe.usage("GPU-sim-0", [pid])[0].memory == 1234


def test_only_the_reports_of_processes_are_looked_for(reports):
    """No name is listed, so a user who makes a million files holds up nobody."""
    for name in (str(os.getpid()), "1234567890", "x", "0"):
        (reports / name).write_text("5")
    (reports.parent / "jupyter-gq-sim-4294967290").mkdir()
    assert list(memory.reporting_pids()) == [os.getpid()]


def test_memory_is_what_the_process_reports(probe, reports):
    pid = os.getpid()
    assert probe.usage("GPU-sim-0", [pid])[0].memory == 0
    (reports / str(pid)).write_text("1234")
    assert probe.usage("GPU-sim-0", [pid])[0].memory == 1234


@pytest.mark.parametrize(
    ("named", "memory"), [("GPU-sim-1", [0, 500]), ("GPU-sim-0,GPU-sim-1", [500, 500]), (None, [500, 500])]
)
def test_memory_is_on_the_devices_that_the_process_was_started_with(probe, reports, named, memory):
    """The tasks of a job may be on several devices, and each is asked about all processes of the job."""
    environment = {name: value for name, value in os.environ.items() if name != "JUPYTER_GQ_DEVICES"}
    environment |= {"JUPYTER_GQ_DEVICES": named} if named else {}
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env=environment) as task:
        (reports / str(task.pid)).write_text("500")
        assert [probe.usage(f"GPU-sim-{index}", [task.pid])[0].memory for index in range(2)] == memory
        assert all(usage.utilisation in (0, None) for usage in probe.usage("GPU-sim-0", [task.pid]))


@pytest.mark.parametrize("nonsense", ["", "many", "-5", "1e9"])
def test_malformed_report_counts_as_no_memory(probe, reports, nonsense):
    (reports / str(os.getpid())).write_text(nonsense)
    assert probe.usage("GPU-sim-0", [os.getpid()])[0].memory == 0


def test_report_of_an_earlier_process_with_the_same_id_does_not_count(probe, reports):
    report = reports / str(os.getpid())
    report.write_text("1234")
    before = psutil.Process().create_time() - 100
    os.utime(report, (before, before))
    assert probe.usage("GPU-sim-0", [os.getpid()])[0].memory == 0


def test_link_in_place_of_a_report_is_not_followed(probe, reports, tmp_path):
    (tmp_path / "elsewhere").write_text("77")
    (reports / str(os.getpid())).symlink_to(tmp_path / "elsewhere")
    assert probe.usage("GPU-sim-0", [os.getpid()])[0].memory == 0


def test_utilisation_is_unknown_at_first_and_then_the_cpu_use_since_the_last_call(probe, clock):
    pid = os.getpid()
    assert probe.usage("GPU-sim-0", [pid])[0].utilisation is None
    clock.at += 5
    sum(range(3_000_000))
    used = probe.usage("GPU-sim-0", [pid])[0].utilisation
    assert 0 < used <= 100
    clock.at += 0.1
    assert probe.usage("GPU-sim-1", [pid])[0].utilisation == used, "a call at once returns the same sample"


def test_ended_process_uses_nothing_and_use_of_an_unknown_device_is_unknown(probe):
    assert probe.usage("GPU-sim-0", [2**22 + 1]) == ()
    assert probe.usage("GPU-other", [os.getpid()]) is None


def test_another_thread_may_ask_for_another_process_meanwhile(probe, monkeypatch):
    is_about_to_add, looks_through = threading.Event(), threading.Event()
    make = simulated._WatchedProcess

    def make_late(process):
        is_about_to_add.set()
        looks_through.wait(scaled(10))
        return make(process)

    def is_running(_process):
        looks_through.set()
        other.join()
        return True

    probe.usage("GPU-sim-0", [os.getpid()])
    monkeypatch.setattr(simulated, "_WatchedProcess", make_late)
    other = threading.Thread(target=probe.usage, args=("GPU-sim-0", [os.getppid()]))
    other.start()
    is_about_to_add.wait(scaled(10))
    monkeypatch.setattr(psutil.Process, "is_running", is_running)
    assert [usage.pid for usage in probe.usage("GPU-sim-0", [os.getpid()])] == [os.getpid()]


class FakeDriver:
    """A driver whose probe is in the given state, and finds so many devices."""

    def __init__(self, state, devices=1):
        self._status = ProbeStatus(state=state, detail="The driver's text.")
        self._devices = devices

    def status(self):
        return self._status

    def devices(self):
        return [None] * self._devices


@pytest.mark.parametrize("state", ProbeState)
@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_devices_are_simulated_as_the_mode_says_or_without_a_gpu(state, mode, clock):
    driver = FakeDriver(state)
    chosen = choose_probe(driver, SimulatedDevices(mode=mode), clock.now)
    missing = state in {ProbeState.NOT_INSTALLED, ProbeState.NO_DRIVER, ProbeState.NO_DEVICES}
    assert (chosen is not driver) == (mode == "always" or (mode == "auto" and missing))
    if mode == "auto" and missing:
        assert chosen.status().detail == "Simulated (2x A100-40GB): The driver's text."


@pytest.mark.parametrize("mode", ["auto", "never"])
@pytest.mark.parametrize(("found", "needed"), [(1, 1), (1, 2), (2, 2), (2, 3), (4, 2)])
def test_fewer_gpus_than_a_demonstration_needs_are_simulated_all(mode, found, needed, clock):
    driver = FakeDriver(ProbeState.OK, devices=found)
    chosen = choose_probe(driver, SimulatedDevices(mode=mode, needed=needed), clock.now)
    assert (chosen is not driver) == (mode == "auto" and found < needed)
    if chosen is not driver:
        number = "1 GPU" if found == 1 else f"{found} GPUs"
        assert f"this machine has {number}, and the configuration needs {needed}." in chosen.status().detail


def test_report_of_the_kernel_s_helper_is_read(probe, reports):
    from jupyter_gq.notebook.simulation import simulate_memory

    simulate_memory(2048.4)
    assert probe.usage("GPU-sim-0", [os.getpid()])[0].memory == 2048
    simulate_memory(0)
    assert Path(reports / str(os.getpid())).exists()
    assert probe.usage("GPU-sim-0", [os.getpid()])[0].memory == 0


def test_simulated_devices_are_read_where_nothing_can_be_written(monkeypatch):
    def find_none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", find_none)
    probe = SimulatedDevices(config=Config({"SimulatedDevices": {"mode": "always"}})).probe(why="", now=lambda: 0.0)
    assert probe.status().state is ProbeState.OK
