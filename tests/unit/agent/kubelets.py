"""Fake kubelets: real gRPC servers at a PodResources socket that answer with the pods of the test."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from jupyter_gq.agent import podresources as messages
from tests.patience import scaled


def a_pod(
    name: str,
    *devices: str,
    namespace: str = "team",
    container: str = "main",
    resource: str = "nvidia.com/gpu",
) -> dict[str, Any]:
    """Return a pod whose container was given these devices, each listed separately as kubelets do."""
    given = [{"resource_name": resource, "device_ids": [device]} for device in devices]
    return {"name": name, "namespace": namespace, "containers": [{"name": container, "devices": given}]}


class FakeKubelet:
    """A kubelet that answers until it is stopped."""

    def __init__(self, socket: Path, pods=(), allocatable=()):
        self.socket, self.pods, self.allocatable = socket, list(pods), list(allocatable)
        self._server = None
        self.start()

    def start(self):
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        handlers = {
            "List": self._handler(messages.ListRequest, self.list),
            "GetAllocatableResources": self._handler(messages.AllocatableRequest, self.allocatable_resources),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()
        self.socket.unlink(missing_ok=True)

    def list(self, _request, _context):
        return messages.ListResponse(pod_resources=self.pods)

    def allocatable_resources(self, _request, _context):
        devices = [{"resource_name": "nvidia.com/gpu", "device_ids": [device]} for device in self.allocatable]
        return messages.AllocatableResponse(devices=devices)

    def _handler(self, request, answer):
        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request.FromString, response_serializer=lambda said: said.SerializeToString()
        )


class WithoutAllocatable(FakeKubelet):
    """An older kubelet, or one in which the call GetAllocatableResources is switched off."""

    def allocatable_resources(self, _request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "API GetAllocatableResources disabled")


class BrokenKubelet(FakeKubelet):
    """A kubelet that answers each call with an error."""

    def list(self, _request, context):
        context.abort(grpc.StatusCode.INTERNAL, "the checkpoint is corrupt")


class SilentKubelet(FakeKubelet):
    """A kubelet that accepts a call and does not answer until the caller gives up."""

    def list(self, _request, context):
        gone = threading.Event()
        context.add_callback(gone.set)
        gone.wait(scaled(30))
        return messages.ListResponse()
