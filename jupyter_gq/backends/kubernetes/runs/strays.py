"""Pods of notebooks that exist without a ticket. Nobody else gets their devices, so an administrator has to be told."""

from collections.abc import Callable, Container

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.index import PodIndex
from jupyter_gq.domain.workload import RunKey

#: Seconds that a pod may exist without a ticket. After a restart the tickets are launched again first. The pod of an
#: ended server takes time to go.
_REPORTED_AFTER = 60.0


class Strays:
    """The stray pods, with the time since when each is known. A pod without devices is none: it takes nothing.

    Nor is a pod of another installation beside the same Hub: that one knows its ticket.
    """

    def __init__(self, pods: PodIndex, known: Container[RunKey], now: Callable[[], float], installation: str) -> None:
        self._pods, self._known, self._now = pods, known, now
        self._installation = installation
        self._since: dict[str, float] = {}

    def find(self) -> list[Stray]:
        """Return the pods of notebooks that hold a device and have had no known ticket for a minute.

        Pods that are being deleted are left out.
        """
        found = [
            pod
            for key in self._pods.runs()
            if key not in self._known
            for pod in self._pods.of_run(key)
            if self._may_be_stray(pod)
        ]
        now = self._now()
        self._since = {pod.uid: self._since.get(pod.uid, now) for pod in found}
        return [_describe(pod) for pod in found if now - self._since[pod.uid] >= _REPORTED_AFTER]

    def _may_be_stray(self, pod: PodView) -> bool:
        is_ours = pod.labels.get(names.INSTALLATION, self._installation) == self._installation
        return is_ours and bool(pod.slots or pod.devices) and not pod.finished and not pod.terminating


def _describe(pod: PodView) -> Stray:
    return Stray(
        workload=pod.workload, pod=f"{pod.namespace}/{pod.name}", node=pod.node, devices=len(pod.slots or pod.devices)
    )
