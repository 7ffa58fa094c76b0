"""Processors and memory that foreign pods ask for, by node, if the service may read all pods.

Tasks of jobs are left out, since the core counts them itself. Notebooks are not: the core does not know their requests.
"""

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

from jupyter_gq.backends.kubernetes.api.quantities import quantity
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.json_types import JsonMapping

#: Pods that hold something on a node.
QUERY = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """The host resources that one pod asks of its node."""

    namespace: str
    name: str
    version: int
    #: "" = on no node, or counted elsewhere.
    node: str
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)


class Others:
    """The sums of all claims by node."""

    def __init__(self) -> None:
        self._cpu: defaultdict[str, int] = defaultdict(int)
        self._memory: defaultdict[str, int] = defaultdict(int)

    def apply_change(self, before: Claims | None, after: Claims | None) -> None:
        """Replace a pod's former claims in the sums by its new ones; None: the pod did not exist, or is gone."""
        for claims, sign in ((before, -1), (after, 1)):
            if claims is not None and claims.node:
                self._cpu[claims.node] += sign * claims.cpu_milli
                self._memory[claims.node] += sign * claims.memory_mib

    def on(self, node: str) -> tuple[int, int]:
        """Return the sum of the claims on a node: thousandths of a core, and MiB."""
        return self._cpu.get(node, 0), self._memory.get(node, 0)


def claims_of(pod: JsonMapping, installation: str) -> Claims:
    """Return the host resources that a pod asks for; a task of this installation's jobs counts on no node."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    labels = meta.get("labels") or {}
    counted = (labels.get(names.INSTALLATION), labels.get(names.COMPONENT)) == (installation, names.TRAINING)
    return Claims(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        version=int(meta.get("resourceVersion") or 0),
        node="" if counted else spec.get("nodeName") or "",
        cpu_milli=int(_asked(spec, "cpu") * 1000),
        memory_mib=-(-int(_asked(spec, "memory")) // 2**20),
    )


def _asked(spec: JsonMapping, resource: str) -> Decimal:
    """Return what a pod asks for of a resource, in cores or bytes, with the overhead of the runtime.

    If the pod as a whole asks for an amount, that of its containers does not matter. See
    https://kubernetes.io/docs/concepts/resource-management/effective-pod-requests-limits/.
    """
    whole = _amount(spec, resource)
    overhead = quantity((spec.get("overhead") or {}).get(resource)) or Decimal(0)
    return (_asked_by_containers(spec, resource) if whole is None else whole) + overhead


def _asked_by_containers(spec: JsonMapping, resource: str) -> Decimal:
    """Return the most that the containers of a pod ask for at the same time.

    Init containers run one after the other, each beside the sidecars before it: init containers that are restarted
    always. The other containers run together, beside all sidecars.
    """
    sidecars = most = Decimal(0)
    for each in spec.get("initContainers") or ():
        amount = _amount(each, resource) or Decimal(0)
        most = max(most, sidecars + amount)
        if each.get("restartPolicy") == "Always":
            sidecars += amount
    together = sum((_amount(each, resource) or Decimal(0) for each in spec.get("containers") or ()), sidecars)
    return max(most, together)


def _amount(asker: JsonMapping, resource: str) -> Decimal | None:
    """Return what a container or a pod asks for by itself; None if it asks for nothing."""
    return quantity(((asker.get("resources") or {}).get("requests") or {}).get(resource))
