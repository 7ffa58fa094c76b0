"""An agent that is to suspend shares says what its node lacks for that."""

import os
from pathlib import Path

import pytest
from traitlets.config import Config

from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.signals import NO_HOST_IDS, PodSignals
from jupyter_gq.agent.suspending import NO_GROUPS, NO_JOURNAL, OPEN_JOURNAL, make_pod_shares
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices
from jupyter_gq.devices.suspension.host_memory import LinuxHostMemory
from jupyter_gq.devices.suspension.journal import JOURNAL_NAME
from jupyter_gq.devices.suspension.journal_lock import OTHER_AGENT, JournalLock
from tests.unit.devices.test_nvml import FakeNvml


def make_shares(folder, *, host_ids=True, probe=None):
    processes = Processes(Path("/proc"), find_pod_by_cgroup)
    signals = PodSignals(processes, allowed=True, host_ids=lambda: host_ids)
    simulated = SimulatedDevices(config=Config({"SimulatedDevices": {"mode": "always"}}), node="n")
    probe = probe or simulated.probe(why="of this test.", now=lambda: 0.0)
    return make_pod_shares(probe, processes, signals, folder)


def explain(folder, *devices, **more):
    return make_shares(folder, **more).explain_missing(devices)


def test_simulated_devices_need_only_a_journal(tmp_path):
    assert explain(tmp_path, "GPU-sim-n-0", host_ids=False) == ""
    missing = tmp_path / "missing"
    assert explain(missing, "GPU-sim-n-0") == NO_JOURNAL.format(folder=missing)


def test_a_second_agent_says_which_one_has_the_journal(tmp_path):
    first = JournalLock(tmp_path / JOURNAL_NAME)
    assert first.hold() == ""
    told = OTHER_AGENT.format(holder=os.getpid(), journal=tmp_path / JOURNAL_NAME)
    assert explain(tmp_path, "GPU-sim-n-0") == told


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_journal_that_others_can_write_is_refused(tmp_path, mode):
    folder = tmp_path / "journal"
    folder.mkdir()
    folder.chmod(mode)
    agent = make_shares(folder)
    assert agent.explain_missing(["GPU-sim-n-0"]) == OPEN_JOURNAL.format(folder=folder)
    folder.chmod(0o755)
    assert agent.explain_missing(["GPU-sim-n-0"]) == ""


def test_the_loop_of_the_agent_opens_no_file_to_learn_of_another_agent(tmp_path):
    agent = make_shares(tmp_path)
    assert "has not been looked at yet" in agent.find_other_agent()
    assert list(tmp_path.iterdir()) == []
    assert agent.explain_missing(["GPU-sim-n-0"]) == ""
    assert agent.find_other_agent() == ""


def test_real_devices_need_the_ids_of_the_host(tmp_path):
    assert explain(tmp_path, "GPU-1", host_ids=False) == NO_HOST_IDS


@pytest.mark.parametrize("seen", [True, False])
def test_real_devices_need_the_control_groups_and_the_library_of_the_driver(tmp_path, monkeypatch, seen):
    monkeypatch.setattr(LinuxHostMemory, "sees_groups", lambda self, pid: seen)
    probe = NvmlProbe(now=lambda: 0.0, load=FakeNvml)
    found = explain(tmp_path, "GPU-1", probe=probe)
    if seen:
        assert "libcuda" in found, "there is none on the machine of this test"
    else:
        assert found == NO_GROUPS
