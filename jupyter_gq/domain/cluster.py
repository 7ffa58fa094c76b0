"""Nodes and their devices."""

from dataclasses import dataclass

from .amount import MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One GPU (or MIG slice) of a node."""

    #: The UUID that the driver knows, such as "GPU-5c1e…"; simulated ones start with "GPU-sim-".
    id: str
    #: Position on its node, as nvidia-smi counts.
    index: int
    #: Product name, such as "A100-40GB".
    model: str
    #: Total memory.
    memory: MiB
    #: The pool it belongs to.
    pool: str
    #: False while it must not take new work (lost, drained); running work stays on the books.
    healthy: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine."""

    name: str
    devices: tuple[Device, ...] = ()
