"""The devices of each pod are read from the kubelet, and nothing is kept while it does not answer."""

import socket as sockets

import grpc
import pytest

from jupyter_gq.agent import podresources
from jupyter_gq.agent.kubelet import KubeletError, KubeletSocket
from jupyter_gq.client.agents import AgentAllocation

from .kubelets import BrokenKubelet, FakeKubelet, SilentKubelet, WithoutAllocatable, a_pod

#: A response as the kubelet's own Go types of Kubernetes 1.35 write it: three pods, one of which has two devices and a
#: network card. The topology, CPUs, memory and claim in it are fields that the agent does not know.
WRITTEN_BY_GO = bytes.fromhex(
    "0a530a0b67712d7265732d6e312d30120c6770752d67712d6e6f6465731a360a057061757365121d0a0e6e76696469612e636f6d2f677075"
    "12054750552d611a040a0208011a020003220a0a066d656d6f727910070a740a0374776f12047465616d1a5c0a046d61696e12170a0e6e76"
    "696469612e636f6d2f67707512054750552d6212170a0e6e76696469612e636f6d2f67707512054750552d6312170a0f6578616d706c652e"
    "636f6d2f6e696312046e6963302a091201631a047465616d1a090a07736964656361720a150a05706c61696e12047465616d1a060a046d61"
    "696e"
)


def allocation(pod, *ids, namespace="team", container="main", resource="nvidia.com/gpu"):
    return AgentAllocation(namespace=namespace, pod=pod, container=container, resource=resource, device_ids=list(ids))


class LeftOpen:
    """A channel that is not closed when its block ends, as if grpc took long to close it."""

    def __init__(self, channel, left_open):
        self._channel = channel
        left_open.append(channel)

    def __enter__(self):
        return self._channel

    def __exit__(self, *_error):
        """Leave the channel open."""


class KubeletOf135(FakeKubelet):
    """A kubelet that answers with the bytes that Kubernetes 1.35 writes."""

    def list(self, _request, _context):
        return podresources.ListResponse.FromString(WRITTEN_BY_GO)


def test_response_written_by_kubernetes_itself_is_parsed(kubelet, socket):
    kubelet(KubeletOf135)
    assert KubeletSocket(socket).read().allocations == (
        allocation("gq-res-n1-0", "GPU-a", namespace="gpu-gq-nodes", container="pause"),
        allocation("two", "GPU-b", "GPU-c"),
        allocation("two", "nic0", resource="example.com/nic"),
    )


def test_devices_listed_separately_become_one_allocation_and_pods_without_devices_none(kubelet, socket):
    kubelet(FakeKubelet, a_pod("a", "GPU-2", "GPU-1"), a_pod("plain"))
    assert KubeletSocket(socket).read().allocations == (allocation("a", "GPU-1", "GPU-2"),)


def test_ended_pod_that_is_still_listed_is_passed_on_beside_the_pod_that_has_its_device_now(kubelet, socket):
    """Only the service knows which of the two pods has ended."""
    kubelet(FakeKubelet, a_pod("ended", "GPU-1"), a_pod("lives", "GPU-1"))
    assert KubeletSocket(socket).read().allocations == (allocation("ended", "GPU-1"), allocation("lives", "GPU-1"))


def test_copies_of_a_device_are_found_even_before_a_pod_has_one(kubelet, socket):
    server = kubelet(FakeKubelet, allocatable=["GPU-1::0", "GPU-1::1"])
    assert KubeletSocket(socket).read().copied_ids() == ("GPU-1::0", "GPU-1::1")
    server.allocatable = ["GPU-1"]
    assert KubeletSocket(socket).read().copied_ids() == ()
    server.pods = [a_pod("a", "GPU-2::3")]
    assert KubeletSocket(socket).read().copied_ids() == ("GPU-2::3",)


def test_kubelet_without_allocatable_devices_still_tells_its_allocations(kubelet, socket):
    kubelet(WithoutAllocatable, a_pod("a", "GPU-1"))
    view = KubeletSocket(socket).read()
    assert (view.allocations, view.allocatable) == ((allocation("a", "GPU-1"),), None)


def test_missing_socket_is_an_error_that_says_what_to_mount(socket):
    with pytest.raises(KubeletError, match=r"no socket .*kubelet\.sock: mount"):
        KubeletSocket(socket).read()


def test_error_and_silence_of_the_kubelet_are_errors_with_a_sentence(kubelet, socket):
    broken = kubelet(BrokenKubelet)
    with pytest.raises(KubeletError, match="INTERNAL: the checkpoint is corrupt"):
        KubeletSocket(socket).read()
    broken.stop()
    kubelet(SilentKubelet)
    with pytest.raises(KubeletError, match="DEADLINE_EXCEEDED"):
        KubeletSocket(socket, timeout=0.2).read()


def test_kubelet_that_restarts_is_read_again_at_once(kubelet, socket):
    server, asked = kubelet(FakeKubelet, a_pod("a", "GPU-1")), KubeletSocket(socket)
    assert asked.read().allocations
    server.stop()
    for _ in range(3):
        with pytest.raises(KubeletError):
            asked.read()
    server.pods = [a_pod("b", "GPU-1")]
    server.start()
    assert asked.read().allocations == (allocation("b", "GPU-1"),)


def test_socket_of_a_dead_kubelet_is_an_error_and_does_not_delay_the_next_kubelet(kubelet, socket):
    with sockets.socket(sockets.AF_UNIX) as left:
        left.bind(str(socket))
    asked = KubeletSocket(socket, timeout=2)
    for _ in range(4):
        with pytest.raises(KubeletError, match="does not answer"):
            asked.read()
    socket.unlink()
    kubelet(FakeKubelet, a_pod("a", "GPU-1"))
    assert asked.read().allocations == (allocation("a", "GPU-1"),)


def test_connection_of_another_channel_that_waits_after_a_failure_does_not_delay_a_read(kubelet, socket, monkeypatch):
    """grpc closes a channel in threads of its own, so the channel of the last read may still be there at the next."""
    with sockets.socket(sockets.AF_UNIX) as left:
        left.bind(str(socket))
    channels = []
    open_channel = grpc.insecure_channel
    monkeypatch.setattr(
        grpc, "insecure_channel", lambda *args, **kwargs: LeftOpen(open_channel(*args, **kwargs), channels)
    )
    asked = KubeletSocket(socket, timeout=2)
    with pytest.raises(KubeletError, match="does not answer"):
        asked.read()
    socket.unlink()
    kubelet(FakeKubelet, a_pod("a", "GPU-1"))
    assert asked.read().allocations == (allocation("a", "GPU-1"),)
    for channel in channels:
        channel.close()


def test_methods_have_the_names_of_the_kubernetes_api():
    """A kubelet would refuse a call of another name, but the server of these tests would not."""
    assert podresources.LIST == "/v1.PodResourcesLister/List"
    assert podresources.ALLOCATABLE == "/v1.PodResourcesLister/GetAllocatableResources"
