"""What kube-proxy does with a Service: a connection to its address goes to one of the pods that are ready.

Where none is, it goes to one that is told to end and serves on.

The API server takes no loopback addresses into EndpointSlices, so the pods are looked up by the Service's selector.
"""

import asyncio
import contextlib
import random

import urllib3
from kubernetes.client import ApiException

from tests.kubernetes.control_plane import ControlPlane


class Front:
    """Listens on a port of this machine for a Service. A connection stays with its pod until one side ends it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self._plane, self._namespace, self._name = plane, namespace, name
        self._tasks: set[asyncio.Task] = set()
        self.url = ""
        self._last: list[tuple[str, str, int]] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ready(self) -> list[tuple[str, str, int]]:
        """The pods that requests go to: name, address, port."""
        service = self._plane.core.read_namespaced_service(self._name, self._namespace)
        selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
        pods = self._plane.core.list_namespaced_pod(self._namespace, label_selector=selector).items
        port = service.spec.ports[0].target_port
        serving = [pod for pod in pods if _serves(pod)]
        staying = [pod for pod in serving if pod.metadata.deletion_timestamp is None]
        return [(pod.metadata.name, pod.status.pod_ip, _port(pod, port)) for pod in staying or serving]

    def _known(self) -> list[tuple[str, str, int]]:
        """The same; while the API server is away, those of the last time."""
        with contextlib.suppress(ApiException, urllib3.exceptions.HTTPError):
            self._last = self.ready()
        return self._last

    async def _serve(self, reader, writer) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            pods = await asyncio.to_thread(self._known)
            if pods:
                _, address, port = random.choice(pods)
                there = await asyncio.open_connection(address, port)
                await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
        except OSError:
            return
        finally:
            writer.close()


async def _pump(source, sink) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


def _serves(pod) -> bool:
    conditions = {each.type: each.status for each in pod.status.conditions or ()}
    return conditions.get("Ready") == "True"


def _port(pod, port) -> int:
    named = {each.name: each.container_port for each in pod.spec.containers[0].ports or ()}
    return named.get(port, port)
