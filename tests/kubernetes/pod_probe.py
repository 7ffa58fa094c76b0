"""The readiness probe of a pod's process, as a kubelet makes it: GET, again and again, until the process has ended."""

import threading

import urllib3

from tests.kubernetes.node_api import Stopped


class ReadinessProbe(threading.Thread):
    """Keeps `container.ready` true to what the process answers; `changed()` is called in this thread."""

    def __init__(self, kubelet, spec, container, changed) -> None:
        super().__init__(name=f"probe of {container.pod}", daemon=True)
        self._kubelet, self._container, self._changed = kubelet, container, changed
        self._process, self._probe = container.process, spec["readinessProbe"]
        asked = self._probe["httpGet"]
        named = {port["name"]: port["containerPort"] for port in spec.get("ports", ()) if "name" in port}
        self._url = f"http://{container.address}:{named.get(asked['port'], asked['port'])}{asked['path']}"
        self._pool = urllib3.PoolManager(retries=False, timeout=float(self._probe.get("timeoutSeconds", 1)))

    def run(self) -> None:
        failures = 0
        try:
            while self._process.poll() is None:
                answers = self._answers()
                failures = 0 if answers else failures + 1
                wanted = answers or (self._container.ready and failures < self._probe.get("failureThreshold", 3))
                if self._process.poll() is None and wanted != self._container.ready:
                    self._container.ready = wanted
                    self._changed()
                self._kubelet.api.wait(self._probe.get("periodSeconds", 10))
        except Stopped:
            return

    def _answers(self) -> bool:
        try:
            return 200 <= self._pool.request("GET", self._url).status < 400
        except urllib3.exceptions.HTTPError:
            return False
