"""The report on a node has every value that can be read, and None for every value that cannot."""

from types import SimpleNamespace

import pynvml
import pytest

from jupyter_gq.agent.abilities import NodeAbilities
from jupyter_gq.agent.kubelet import KubeletSocket
from jupyter_gq.agent.node import LocalNode
from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.shares import OFF as OFF_SUSPENDING
from jupyter_gq.agent.signals import NO_HOST_IDS, OFF, PodSignals
from jupyter_gq.client.agents import (
    AgentDevice,
    AgentDeviceUse,
    AgentProcess,
    AgentProcessUse,
    AgentShare,
    WatchedPod,
)
from jupyter_gq.devices.abilities import Machine as Places
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from tests.unit.devices.test_nvml import GIB, FakeNvml

from .kubelets import BrokenKubelet, FakeKubelet, a_pod
from .proc import OTHER, UID, FakeProc

#: MiB of GPU-1 that no process holds.
FREE = 30 * 1024 - 1


def watched(uid=UID, *devices, pod="a"):
    return WatchedPod(pod_uid=uid, namespace="team", pod=pod, devices=list(devices))


def held(pid, mib, ticks=5):
    """What one process holds of GPU-1, of which some memory is free."""
    use = AgentProcessUse(process=AgentProcess(pid=pid, ticks=ticks), memory_mib=mib)
    return AgentDeviceUse(device="GPU-1", processes=[use], free_mib=FREE)


class Machine:
    """A node with a fake driver and a fake /proc, which shows the ids of the host."""

    def __init__(self, folder, socket, *, allowed=True, host_ids=True, may_signal=True):
        self.nvml, self.proc, self.time = FakeNvml(), FakeProc(folder), 0.0
        probe = NvmlProbe(now=lambda: 1000.0, load=lambda: self.nvml)
        processes = Processes(folder, find_pod_by_cgroup)
        self.node = LocalNode(
            probe=probe,
            meter=ProbeMeter(probe, processes.identify),
            kubelet=KubeletSocket(socket),
            processes=processes,
            signals=PodSignals(
                processes, allowed=allowed, host_ids=lambda: host_ids, may_signal=lambda pid: may_signal
            ),
            abilities=NodeAbilities(
                probe, Places(proc=folder, sys=folder), runs_program=processes.runs_program, monotonic=lambda: self.time
            ),
            explain_no_suspension=lambda devices: OFF_SUSPENDING,
            find_journal_trouble=lambda: "",
            proc=folder,
        )

    def uses(self, pid, mib, percent):
        memory = None if mib is None else mib * GIB // 1024
        self.nvml.running.append(SimpleNamespace(pid=pid, usedGpuMemory=memory))
        self.nvml.samples.append(SimpleNamespace(pid=pid, smUtil=percent, timeStamp=999_000_000))

    def share(self, *watch):
        (share,) = self.node.observe(watch).shares
        return share


@pytest.fixture
def machine(tmp_path, socket):
    return Machine(tmp_path, socket)


def test_report_combines_driver_kubelet_and_shares(machine, kubelet):
    kubelet(FakeKubelet, a_pod("a", "GPU-1"))
    machine.proc.add(7, pod=UID, nodes=["nvidia0"])
    machine.proc.add(8, pod=OTHER, nodes=["nvidia1"])
    machine.uses(7, 100, 40)
    machine.uses(8, 50, 90)
    report = machine.node.observe([watched(UID, "GPU-1"), watched(OTHER, "GPU-1", pod="b")])
    assert (report.probe, report.detail) == ("OK", "2x A100-SXM4-40GB")
    assert report.devices[1] == AgentDevice(uuid="GPU-1", index=1, model="A100-SXM4-40GB", memory_mib=40_959)
    assert [(given.pod, given.device_ids) for given in report.allocations] == [("a", ["GPU-1"])]
    assert report.shares == [
        AgentShare(pod_uid=UID, memory_mib=100, utilisation=40, visible=["GPU-1"], devices=[held(7, 100)]),
        AgentShare(pod_uid=OTHER, memory_mib=50, utilisation=90, visible=["GPU-0"], devices=[held(8, 50)]),
    ]
    assert set(report.missing) == {"suspend"}


