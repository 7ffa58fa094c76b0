"""A kubelet without containers: pods that are bound to its node run as processes of this machine.

What is real: the node and its lease, admission, the pods' processes with their environment, signals, exit codes and
messages, tokens, files, devices as the device plugin counts them, and the PodResources socket. What is not: images,
isolation, and init containers that are no sidecars. Full list: README.md.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import urllib3

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.device_plugin import Devices, PodResources
from tests.kubernetes.node_api import NodeApi, Refused, Stopped
from tests.kubernetes.pod_runtime import Container, Runtime
from tests.kubernetes.pod_status import node_object, node_status
from tests.kubernetes.pod_worker import PodWorker
from tests.kubernetes.waiting import until

#: Seconds between two renewals of the lease.
_HEARTBEAT = 1.0
#: Silence after which others may have written into our objects.
_LONG_SILENCE = 4.0


class Kubelet:
    """A node called `name` with `gpus` simulated devices. Start it, run pods on it, end it.

    `hang` and `go_on`: nothing is heard of it for a while; its processes run on. `kill` and `restart`: the kubelet
    alone; the next one adopts the processes. `power_off`: the machine with all its processes.
    """

    def __init__(self, plane: ControlPlane, name: str, gpus: int = 2, **options) -> None:
        """Options: `labels`, `taints`, `resource`, `environment` (for all its pods), `python` (that of its images)."""
        self.plane, self.name = plane, name
        self.labels = options.pop("labels", {})
        self.taints = options.pop("taints", [])
        resource = options.pop("resource", "nvidia.com/gpu")
        environment = plane.programs.environment | options.pop("environment", {})
        python = options.pop("python", os.environ.get("JUPYTER_GQ_TEST_PYTHON", sys.executable))
        assert not options, f"a kubelet knows no {', '.join(options)}"
        # The path of a socket has at most 107 characters: not below the folder of the test.
        self.folder = Path(tempfile.mkdtemp(prefix="gq-"))
        self.claims = plane.folder / "claims"
        self.devices = Devices(name, gpus, resource)
        self.runtime = Runtime(self.folder, environment, python)
        self.pod_resources = PodResources(self.folder, self.devices, self.runtime)
        #: Images that take their time to come, and when they are there.
        self.pulled: dict[str, float] = {}
        #: What went wrong in its own threads: none, unless the stand-in itself is wrong.
        self.problems: list[str] = []
        self._workers: dict[str, PodWorker] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._watch = None

    # --- for tests -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Come up, and wait until the scheduler may use the node."""
        self._come_up()
        until(self._takes_pods, f"node {self.name} is ready")

    def restart(self) -> None:
        """A new kubelet on the same machine."""
        self.kill()
        self._come_up()

    def kill(self) -> None:
        """The kubelet is gone; what runs runs on."""
        self.api.close()
        self.pod_resources.stop()
        self._end_watch()
        for worker in self._known():
            worker.nudge()
        for thread in [*self._threads, *self._known()]:
            thread.join()
        self._workers.clear()

    def hang(self) -> None:
        """It hears and says nothing any more, as behind a cut cable."""
        self.api.gate.clear()

    def go_on(self) -> None:
        """The cable is whole again."""
        self.api.gate.set()
        self._end_watch()

    def power_off(self) -> None:
        """The machine is off: no kubelet, no process. `restart` switches it on."""
        self.hang()
        for container in [each for main in self.runtime.active() for each in main.everything]:
            container.signal(signal.SIGKILL)
            container.sweep()

    def end(self) -> None:
        """End everything that came from it, and take the node away."""
        if not self.api.stopped.is_set():
            self.kill()
        self.runtime.end()
        with contextlib.suppress(Exception):
            self.plane.core.delete_node(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not self.problems, "\n".join(self.problems)

    def container(self, namespace: str, pod: str) -> Container | None:
        """The main container of a pod of that name, also of one that has ended; the newest."""
        found = [c for c in list(self.runtime.containers.values()) if (c.namespace, c.pod) == (namespace, pod)]
        return found[-1] if found else None

    def log(self, namespace: str, pod: str) -> str:
        """What the pod's process has written."""
        container = self.container(namespace, pod)
        return container.log.read_text(errors="replace") if container and container.log.exists() else ""

    def fail(self, what: str) -> None:
        """Keep the exception of a thread for who ends this kubelet."""
        self.problems.append(f"{what}: {traceback.format_exc()}")

    # --- what workers ask ----------------------------------------------------------------------------------------

    def forget(self, worker: PodWorker) -> None:
        with self._lock:
            if self._workers.get(worker.uid) is worker:
                del self._workers[worker.uid]

    def access(self, paths) -> dict[str, str]:
        """How a pod with an account reaches the API server: by a kubeconfig, for its token is in another place."""
        token = Path(paths.get("/var/run/secrets/kubernetes.io/serviceaccount", "/nowhere")) / "token"
        return {"KUBECONFIG": str(self.plane.kubeconfig(token_file=token))} if token.exists() else {}

    # --- its threads ---------------------------------------------------------------------------------------------

    def _come_up(self) -> None:
        self.api = NodeApi(self.plane, self.name)
        self.pod_resources.start()
        self._register()
        self._threads = [
            threading.Thread(target=self._guarded, args=(loop,), name=f"{self.name} {loop.__name__}", daemon=True)
            for loop in (self._renew_lease, self._follow_pods)
        ]
        for thread in self._threads:
            thread.start()

    def _guarded(self, loop) -> None:
        try:
            loop()
        except Stopped:
            return
        except Exception:  # noqa: BLE001 - the last guard of a thread
            self.fail(loop.__name__)

    def _register(self) -> None:
        try:
            self.api.insist("POST", "/api/v1/nodes", node_object(self.name, self.labels, self.taints, self.devices))
        except Refused as refused:
            if refused.status != 409:
                raise
            self._write_node()

    def _write_node(self) -> None:
        status = node_status(self.name, self.devices)
        self.api.insist("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": status})

    def _renew_lease(self) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spoke = _clock()
        while True:
            moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251 - the API's timestamps
            spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": moment}
            lease = {"metadata": {"name": self.name}, "spec": spec}
            try:
                self._write_lease(path, lease)
            except Refused as refused:
                if refused.status != 404:  # a young API server makes the namespace of leases a moment after it is ready
                    raise
            silence, spoke = _clock() - spoke, _clock()
            if silence > _LONG_SILENCE:
                self._write_node()
                for worker in self._known():
                    worker.report_again()
            self.api.wait(_HEARTBEAT)

    def _write_lease(self, path: str, lease) -> None:
        try:
            self.api.insist("PATCH", f"{path}/{self.name}", lease)
        except Refused as refused:
            if refused.status != 404:
                raise
            self.api.insist("POST", path, lease)

    def _follow_pods(self) -> None:
        while True:
            try:
                self._watch_from(self._list())
            except (urllib3.exceptions.HTTPError, Refused, OSError, ValueError):
                self.api.wait(0.2)

    def _list(self) -> str:
        listed = self.api.insist("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}")
        pods = {pod["metadata"]["uid"]: pod for pod in listed["items"]}
        for worker in self._known():
            if worker.uid not in pods:
                worker.vanish()
        for pod in pods.values():
            self._see(pod)
        return listed["metadata"]["resourceVersion"]

    def _watch_from(self, version: str) -> None:
        """Follow the pods for 20 s, then list them anew: once an event did not come for as long as its watch lasted."""
        self._watch = self.api.watch(
            "/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}", resourceVersion=version, timeoutSeconds="20"
        )
        with contextlib.closing(self._watch) as lines:
            for line in _lines(lines):
                self.api.gate.wait()
                event = json.loads(line)
                if self.api.stopped.is_set() or event["type"] == "ERROR":
                    return
                self._see(event["object"], gone=event["type"] == "DELETED")

    def _end_watch(self) -> None:
        if self._watch is not None:
            with contextlib.suppress(Exception):
                self._watch.shutdown()

    def _see(self, pod, *, gone: bool = False) -> None:
        uid = pod["metadata"]["uid"]
        with self._lock:
            worker = self._workers.get(uid)
            if worker is None and not gone and self._is_ours(pod):
                self._workers[uid] = PodWorker(self, pod)
                self._workers[uid].start()
                return
        if worker is not None:
            worker.update(pod)
            if gone:
                worker.vanish()

    def _is_ours(self, pod) -> bool:
        """Not one that has ended, unless it waits for its removal."""
        return (
            pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]
        )

    def _known(self) -> list[PodWorker]:
        with self._lock:
            return list(self._workers.values())

    def _takes_pods(self) -> bool:
        node = self.plane.core.read_node(self.name)
        return not any(taint.key.startswith("node.kubernetes.io/") for taint in node.spec.taints or ())


def _lines(answer):
    """Whole lines of a stream that ends when it is shut down."""
    rest = b""
    while chunk := answer.read1(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _clock() -> float:
    return time.monotonic()  # noqa: TID251 - real silence
