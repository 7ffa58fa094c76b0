"""The life of one pod on its node, from admission to the last report, as a kubelet leads it.

Rules
-----
1. What the API server knows of the pod arrives in one patch: phase, address, container. While the server is away the
   patch is repeated; the process runs on.
2. A pod runs as long as one of its containers does; native sidecars are told to end when all others have ended. Only
   the main container is restarted.
3. A pod that is deleted waits for its `preStop.sleep`, gets SIGTERM, then SIGKILL after its grace, counted from the
   deletion. It is probed until its process has ended. Only when no process of it is left is it reported as ended, and
   then removed from the API.
4. A worker whose kubelet is killed stops where it is; the next kubelet's worker finds the process by the pod's uid.
"""

import math
import queue
import signal
import threading
import time

from tests.kubernetes.device_plugin import TooFew
from tests.kubernetes.node_api import Refused, Stopped
from tests.kubernetes.pod_environment import pod_address
from tests.kubernetes.pod_probe import ReadinessProbe
from tests.kubernetes.pod_runtime import Container
from tests.kubernetes.pod_start import is_native, main_of, prepare, sidecars_of
from tests.kubernetes.pod_status import pod_status, state_of, terminated

#: Seconds between restarts of a process that fails again; the first one is at once.
_BACK_OFF = 1.0
#: Seconds until a node has an image whose name begins with "slow/".
_SLOW_PULL = 8.0


