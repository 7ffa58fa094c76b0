"""The reason of the end of a server's pod, recorded before or after the pod is gone."""

import logging

import pytest

from jupyter_gq.hub.kubernetes.pods import ClusterUnreachable, ResilientPods

pytestmark = pytest.mark.asyncio

PLACE = "hub/jupyter-ann"
OUT_OF_MEMORY = "Your server ended: it used more memory than its limit."
NODE_GONE = "Your server ended: its node is gone."


def killed_pod():
    """Return a pod whose notebook was killed for its memory."""
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    return {"status": {"containerStatuses": [{"name": "notebook", "state": state}]}}


class Reflector:
    """A reflector with the pods that are there, and the reasons for which deleted pods ended."""

    def __init__(self, pods=(), end_reasons=()):
        self.pods, self.end_reasons = dict(pods), dict(end_reasons)


class KubernetesServer:
    """A spawner whose pod runs until the reflector shows its end; `stop` deletes the pod."""

    namespace, pod_name, gpu_ended, _share = "hub", "jupyter-ann", "", None
    is_reachable = True

    async def _start_watching_pods(self):
        if not self.is_reachable:
            raise ClusterUnreachable("no route to host")

    async def poll(self):
        return None if self._place in self.pod_reflector.pods else 1

    async def stop(self, now):
        del self.pod_reflector.pods[self._place]


class Server(ResilientPods, KubernetesServer):
    """The spawner under test."""

    def __init__(self, reflector):
        self.pod_reflector = reflector
        self.log = logging.getLogger("hub")  # otherwise that of an application which another test has made


async def test_poll_records_why_a_deleted_pod_ended():
    server = Server(Reflector(end_reasons={PLACE: NODE_GONE}))
    assert await server.poll() == 1
    assert server.gpu_ended == NODE_GONE


async def test_poll_records_why_a_present_pod_ended():
    server = Server(Reflector(pods={PLACE: killed_pod()}, end_reasons={PLACE: NODE_GONE}))
    await server.poll()
    assert server.gpu_ended == OUT_OF_MEMORY, "the present pod comes before an earlier one of its name"


async def test_stop_records_the_end_before_the_pod_is_deleted():
    server = Server(Reflector(pods={PLACE: killed_pod()}))
    await server.stop()
    assert server.gpu_ended == OUT_OF_MEMORY
    assert not server.pod_reflector.pods


async def test_a_recorded_end_is_kept_if_nothing_more_is_known():
    server = Server(Reflector(end_reasons={"hub/jupyter-bob": NODE_GONE}))
    server.gpu_ended = OUT_OF_MEMORY
    await server.poll()
    assert server.gpu_ended == OUT_OF_MEMORY


async def test_the_end_of_an_earlier_pod_of_the_same_name_is_forgotten():
    server = Server(Reflector(end_reasons={PLACE: NODE_GONE}))
    server.forget_earlier_end()
    await server.poll()
    assert server.gpu_ended == ""
    server.forget_earlier_end()  # nothing is recorded any more


async def test_a_server_counts_as_running_while_the_cluster_cannot_be_reached(caplog):
    server = Server(Reflector(end_reasons={PLACE: NODE_GONE}))
    server.is_reachable = False
    assert await server.poll() is None
    assert server.gpu_ended == ""
    assert "no route to host" in caplog.text