def test_report_says_why_the_agent_suspends_nothing(machine):
    assert "agent.suspend" in machine.node.observe([]).missing["suspend"]


def test_pod_without_devices_in_the_orders_is_measured_on_the_devices_that_the_kubelet_gave_it(machine, kubelet):
    server = kubelet(FakeKubelet, a_pod("a", "GPU-0"), a_pod("a", "nic0", resource="example.com/nic"))
    machine.proc.add(7, pod=UID)
    machine.uses(7, 100, 40)
    assert machine.share(watched()).memory_mib == 100
    server.pods = [a_pod("a", "GPU-0", namespace="other")]
    assert machine.share(watched()).memory_mib is None


def test_use_of_a_pod_without_a_visible_process_is_unknown_and_not_zero(machine):
    machine.proc.add(7, pod=OTHER)
    report = machine.node.observe([watched(UID, "GPU-0")])
    assert report.shares == [AgentShare(pod_uid=UID)]
    assert "hostPID" in report.missing["processes"]
    machine.proc.add(8, pod=UID)
    assert "processes" not in machine.node.observe([watched(UID, "GPU-0")]).missing
    assert "processes" not in machine.node.observe([]).missing


def test_visible_devices_are_unknown_if_the_driver_does_not_tell_minor_numbers(machine):
    machine.proc.add(7, pod=UID, nodes=["nvidia0"])
    assert "visible" not in machine.node.observe([watched(UID, "GPU-0")]).missing
    machine.nvml.fails = {"nvmlDeviceGetMinorNumber": "NOT_SUPPORTED"}
    report = machine.node.observe([watched(UID, "GPU-0")])
    assert report.shares[0].visible is None
    assert "does not tell the numbers" in report.missing["visible"]


@pytest.mark.parametrize("device", ["GPU-9", "GPU-0"])
def test_memory_that_the_driver_does_not_tell_is_unknown(machine, device):
    machine.proc.add(7, pod=UID)
    machine.uses(7, None, 40)
    assert machine.share(watched(UID, device)).memory_mib is None


@pytest.mark.parametrize(
    ("fails", "state"),
    [("nvmlInit", "NO_DRIVER"), ("nvmlDeviceGetUUID", "LOST"), ("nvmlDeviceGetUUID", "BROKEN")],
)
def test_lost_driver_is_reported_as_a_state_beside_the_kubelet_s_allocations(machine, kubelet, fails, state):
    kubelet(FakeKubelet, a_pod("a", "GPU-1"))
    machine.proc.add(7, pod=UID, nodes=["nvidia0"])
    errors = {"NO_DRIVER": "LIBRARY_NOT_FOUND", "LOST": "GPU_IS_LOST", "BROKEN": "UNKNOWN"}
    lost = FakeNvml(nvmlDeviceGetHandleByUUID=errors[state], **{fails: errors[state]})
    machine.nvml.__dict__.update(lost.__dict__)
    report = machine.node.observe([watched(UID, "GPU-1")])
    assert (report.probe, report.devices) == (state, [])
    assert report.shares == [AgentShare(pod_uid=UID, devices=[AgentDeviceUse(device="GPU-1")])]
    assert report.allocations
    machine.nvml.fails = {}
    assert machine.node.observe([watched(UID, "GPU-1")]).probe == "OK", "it comes back without a restart"


def lose_first_device(nvml):
    def answer(name, *arguments):
        if name == "nvmlDeviceGetMemoryInfo" and arguments == (0,):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return FakeNvml.answer(nvml, name, *arguments)

    nvml.answer = answer