class PodWorker(threading.Thread):
    """Leads one pod's life; `pod` is the newest object that was seen."""

    def __init__(self, kubelet, pod) -> None:
        super().__init__(name=f"pod {pod['metadata']['name']}", daemon=True)
        self.kubelet, self.pod = kubelet, pod
        self.uid = pod["metadata"]["uid"]
        self.container: Container | None = None
        self._news: queue.Queue = queue.Queue()
        self._gone = False
        self._last: dict | None = None

    # --- what the kubelet tells ----------------------------------------------------------------------------------

    def update(self, pod) -> None:
        """A newer object of the same pod."""
        self.pod = pod
        if self._deleted:
            self._news.put("deleted")

    def vanish(self) -> None:
        """The API server has no such pod any more: its processes end at once, and nothing is reported."""
        self._gone = True
        self._news.put("deleted")

    def report_again(self) -> None:
        """The API server may have other ideas of this pod, since the node was silent."""
        self._news.put("report")

    def nudge(self) -> None:
        """Wake up: the process has ended, or the kubelet is killed."""
        self._news.put("look")

    @property
    def _deleted(self) -> bool:
        return self._gone or "deletionTimestamp" in self.pod["metadata"]

    # --- the life ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._live()
        except Stopped:
            return
        except Exception:  # noqa: BLE001 - the last guard of a thread
            self.kubelet.fail(self.name)
        self.kubelet.forget(self)

    def _live(self) -> None:
        if not self._adopt() and not self._begin():
            self._remove()
            return
        while True:
            self._until_ended_or_deleted()
            if self._deleted:
                self._terminate()
                break
            self.container.sweep()
            if not self._restarts():
                self._wait_for_sidecars()
                break
            self._start_again()
        self._finish()

    def _adopt(self) -> bool:
        """Take over the process that another kubelet of this node has started."""
        known = self.kubelet.runtime.containers.get(self.uid)
        if known is None or known.process is None:
            return False
        self.container = known
        for container in known.everything:
            if container.process is not None:
                container.listen(self.nudge)
        if known.code is None:
            self._probe()
        self._report(self._present())
        return True

    def _begin(self) -> bool:
        """Make everything and start the process; False when the pod was refused, or deleted before."""
        if self._deleted:
            return False
        try:
            self._admit()
        except TooFew as error:
            self.container.over = True
            self._report({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(error)})
            self._until_deleted()
            return False
        if not self._has_image() or not self._prepared():
            return False
        self._start()
        return True

    def _has_image(self) -> bool:
        image = self._main["image"]
        if image.startswith("slow/") and not self._pulled(image):
            return False
        if not image.startswith("missing/"):
            return True
        problem = f'Back-off pulling image "{image}": ErrImagePull: failed to resolve image: {image}: not found'
        self._report_waiting("ImagePullBackOff", problem)
        self._until_deleted()
        return False

    def _pulled(self, image: str) -> bool:
        """It takes its time, once on each node; False when the pod is deleted before."""
        ready = self.kubelet.pulled.setdefault(image, _clock() + _SLOW_PULL)
        if (left := ready - _clock()) > 0:
            self._report_waiting("ContainerCreating", f'Pulling image "{image}"')
            self._wait_for_deletion(left)
        return not self._deleted

    def _prepared(self) -> bool:
        """Everything is there, sooner or later; False when the pod is deleted before."""
        while not self._deleted:
            try:
                for container in self.container.everything:
                    prepare(self.kubelet, self.pod, container)
            except Refused as refused:
                self._report_waiting("ContainerCreating", str(refused))
                self._wait_for_deletion(0.5)
            else:
                break
        return not self._deleted

    def _admit(self) -> None:
        meta, main = self.pod["metadata"], self._main
        folder = self.kubelet.folder / "pods" / self.uid
        folder.mkdir(parents=True, exist_ok=True)
        address = pod_address(meta["namespace"], self.pod["spec"].get("hostname") or meta["name"])
        if self.pod["spec"].get("hostNetwork"):
            address = "127.0.0.1"
        self.container = self._new_container(main, folder, folder, address)
        for spec in sidecars_of(self.pod):
            beside = self._new_container(spec, folder / "beside" / spec["name"], folder, address)
            beside.folder.mkdir(parents=True, exist_ok=True)
            beside.native = is_native(spec)
            self.container.beside.append(beside)
        runtime, devices = self.kubelet.runtime, self.kubelet.devices
        runtime.containers[self.uid] = self.container
        wanted = sum(_asked(container, devices.resource) for container in self.pod["spec"]["containers"])
        devices.allocate(self.container, wanted, runtime)

    def _new_container(self, spec, folder, pod_folder, address: str) -> Container:
        meta = self.pod["metadata"]
        return Container(
            uid=self.uid,
            namespace=meta["namespace"],
            pod=meta["name"],
            name=spec["name"],
            image=spec["image"],
            folder=folder,
            pod_folder=pod_folder,
            address=address,
        )

    def _launched(self) -> list[Container]:
        """The containers that have a process, or had one."""
        return [each for each in self.container.everything if each.process is not None]

    def _wait_for_sidecars(self) -> None:
        """Wait until all other containers have ended, then end the native sidecars, or all if the pod is deleted."""
        beside = [each for each in self.container.beside if not each.native]
        while any(each.code is None for each in beside) and not self._deleted:
            self._report(self._present())
            self._hear()
        if any(each.code is None for each in self.container.beside):
            self._report(self._present())
            self._terminate()

    def _until_ended_or_deleted(self) -> None:
        ended = len(self._done())
        while self.container.code is None and not self._deleted:
            self._hear()
            if len(self._done()) != ended and self.container.code is None and not self._deleted:
                ended = len(self._done())
                self._report(self._present())

    def _done(self) -> list[Container]:
        return [each for each in self.container.everything if each.code is not None]

    def _until_deleted(self) -> None:
        while not self._deleted:
            self._hear()

    def _wait_for_deletion(self, seconds: float) -> bool:
        deadline = _clock() + seconds
        while not self._deleted and (left := deadline - _clock()) > 0:
            self._hear(left)
        return self._deleted

    def _hear(self, patience: float | None = None) -> None:
        """Wait for news; raises `Stopped`."""
        try:
            news = self._news.get(timeout=patience)
        except queue.Empty:
            return
        if self.kubelet.api.stopped.is_set():
            raise Stopped
        if news == "probe" and self.container.code is None and not self._gone:
            self._report(self._present())
        elif news == "report" and self._last is not None:
            self._report(self._last)

    def _restarts(self) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and self.container.code != 0)

    def _start_again(self) -> None:
        if self.container.restarts:
            self._report_waiting("CrashLoopBackOff", f"back-off {_BACK_OFF:g}s restarting failed container")
            if self._wait_for_deletion(_BACK_OFF):
                return
        self.container.restarts += 1
        self._start()

    def _start(self) -> None:
        self.container.ready = "readinessProbe" not in self._main
        for container in reversed(self.container.everything):
            is_new = container.process is None and not container.image.startswith("missing/")
            if is_new or container is self.container:
                container.start(self.nudge)
        self._probe()
        self._report(self._present())

    def _probe(self) -> None:
        if "readinessProbe" in self._main:
            ReadinessProbe(self.kubelet, self._main, self.container, lambda: self._news.put("probe")).start()

    def _terminate(self) -> None:
        """preStop, SIGTERM, grace, SIGKILL; the grace may be cut while it runs."""
        began = _clock()
        self._until([self.container], lambda: began + min(self._pre_stop, self._grace))
        # Native sidecars are there until the others have ended.
        for native in (False, True):
            group = [each for each in self._launched() if each.native is native]
            if not self._gone:
                for container in group:
                    container.signal(signal.SIGTERM)
            self._until(group, lambda: began + self._grace)
            for container in group:
                container.signal(signal.SIGKILL)
                container.process.wait()
                container.sweep()

    def _until(self, containers, deadline) -> None:
        """Their processes have ended, or `deadline()`, which may change, is over."""
        while any(each.code is None for each in containers) and (left := deadline() - _clock()) > 0:
            self._hear(left)

    @property
    def _pre_stop(self) -> float:
        return self._main.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)

    @property
    def _grace(self) -> float:
        if self._gone or self._deleted:
            return 0 if self._gone else self.pod["metadata"].get("deletionGracePeriodSeconds") or 0
        return self.pod["spec"].get("terminationGracePeriodSeconds", 30)

    def _finish(self) -> None:
        self.container.over = True
        if not self._gone:
            self._report(self._over())
            if not self._deleted:
                self._until_deleted()
        self._remove()

    def _remove(self) -> None:
        """The last word: the API server forgets the pod."""
        if self.container:
            self.container.over = True
        if self._gone:
            return
        meta = self.pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        try:
            self.kubelet.api.insist("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", body)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise

    # --- reports -------------------------------------------------------------------------------------------------

    @property
    def _main(self):
        return main_of(self.pod)

    def _report(self, status) -> None:
        self._last = status
        meta = self.pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        try:
            self.kubelet.api.insist("PATCH", path, {"metadata": {"uid": self.uid}, "status": status})
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            self._gone = True

    def _present(self):
        """The status of a pod in which something runs."""
        policy = self._main.get("terminationMessagePolicy", "File")
        # A container that has never been started keeps the pod pending.
        phase = "Running" if all(each.process is not None for each in self.container.everything) else "Pending"
        return pod_status(self.pod, self.container, phase, state_of(self.container, policy))

    def _report_waiting(self, reason: str, message: str) -> None:
        phase = "Running" if self.container.restarts else "Pending"
        self._report(pod_status(self.pod, self.container, phase, {"waiting": {"reason": reason, "message": message}}))

    def _over(self):
        policy = self._main.get("terminationMessagePolicy", "File")
        failed = any(each.code for each in self.container.everything if not each.native)
        phase = "Failed" if failed else "Succeeded"
        return pod_status(self.pod, self.container, phase, terminated(self.container, policy))


def _asked(container, resource: str) -> int:
    return math.ceil(float(container.get("resources", {}).get("limits", {}).get(resource, 0)))


def _clock() -> float:
    return time.monotonic()  # noqa: TID251 - the grace of real processes
