"""What an agent says of its node: all that can be read, and nothing that cannot."""

from types import SimpleNamespace

import pytest

from jupyter_gq.agent.kubelet import KubeletSocket
from jupyter_gq.agent.node import Node
from jupyter_gq.agent.processes import Processes, by_cgroup
from jupyter_gq.client.agents import AgentDevice, AgentShare, WatchedPod
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.devices.nvml import NvmlProbe
from tests.unit.devices.test_nvml import GIB, FakeNvml

from .kubelets import IsBroken, ListensOnASocket, a_pod
from .proc import OTHER, UID, AProc


def watched(uid=UID, *devices, pod="a"):
    return WatchedPod(pod_uid=uid, namespace="team", pod=pod, devices=list(devices))


class Machine:
    """A node whose driver and /proc the test plays."""

    def __init__(self, folder, socket):
        self.nvml, self.proc = FakeNvml(), AProc(folder)
        probe = NvmlProbe(now=lambda: 1000.0, load=lambda: self.nvml)
        self.node = Node(
            probe=probe,
            meter=ProbeMeter(probe),
            kubelet=KubeletSocket(socket),
            processes=Processes(folder, by_cgroup),
            proc=folder,
        )

    def uses(self, pid, mib, percent):
        memory = None if mib is None else mib * GIB // 1024
        self.nvml.running.append(SimpleNamespace(pid=pid, usedGpuMemory=memory))
        self.nvml.samples.append(SimpleNamespace(pid=pid, smUtil=percent, timeStamp=999_000_000))

    def share(self, *watch):
        (share,) = self.node.look(watch).shares
        return share


@pytest.fixture
def machine(tmp_path, socket):
    return Machine(tmp_path, socket)


def test_driver_kubelet_and_shares_are_told_together(machine, kubelet):
    kubelet(ListensOnASocket, a_pod("a", "GPU-1"))
    machine.proc.process(7, pod=UID, nodes=["nvidia0"])
    machine.proc.process(8, pod=OTHER, nodes=["nvidia1"])
    machine.uses(7, 100, 40)
    machine.uses(8, 50, 90)
    report = machine.node.look([watched(UID, "GPU-1"), watched(OTHER, "GPU-1", pod="b")])
    assert (report.probe, report.detail) == ("OK", "2x A100-SXM4-40GB")
    assert report.devices[1] == AgentDevice(uuid="GPU-1", index=1, model="A100-SXM4-40GB", memory_mib=40_959)
    assert [(given.pod, given.device_ids) for given in report.allocations] == [("a", ["GPU-1"])]
    assert report.shares == [
        AgentShare(pod_uid=UID, memory_mib=100, utilisation=40, visible=["GPU-1"]),
        AgentShare(pod_uid=OTHER, memory_mib=50, utilisation=90, visible=["GPU-0"]),
    ]
    assert set(report.missing) == {"suspend"}


def test_a_node_that_cannot_suspend_says_so_before_anybody_asks(machine):
    assert "cannot suspend" in machine.node.look([]).missing["suspend"]


def test_a_pod_whose_device_the_service_does_not_know_yet_is_measured_on_what_the_kubelet_gave_it(machine, kubelet):
    server = kubelet(ListensOnASocket, a_pod("a", "GPU-0"), a_pod("a", "nic0", resource="example.com/nic"))
    machine.proc.process(7, pod=UID)
    machine.uses(7, 100, 40)
    assert machine.share(watched()).memory_mib == 100
    server.pods = [a_pod("a", "GPU-0", namespace="other")]
    assert machine.share(watched()).memory_mib is None


def test_a_pod_without_a_process_to_be_seen_is_unknown_and_not_idle(machine):
    machine.proc.process(7, pod=OTHER)
    report = machine.node.look([watched(UID, "GPU-0")])
    assert report.shares == [AgentShare(pod_uid=UID)]
    assert "hostPID" in report.missing["processes"]
    machine.proc.process(8, pod=UID)
    assert "processes" not in machine.node.look([watched(UID, "GPU-0")]).missing
    assert "processes" not in machine.node.look([]).missing


def test_a_driver_that_does_not_tell_the_numbers_of_its_devices_leaves_unknown_what_pods_see(machine):
    machine.proc.process(7, pod=UID, nodes=["nvidia0"])
    assert "visible" not in machine.node.look([watched(UID, "GPU-0")]).missing
    machine.nvml.fails = {"nvmlDeviceGetMinorNumber": "NOT_SUPPORTED"}
    report = machine.node.look([watched(UID, "GPU-0")])
    assert report.shares[0].visible is None
    assert "does not tell the numbers" in report.missing["visible"]


@pytest.mark.parametrize("device", ["GPU-9", "GPU-0"])
def test_what_the_driver_does_not_say_of_a_share_is_unknown(machine, device):
    machine.proc.process(7, pod=UID)
    machine.uses(7, None, 40)
    assert machine.share(watched(UID, device)).memory_mib is None


@pytest.mark.parametrize(
    ("fails", "state"),
    [("nvmlInit", "NO_DRIVER"), ("nvmlDeviceGetUUID", "LOST"), ("nvmlDeviceGetMemoryInfo", "BROKEN")],
)
def test_a_driver_that_is_lost_is_a_state_and_the_kubelet_is_heard_all_the_same(machine, kubelet, fails, state):
    kubelet(ListensOnASocket, a_pod("a", "GPU-1"))
    machine.proc.process(7, pod=UID, nodes=["nvidia0"])
    errors = {"NO_DRIVER": "LIBRARY_NOT_FOUND", "LOST": "GPU_IS_LOST", "BROKEN": "UNKNOWN"}
    lost = FakeNvml(nvmlDeviceGetHandleByUUID=errors[state], **{fails: errors[state]})
    machine.nvml.__dict__.update(lost.__dict__)
    report = machine.node.look([watched(UID, "GPU-1")])
    assert (report.probe, report.devices) == (state, [])
    assert report.shares == [AgentShare(pod_uid=UID)]
    assert report.allocations
    machine.nvml.fails = {}
    assert machine.node.look([watched(UID, "GPU-1")]).probe == "OK", "it comes back without a restart"


def test_a_kubelet_that_cannot_be_asked_leaves_its_allocations_unknown(machine, kubelet):
    report = machine.node.look([])
    assert report.allocations is None
    assert "no socket" in report.missing["kubelet"]
    kubelet(IsBroken)
    report = machine.node.look([])
    assert report.allocations is None
    assert "INTERNAL" in report.missing["kubelet"]


def test_a_kubelet_that_gave_nothing_is_known_to_have_given_nothing(machine, kubelet):
    kubelet(ListensOnASocket)
    assert machine.node.look([]).allocations == []


def test_a_node_whose_device_plugin_shares_devices_can_have_no_shares_of_ours(machine, kubelet):
    kubelet(ListensOnASocket, a_pod("a", "GPU-0::1"))
    machine.proc.process(7, pod=UID)
    machine.uses(7, 100, 40)
    report = machine.node.look([watched()])
    assert "GPU-0::1" in report.missing["shares"]
    assert report.allocations[0].device_ids == ["GPU-0::1"]
    assert report.shares[0].memory_mib == 100
