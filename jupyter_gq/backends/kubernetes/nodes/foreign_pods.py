"""Processors and memory that foreign pods ask for, by node, if the service may read all pods.

Tasks of jobs are left out, since the core counts them itself. Notebooks are not: the core does not know their requests.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from jupyter_gq.backends.kubernetes.api.views import quantity
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
    """Return what a pod asks for of a resource, in cores or bytes.

    The amount is that of all containers together, or of the largest init container if that is more, with the overhead
    of the runtime.
    """
    together = sum(_amounts(spec.get("containers") or (), resource), Decimal(0))
    before = max(_amounts(spec.get("initContainers") or (), resource), default=Decimal(0))
    overhead = quantity((spec.get("overhead") or {}).get(resource)) or Decimal(0)
    return max(together, before) + overhead


def _amounts(containers: Iterable[JsonMapping], resource: str) -> list[Decimal]:
    asked = [((each.get("resources") or {}).get("requests") or {}).get(resource) for each in containers]
    return [quantity(each) or Decimal(0) for each in asked]