def test_device_that_is_lost_beside_another_is_reported_as_not_healthy_until_it_is_back(machine):
    machine.proc.add(7, pod=UID, nodes=["nvidia0"])
    machine.uses(7, 100, 40)

    def healthy(report):
        return {device.uuid: device.healthy for device in report.devices}

    assert healthy(machine.node.observe([])) == {"GPU-0": True, "GPU-1": True}
    lose_first_device(machine.nvml)
    report = machine.node.observe([watched(UID, "GPU-1")])
    assert (report.probe, healthy(report)) == ("OK", {"GPU-0": False, "GPU-1": True})
    assert "Not usable: the A100-SXM4-40GB GPU-0. A GPU fell off the bus" in report.detail
    (share,) = report.shares
    assert (share.memory_mib, share.utilisation, share.visible) == (100, 40, ["GPU-1"])
    del machine.nvml.answer
    report = machine.node.observe([])
    assert (report.detail, healthy(report)) == ("2x A100-SXM4-40GB", {"GPU-0": True, "GPU-1": True})


def test_agent_that_begins_beside_a_lost_device_leaves_only_the_pod_on_that_device_unclear(machine):
    """Nobody can name the lost device: its pod would seem to see fewer devices than its own."""
    machine.proc.add(7, pod=UID, nodes=["nvidia0", "nvidia1"])
    machine.proc.add(8, pod=OTHER, nodes=["nvidia0"])
    machine.uses(7, 100, 40)
    lose_first_device(machine.nvml)
    watch = [watched(UID, "GPU-0", "GPU-1"), watched(OTHER, "GPU-1")]
    report = machine.node.observe(watch)
    assert (report.probe, [device.uuid for device in report.devices]) == ("OK", ["GPU-1"])
    assert [share.visible for share in report.shares] == [None, ["GPU-1"]]
    assert "(1 of them)" in report.missing["devices"]
    assert "visible" not in report.missing
    del machine.nvml.answer
    report = machine.node.observe(watch)
    assert [share.visible for share in report.shares] == [["GPU-0", "GPU-1"], ["GPU-1"]]
    assert not report.missing.keys() & {"visible", "devices"}


def test_allocations_are_unknown_if_the_kubelet_does_not_answer(machine, kubelet):
    report = machine.node.observe([])
    assert report.allocations is None
    assert "no socket" in report.missing["kubelet"]
    kubelet(BrokenKubelet)
    report = machine.node.observe([])
    assert report.allocations is None
    assert "INTERNAL" in report.missing["kubelet"]


def test_allocations_are_empty_and_not_unknown_if_the_kubelet_gave_no_device(machine, kubelet):
    kubelet(FakeKubelet)
    assert machine.node.observe([]).allocations == []


def test_report_says_that_the_device_plugin_shares_devices_so_that_the_node_gets_no_shares(machine, kubelet):
    kubelet(FakeKubelet, a_pod("a", "GPU-0::1"))
    machine.proc.add(7, pod=UID)
    machine.uses(7, 100, 40)
    report = machine.node.observe([watched()])
    assert "GPU-0::1" in report.missing["shares"]
    assert report.allocations[0].device_ids == ["GPU-0::1"]
    assert report.shares[0].memory_mib == 100


def test_memory_of_each_process_is_reported_with_its_start_and_an_unknown_amount_is_no_zero(machine):
    machine.proc.add(7, pod=UID, ticks=70)
    machine.proc.add(8, pod=UID, ticks=80)
    machine.proc.add(9, pod=UID)
    machine.uses(7, 100, 40)
    machine.uses(8, None, 0)
    (device,) = machine.share(watched(UID, "GPU-1")).devices
    assert device.processes == [
        AgentProcessUse(process=AgentProcess(pid=7, ticks=70), memory_mib=100),
        AgentProcessUse(process=AgentProcess(pid=8, ticks=80), memory_mib=None),
    ]


@pytest.mark.parametrize(
    ("lacks", "reason", "reported"),
    [
        ({"allowed": False}, OFF, True),
        ({"host_ids": False}, NO_HOST_IDS, False),
        ({"may_signal": False}, "refused it for process 7", True),
    ],
)
def test_agent_that_cannot_signal_says_why_and_believes_no_foreign_ids(tmp_path, socket, lacks, reason, reported):
    machine = Machine(tmp_path, socket, **lacks)
    machine.proc.add(7, pod=UID)
    machine.uses(7, 100, 40)
    report = machine.node.observe([watched(UID, "GPU-1")])
    assert reason in report.missing["signal"]
    assert report.shares[0].memory_mib == 100
    assert bool(report.shares[0].devices) is reported
