"""Pools of nodes in a cluster, and how their devices reach a container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.json_types import JsonMapping

from .amount import MiB, MilliCpu


class Provider(StrEnum):
    """The software that divides a device into fractions."""

    RESERVATION = "reservation"  # this package: a pod holds the whole device, and each share names the device
    HAMI = "hami"
    KAI = "kai"


class Visibility(StrEnum):
    """The means by which the container of a share sees its device and no other."""

    ENV = "env"
    ENV_CDI = "env-cdi"
    VOLUME_MOUNT = "volume-mount"
    CDI_ANNOTATION = "cdi-annotation"


class Hold(StrEnum):
    """The time for which a device is held for shares."""

    DEMAND = "demand"  # from the first share until a while after the last one
    ALWAYS = "always"  # while the pool exists: no delay, and no race with foreign pods


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleUp:
    """How a cluster can add nodes to a pool."""

    #: Number of GPUs of a new node.
    gpus: int
    #: Maximum number of nodes of the pool, including the present ones.
    nodes: int
    #: CPU and memory of a new node; None = unknown, so they are not counted.
    cpu_milli: MilliCpu | None = None
    memory: MiB | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPool:
    """A pool that holds the devices of some nodes of a cluster."""

    name: str
    #: Labels of its nodes; empty: every node.
    selector: Mapping[str, str] = field(default_factory=dict)
    #: Resource name of a whole device on those nodes; a MIG profile has a name of its own.
    resource: str = "nvidia.com/gpu"
    provider: Provider = Provider.RESERVATION
    visibility: Visibility = Visibility.ENV
    hold: Hold = Hold.DEMAND
    #: Taints of those nodes that pods of this pool tolerate, written as in a pod.
    tolerations: tuple[JsonMapping, ...] = ()
    #: How the pool can grow; None = the cluster adds no nodes to it.
    scale_up: ScaleUp | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels belongs to the pool; an empty selector matches every node."""
        return all(labels.get(key) == value for key, value in self.selector.items())


def find_pool(pools: Sequence[PodPool], labels: Mapping[str, str]) -> PodPool | None:
    """Return the first of `pools` that matches the labels of a node; None if no pool does."""
    return next((pool for pool in pools if pool.matches(labels)), None)
