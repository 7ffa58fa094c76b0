"""Pools of nodes, and how their devices reach a container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.json_types import JsonMapping

from .amount import MiB, MilliCpu


class Provider(StrEnum):
    """Who hands out fractions of a device."""

    RESERVATION = "reservation"  # ours: a pod holds the whole device, and each share names it
    HAMI = "hami"
    KAI = "kai"


class Visibility(StrEnum):
    """How the container of a share sees its device and no other."""

    ENV = "env"
    ENV_CDI = "env-cdi"
    VOLUME_MOUNT = "volume-mount"
    CDI_ANNOTATION = "cdi-annotation"


class Hold(StrEnum):
    """When a device is held for shares."""

    DEMAND = "demand"  # from the first share until a while after the last
    ALWAYS = "always"  # for as long as the pool is there: no delay, and no race with foreign pods


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleUp:
    """The cluster adds nodes to a pool when something needs them."""

    #: What a new node has.
    gpus: int
    #: The most nodes that the pool may have, with those that are there.
    nodes: int
    #: None = not known, so it is not reckoned with.
    cpu_milli: MilliCpu | None = None
    memory: MiB | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPool:
    """A pool whose devices are those of some nodes."""

    name: str
    #: Labels of its nodes; empty: every node.
    selector: Mapping[str, str] = field(default_factory=dict)
    #: What a whole device is called on those nodes; a MIG profile has a name of its own.
    resource: str = "nvidia.com/gpu"
    provider: Provider = Provider.RESERVATION
    visibility: Visibility = Visibility.ENV
    hold: Hold = Hold.DEMAND
    #: As in a pod: taints of those nodes that do not keep us away.
    tolerations: tuple[JsonMapping, ...] = ()
    #: None: it has the nodes that it has.
    scale_up: ScaleUp | None = None

    def takes(self, labels: Mapping[str, str]) -> bool:
        """A node with these labels is one of it."""
        return all(labels.get(key) == value for key, value in self.selector.items())


def pool_of(pools: Sequence[PodPool], labels: Mapping[str, str]) -> PodPool | None:
    """The pool of a node with these labels: the first that takes it; None when none does."""
    return next((pool for pool in pools if pool.takes(labels)), None)
