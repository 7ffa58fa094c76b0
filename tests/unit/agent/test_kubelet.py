"""What the kubelet gave to whom: as it says, and not remembered when it does not say."""

import socket as sockets

import pytest

from jupyter_gq.agent import podresources
from jupyter_gq.agent.kubelet import KubeletError, KubeletSocket
from jupyter_gq.client.agents import AgentAllocation

from .kubelets import DoesNotTellWhatItCouldGive, IsBroken, ListensOnASocket, NeverAnswers, a_pod

#: A response as the kubelet's own Go types of Kubernetes 1.35 write it: three pods, one of them with two devices and a
#: network card, with topology, CPUs, memory and a claim, of which the agent knows nothing.
WRITTEN_BY_GO = bytes.fromhex(
    "0a530a0b67712d7265732d6e312d30120c6770752d67712d6e6f6465731a360a057061757365121d0a0e6e76696469612e636f6d2f677075"
    "12054750552d611a040a0208011a020003220a0a066d656d6f727910070a740a0374776f12047465616d1a5c0a046d61696e12170a0e6e76"
    "696469612e636f6d2f67707512054750552d6212170a0e6e76696469612e636f6d2f67707512054750552d6312170a0f6578616d706c652e"
    "636f6d2f6e696312046e6963302a091201631a047465616d1a090a07736964656361720a150a05706c61696e12047465616d1a060a046d61"
    "696e"
)


def allocation(pod, *ids, namespace="team", container="main", resource="nvidia.com/gpu"):
    return AgentAllocation(namespace=namespace, pod=pod, container=container, resource=resource, device_ids=list(ids))


class SaysWhatGoWrote(ListensOnASocket):
    """A kubelet of Kubernetes 1.35."""

    def list(self, _request, _context):
        return podresources.ListResponse.FromString(WRITTEN_BY_GO)


def test_what_kubernetes_itself_writes_is_understood(kubelet, socket):
    kubelet(SaysWhatGoWrote)
    assert KubeletSocket(socket).look().allocations == (
        allocation("gq-res-n1-0", "GPU-a", namespace="gpu-gq-nodes", container="pause"),
        allocation("two", "GPU-b", "GPU-c"),
        allocation("two", "nic0", resource="example.com/nic"),
    )


def test_devices_that_are_listed_apart_are_one_allocation_and_a_pod_without_devices_is_none(kubelet, socket):
    kubelet(ListensOnASocket, a_pod("a", "GPU-2", "GPU-1"), a_pod("plain"))
    assert KubeletSocket(socket).look().allocations == (allocation("a", "GPU-1", "GPU-2"),)


def test_an_ended_pod_that_is_still_listed_is_passed_on_beside_the_one_that_has_its_device_now(kubelet, socket):
    """Which of the two has ended, only who knows the pods can tell."""
    kubelet(ListensOnASocket, a_pod("ended", "GPU-1"), a_pod("lives", "GPU-1"))
    assert KubeletSocket(socket).look().allocations == (allocation("ended", "GPU-1"), allocation("lives", "GPU-1"))


def test_copies_of_a_device_are_seen_also_before_a_pod_has_one(kubelet, socket):
    server = kubelet(ListensOnASocket, allocatable=["GPU-1::0", "GPU-1::1"])
    assert KubeletSocket(socket).look().copies() == ("GPU-1::0", "GPU-1::1")
    server.allocatable = ["GPU-1"]
    assert KubeletSocket(socket).look().copies() == ()
    server.pods = [a_pod("a", "GPU-2::3")]
    assert KubeletSocket(socket).look().copies() == ("GPU-2::3",)


def test_a_kubelet_that_does_not_tell_what_it_could_give_is_asked_for_what_it_gave(kubelet, socket):
    kubelet(DoesNotTellWhatItCouldGive, a_pod("a", "GPU-1"))
    view = KubeletSocket(socket).look()
    assert (view.allocations, view.allocatable) == ((allocation("a", "GPU-1"),), None)


def test_without_a_socket_the_sentence_says_what_to_mount(socket):
    with pytest.raises(KubeletError, match=r"no socket .*kubelet\.sock: mount"):
        KubeletSocket(socket).look()


def test_an_error_and_a_silence_are_sentences(kubelet, socket):
    broken = kubelet(IsBroken)
    with pytest.raises(KubeletError, match="INTERNAL: the checkpoint is corrupt"):
        KubeletSocket(socket).look()
    broken.stop()
    kubelet(NeverAnswers)
    with pytest.raises(KubeletError, match="DEADLINE_EXCEEDED"):
        KubeletSocket(socket, timeout=0.2).look()


def test_a_kubelet_that_restarts_is_asked_again_at_once(kubelet, socket):
    server, asked = kubelet(ListensOnASocket, a_pod("a", "GPU-1")), KubeletSocket(socket)
    assert asked.look().allocations
    server.stop()
    for _ in range(3):
        with pytest.raises(KubeletError):
            asked.look()
    server.pods = [a_pod("b", "GPU-1")]
    server.start()
    assert asked.look().allocations == (allocation("b", "GPU-1"),)


def test_a_socket_that_a_dead_kubelet_left_is_a_sentence_and_holds_its_successor_up_no_longer(kubelet, socket):
    with sockets.socket(sockets.AF_UNIX) as left:
        left.bind(str(socket))
    asked = KubeletSocket(socket, timeout=2)
    for _ in range(4):
        with pytest.raises(KubeletError, match="does not answer"):
            asked.look()
    socket.unlink()
    kubelet(ListensOnASocket, a_pod("a", "GPU-1"))
    assert asked.look().allocations == (allocation("a", "GPU-1"),)


def test_the_names_of_kubernetes_are_used():
    """A request to another name would be refused by a kubelet, and not by the server of these tests."""
    assert podresources.LIST == "/v1.PodResourcesLister/List"
    assert podresources.ALLOCATABLE == "/v1.PodResourcesLister/GetAllocatableResources"
