"""The simulated devices of a node: which pod has which, and the kubelet's socket that says so."""

import threading
from concurrent import futures
from pathlib import Path

import grpc

from jupyter_gq.agent import podresources as messages
from tests.kubernetes.pod_runtime import Container, Runtime


class TooFew(Exception):
    """A pod was bound to the node that asks for more devices than are free; the text is the kubelet's."""


class Devices:
    """Gives devices to pods, the last one first: who expects the order of the indices is wrong on real nodes too."""

    def __init__(self, node: str, count: int, resource: str) -> None:
        self.resource = resource
        self.uuids = [f"GPU-sim-{node}-{index}" for index in range(count)]
        self._lock = threading.Lock()

    def allocate(self, container: Container, wanted: int, runtime: Runtime) -> None:
        """Give devices to this container of the runtime, which tells what others have. Raises `TooFew`."""
        if not wanted:
            return
        with self._lock:
            others = (other for other in runtime.active() if other is not container)
            taken = {uuid for other in others for uuid in other.given(self.resource)}
            free = [uuid for uuid in reversed(self.uuids) if uuid not in taken]
            if len(free) < wanted:
                available = f"Requested: {wanted}, Available: {len(free)}, which is unexpected"
                raise TooFew(
                    "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
                    f"{self.resource}. {available}"
                )
            container.devices = {self.resource: free[:wanted]}


class PodResources:
    """The PodResources API (v1) on the socket of a kubelet's folder, as agents ask it."""

    def __init__(self, folder: Path, devices: Devices, runtime: Runtime) -> None:
        self.socket = folder / "pod-resources" / "kubelet.sock"
        self._devices, self._runtime = devices, runtime
        self._server = None

    def start(self) -> None:
        def method(answer, request, response):
            return grpc.unary_unary_rpc_method_handler(
                answer, request_deserializer=request.FromString, response_serializer=response.SerializeToString
            )

        methods = {
            "List": method(self._list, messages.ListRequest, messages.ListResponse),
            "GetAllocatableResources": method(
                self._allocatable, messages.AllocatableRequest, messages.AllocatableResponse
            ),
        }
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)])
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        if self._server:
            self._server.stop(None).wait()
            self._server = None
        self.socket.unlink(missing_ok=True)

    def _list(self, _request, _context):
        answer = messages.ListResponse()
        for container in self._runtime.active():
            pod = answer.pod_resources.add(name=container.pod, namespace=container.namespace)
            listed = pod.containers.add(name=container.name)
            for resource, uuids in container.devices.items():
                for uuid in uuids:  # each apart, as a kubelet does: it adds where the device is
                    listed.devices.add(resource_name=resource, device_ids=[uuid])
        return answer

    def _allocatable(self, _request, _context):
        answer = messages.AllocatableResponse()
        for uuid in self._devices.uuids:
            answer.devices.add(resource_name=self._devices.resource, device_ids=[uuid])
        return answer
