"""The agent finds what its node can do for shares, and what to set for more."""

from dataclasses import replace

import pytest

from jupyter_gq.agent.shares import OFF as SUSPENSION_OFF
from jupyter_gq.agent.signals import OFF
from jupyter_gq.devices.probe import ProbeState, ProbeStatus
from tests.unit.agent.test_node import Machine

from .kubelets import FakeKubelet, a_pod

DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu\n"


@pytest.fixture
def machine(tmp_path, socket):
    return Machine(tmp_path, socket)


def abilities(machine):
    return {each.name: each for each in machine.node.observe([]).abilities}


def state(machine, name):
    return abilities(machine)[name].state


def install_driver(folder, version):
    (folder / "driver/nvidia").mkdir(parents=True, exist_ok=True)
    (folder / "driver/nvidia/version").write_text(DRIVER.format(version))


def test_node_with_everything_needs_no_advice(machine, kubelet, tmp_path):
    kubelet(FakeKubelet, a_pod("a", "GPU-1"))
    install_driver(tmp_path, "615.10.01")
    found = abilities(machine)
    assert {name: each.state for name, each in found.items()} == {
        "devices": "works",
        "driver": "works",
        "MIG": "off",
        "MPS": "off",
        "persistence": "works",
        "memory limits of the driver": "unverified",
        "devices of pods": "works",
        "end programs": "unverified",
        "suspend": "off",
    }
    assert [each.advice for each in found.values() if each.advice] == []
    assert found["suspend"].found == SUSPENSION_OFF


def test_old_driver_is_named_with_what_to_install(machine, tmp_path):
    install_driver(tmp_path, "535.104.05")
    driver = abilities(machine)["driver"]
    assert (driver.state, driver.found) == ("missing", "NVIDIA's driver is of version 535.")
    assert driver.advice.startswith("Install version 570")


def test_agent_that_may_not_signal_says_what_to_set(tmp_path, socket):
    found = abilities(Machine(tmp_path, socket, allowed=False))["end programs"]
    assert (found.state, found.found, found.advice) == ("missing", OFF, OFF)


def test_agent_that_is_to_suspend_and_cannot_says_what_to_do(machine):
    for problem, expected in (
        ({"explain_no_suspension": lambda devices: "Mount it."}, ("missing", "Mount it.")),
        (
            {"explain_no_suspension": lambda devices: ""},
            ("unverified", ""),
        ),
    ):
        machine.node = replace(machine.node, **problem)
        found = abilities(machine)["suspend"]
        assert (found.state, found.advice) == expected


def test_agent_names_the_trouble_of_its_journal(machine):
    assert "journal of suspensions" not in abilities(machine)
    machine.node = replace(machine.node, find_journal_trouble=lambda: "It was set aside.")
    found = abilities(machine)["journal of suspensions"]
    assert (found.state, found.found) == ("missing", "It was set aside.")
    assert machine.node.observe([]).missing["journal"] == "It was set aside."


def test_kubelet_that_does_not_answer_is_missing(machine):
    assert "kubelet" in abilities(machine)["devices of pods"].advice


@pytest.mark.parametrize(
    ("fails", "mode", "expected"),
    [
        ({}, [0, 0], "off"),
        ({}, [1, 1], "unverified"),
        ({"nvmlDeviceGetMigMode": "NOT_SUPPORTED"}, [0, 0], "missing"),
    ],
)
def test_partitions_are_those_that_the_driver_shows(machine, fails, mode, expected):
    machine.nvml.fails = {name: 3 for name in fails}
    machine.nvml.mig_mode = mode
    assert state(machine, "MIG") == expected


@pytest.mark.parametrize(("mode", "expected"), [(1, "works"), (0, "off")])
def test_persistence_is_the_mode_of_the_driver(machine, mode, expected):
    machine.nvml.persistence = mode
    assert state(machine, "persistence") == expected


def test_daemon_of_mps_is_seen_by_the_name_that_the_kernel_keeps(machine):
    machine.proc.add(9, name="nvidia-cuda-mps")
    found = abilities(machine)["MPS"]
    assert (found.state, found.found) == ("unverified", "A daemon of MPS runs.")
    assert found.advice


def test_slow_findings_are_repeated_after_ten_minutes_or_with_another_driver_state(machine):
    assert state(machine, "persistence") == "works"
    machine.nvml.persistence = 0
    machine.time = 599.0
    assert state(machine, "persistence") == "works"
    machine.time = 601.0
    assert state(machine, "persistence") == "off"
    machine.nvml.fails = {"nvmlDeviceGetCount": 15, "nvmlInit": 12}  # the GPU is lost, and NVML is opened anew
    assert state(machine, "devices") == "missing"
    assert state(machine, "persistence") == "unknown"


def test_long_sentence_of_a_driver_fits_into_a_report(machine):
    status = ProbeStatus(state=ProbeState.BROKEN, detail="x\n" * 3000)
    found = {each.name: each for each in machine.node.abilities.find(status, (), {})}["devices"]
    assert (found.state, len(found.found), len(found.advice)) == ("missing", 1000, 1000)
    assert "\n" not in found.found
