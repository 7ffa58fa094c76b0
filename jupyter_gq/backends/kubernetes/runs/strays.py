"""Pods of notebooks that stand without a ticket: nobody else gets their devices, so somebody has to hear of it."""

from collections.abc import Callable, Container

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.pods.index import PodIndex, RunKey

#: Seconds that one may stand: after a restart its ticket is told to us first, and an ended server takes time to go.
_MAY_STAND = 60.0


class Strays:
    """Remembers since when each stands; one without devices takes nothing from anybody."""

    def __init__(self, pods: PodIndex, known: Container[RunKey], now: Callable[[], float]) -> None:
        self._pods, self._known, self._now = pods, known, now
        self._since: dict[str, float] = {}

    def look(self) -> list[Stray]:
        """Those that have stood for too long; a pod that is ending is not one of them."""
        found = [
            pod
            for key in self._pods.runs()
            if key not in self._known
            for pod in self._pods.of_run(key)
            if (pod.slots or pod.devices) and not pod.finished and not pod.terminating
        ]
        now = self._now()
        self._since = {pod.uid: self._since.get(pod.uid, now) for pod in found}
        return [_stray(pod) for pod in found if now - self._since[pod.uid] >= _MAY_STAND]


def _stray(pod: PodView) -> Stray:
    return Stray(
        workload=pod.workload, pod=f"{pod.namespace}/{pod.name}", node=pod.node, devices=len(pod.slots or pod.devices)
    )
