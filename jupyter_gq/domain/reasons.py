"""Why something waits, and why something was taken back: constants, each with one sentence and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EvictReason(StrEnum):
    """Why devices were taken back."""

    IDLE = "IDLE"
    RECLAIMED = "RECLAIMED"
    PREEMPTED = "PREEMPTED"
    CONSOLIDATED = "CONSOLIDATED"
    QUOTA_LOWERED = "QUOTA_LOWERED"
    STALE_GANG = "STALE_GANG"  # it lost tasks and stayed below its smallest gang for too long
    NODE_EMPTIED = "NODE_EMPTIED"  # its node is being emptied, and whatever stays there will be ended
    STOPPED_BY_USER = "STOPPED_BY_USER"


class PendingReason(StrEnum):
    """Why a workload waits."""

    QUEUE_LIMIT = "QUEUE_LIMIT"  # the queue (or one above it) is at its limit
    NO_FREE_DEVICE = "NO_FREE_DEVICE"  # entitled or not, every suitable device is taken
    FRAGMENTED = "FRAGMENTED"  # enough is free in sum, but not on one device or node
    NO_CPU_OR_MEMORY = "NO_CPU_OR_MEMORY"  # the nodes that have the devices have too little CPU or memory free
    NO_DOMAIN = "NO_DOMAIN"  # enough is free, but not in one domain of the topology
    WAITS_FOR_EVICTION = "WAITS_FOR_EVICTION"  # somebody was told to give way; it starts when he has
    WAITS_FOR_IDLE = "WAITS_FOR_IDLE"  # an idle notebook has been warned; its share comes next
    MIN_RUNTIME = "MIN_RUNTIME"  # who could give way has not run long enough yet
    RESERVED = "RESERVED"  # it would fit, on devices that are held for one who has waited long
    NON_PREEMPTIBLE_OVER_QUOTA = "NON_PREEMPTIBLE_OVER_QUOTA"
    NO_DEVICE = "NO_DEVICE"  # no node, or no domain, is big enough any more
    PLACE_REFUSED = "PLACE_REFUSED"  # it was given a place that was not to be had; it is planned again after a pause
    OUT_OF_SIGHT = "OUT_OF_SIGHT"  # what runs cannot be seen at present, so nothing is started
    STARTS_SOON = "STARTS_SOON"  # it fits, and more is being started just now than can be begun at once
    UNKNOWN_QUEUE = "UNKNOWN_QUEUE"  # its queue is no longer in the configuration
    STARTS_NOW = "STARTS_NOW"  # only in previews


class Grant(StrEnum):
    """What would let a waiting workload start, were it alone in the line."""

    STOPS = "STOPS"  # these workloads stop
    LIMIT = "LIMIT"  # the limit of this queue is raised to that
    QUOTA = "QUOTA"  # the quota of this queue is raised to that
    DEVICES = "DEVICES"  # there is another node, or a working one, with so many devices
    TIME = "TIME"  # so many seconds pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """What would help; only the fields of its kind are set."""

    grant: Grant
    #: Ids of workloads.
    workloads: tuple[str, ...] = ()
    queue: str | None = None
    #: In milli-GPU (thousandths of a core, MiB), devices or seconds.
    amount: int = 0
    #: What the limit or quota is about: "gpu", "cpu" or "memory".
    resource: str = "gpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """A reason, its numbers, who is in the way and what would help; `sentence` is what a person reads."""

    reason: PendingReason
    sentence: str
    #: Named numbers in milli-GPU or counts, for programs and tests.
    numbers: Mapping[str, int] = field(default_factory=dict)
    #: Ids of the workloads in the way.
    blockers: tuple[str, ...] = ()
    #: What would let it start; None where nothing that can be named would.
    remedy: Remedy | None = None
