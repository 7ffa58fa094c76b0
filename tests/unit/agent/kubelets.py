"""A kubelet as far as its PodResources socket goes: a real gRPC server, which says what the test wrote."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from jupyter_gq.agent import podresources as messages


def a_pod(name, *devices, namespace="team", container="main", resource="nvidia.com/gpu"):
    """A pod whose container was given these devices, each listed apart as kubelets do."""
    given = [{"resource_name": resource, "device_ids": [device]} for device in devices]
    return {"name": name, "namespace": namespace, "containers": [{"name": container, "devices": given}]}


class ListensOnASocket:
    """Answers until it is stopped."""

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

    def stop(self):
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


class DoesNotTellWhatItCouldGive(ListensOnASocket):
    """An older kubelet, or one with that question switched off."""

    def allocatable_resources(self, _request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "API GetAllocatableResources disabled")


class IsBroken(ListensOnASocket):
    """Answers each question with an error."""

    def list(self, _request, context):
        context.abort(grpc.StatusCode.INTERNAL, "the checkpoint is corrupt")


class NeverAnswers(ListensOnASocket):
    """Takes the question and is silent until the caller gives up."""

    def list(self, _request, context):
        gone = threading.Event()
        context.add_callback(gone.set)
        gone.wait(30)
        return messages.ListResponse()
