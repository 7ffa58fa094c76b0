"""The reasons why a workload waits and why one was evicted, and the explanation that people and programs get."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: The beginning of the sentence of a workload that waits, and of one that would wait if it were queued now.
WAITING, _WOULD_WAIT = "Waiting: ", "Would wait: "


class EvictReason(StrEnum):
    """The reason why a workload was evicted."""

    IDLE = "IDLE"
    RECLAIMED = "RECLAIMED"
    PREEMPTED = "PREEMPTED"
    CONSOLIDATED = "CONSOLIDATED"
    QUOTA_LOWERED = "QUOTA_LOWERED"
    STALE_GANG = "STALE_GANG"  # the gang lost tasks and stayed below its min replicas for too long
    NODE_EMPTIED = "NODE_EMPTIED"  # the node or device is drained, or left the pool
    PAUSED_BY_USER = "PAUSED_BY_USER"  # held while it ran; it goes on after its release
    STOPPED_BY_USER = "STOPPED_BY_USER"
    RUN_TIME_LIMIT = "RUN_TIME_LIMIT"  # the job has run for as long as it, or a job of its queue, may run


class PendingReason(StrEnum):
    """The reason why a workload waits."""

    QUEUE_LIMIT = "QUEUE_LIMIT"  # the queue (or one above it) is at its limit
    NO_FREE_DEVICE = "NO_FREE_DEVICE"  # every suitable device is taken
    FRAGMENTED = "FRAGMENTED"  # enough is free in sum, but not on one device or node
    NO_CPU_OR_MEMORY = "NO_CPU_OR_MEMORY"  # the nodes that have the devices have too little CPU or memory free
    NO_DOMAIN = "NO_DOMAIN"  # enough is free, but not in one domain of the topology
    WAITS_FOR_EVICTION = "WAITS_FOR_EVICTION"  # room is kept: the workload starts when its victims have stopped
    WAITS_FOR_IDLE = "WAITS_FOR_IDLE"  # an idle notebook has been warned; its share goes to the workload
    MIN_RUNTIME = "MIN_RUNTIME"  # the possible victims have not run for their min runtime yet
    RESERVED = "RESERVED"  # the workload would fit, but on devices that are reserved for another one
    NON_PREEMPTIBLE_OVER_QUOTA = "NON_PREEMPTIBLE_OVER_QUOTA"  # work that cannot be paused must fit the quota
    NO_DEVICE = "NO_DEVICE"  # no present node, or domain, is large enough even when it is empty
    GROUP_LIMIT = "GROUP_LIMIT"  # as many jobs of its group run as may at the same time
    TASK_LIMIT = "TASK_LIMIT"  # as many tasks without any amount run on the machine as may at the same time
    HELD = "HELD"  # a person holds the workload until they, or others who may, release it
    PLACE_REFUSED = "PLACE_REFUSED"  # a backend refused the place that was decided; the workload backs off
    BACKEND_UNOBSERVED = "OUT_OF_SIGHT"  # a backend cannot be observed: nothing is decided about its workloads
    STARTS_SOON = "STARTS_SOON"  # the workload fits, and the backend begins others first
    UNKNOWN_QUEUE = "UNKNOWN_QUEUE"  # the queue is no longer in the configuration


class Grant(StrEnum):
    """The kind of change that would let a pending workload start if no other workload waited."""

    STOPS = "STOPS"  # `workloads` stop
    LIMIT = "LIMIT"  # the limit of `queue` is raised to `amount`
    QUOTA = "QUOTA"  # the quota of `queue` is raised to `amount`
    DEVICES = "DEVICES"  # another node, or a working one, has `amount` devices
    TIME = "TIME"  # `amount` seconds pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """A change that would let a pending workload start; only the fields of its kind are set."""

    grant: Grant
    #: Ids of workloads.
    workloads: tuple[str, ...] = ()
    queue: str | None = None
    #: In milli-GPU (thousandths of a core, MiB), devices or seconds, by the kind of the change.
    amount: int = 0
    #: Resource of the limit or quota: "gpu", "cpu" or "memory".
    resource: str = "gpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a workload waits: the reason, the numbers, the workloads in the way, and what would help."""

    reason: PendingReason
    #: The explanation for people.
    sentence: str
    #: Named numbers in milli-GPU or counts, for programs and tests.
    numbers: Mapping[str, int] = field(default_factory=dict)
    #: Ids of the workloads in the way.
    blockers: tuple[str, ...] = ()
    #: What would let the workload start; None if nothing that can be named would.
    remedy: Remedy | None = None


def word_as_forecast(sentence: str) -> str:
    """Return the sentence of a workload that waits, worded for one that has not been queued yet."""
    return f"{_WOULD_WAIT}{sentence.removeprefix(WAITING)}"


def word_as_waiting(forecast: str) -> str:
    """Return what `word_as_forecast` returned, worded for a workload that waits; other forecasts as they are."""
    return f"{WAITING}{forecast.removeprefix(_WOULD_WAIT)}" if forecast.startswith(_WOULD_WAIT) else forecast
