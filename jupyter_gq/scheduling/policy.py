"""The policy of a cycle: frozen settings, made from the traits at the edge."""

from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.amount import Seconds

HALF_AN_HOUR = Seconds(1800)
TEN_MINUTES = Seconds(600)
AN_HOUR = Seconds(3600)
A_MOMENT = Seconds(90)
A_MINUTE = Seconds(60)
NO_TIME = Seconds(0)


class PlacementStrategy(StrEnum):
    """The way to choose among devices that fit."""

    PACK = "pack"
    SPREAD = "spread"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleRule:
    """The times after which an idle notebook is warned and loses its share."""

    #: Idle time before the share is taken.
    after: Seconds = HALF_AN_HOUR
    #: Length of the countdown in the notebook, inside `after`.
    warning: Seconds = TEN_MINUTES
    #: Time after the start in which a notebook never counts as idle.
    grace: Seconds = TEN_MINUTES
    #: The greatest age of a sample that counts.
    fresh: Seconds = A_MOMENT
    #: True: the share is always taken. False: only if somebody waits for it.
    always: bool = False
    #: Whether a share that cannot be suspended is taken by a stop of its server. False: its owner keeps it.
    stop: bool = True
    #: The most that all uses of "Keep it" together may add.
    keep_total: Seconds = AN_HOUR
    #: Time that one "Keep it" adds.
    keep_step: Seconds = HALF_AN_HOUR


class MinRuntimeMethod(StrEnum):
    """The queue whose min runtime protects a victim from another queue (see `min_runtime`, the rule of reclaim)."""

    QUEUE = "queue"
    LCA = "lca"


@dataclass(frozen=True, kw_only=True, slots=True)
class MinRuntimeRule:
    """The min runtimes that hold where no queue on the path names any."""

    method: MinRuntimeMethod = MinRuntimeMethod.LCA
    #: Protected time before a higher priority of the same queue.
    preempt: Seconds = NO_TIME
    #: Protected time before another queue.
    reclaim: Seconds = NO_TIME


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRule:
    """The effect of past usage on the parts of the surplus (see `quota.past_usage`)."""

    #: Time after which half of the usage is forgotten. None: past usage does not count.
    half_life: Seconds | None = None
    #: How much past usage counts beside the weights of the queues; 0 = not at all.
    weight: float = 1.0
    #: Time that a first start counts for at once.
    entry_cost: Seconds = NO_TIME


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The adjustable settings of a cycle."""

    #: Placement of whole devices and of tasks without devices.
    placement: PlacementStrategy = PlacementStrategy.PACK
    #: Placement of fractions of devices; None = as of whole devices.
    fraction_placement: PlacementStrategy | None = PlacementStrategy.FRAGMENTATION
    idle: IdleRule = field(default_factory=IdleRule)
    min_runtime: MinRuntimeRule = field(default_factory=MinRuntimeRule)
    usage: UsageRule = field(default_factory=UsageRule)
    #: Inside a queue, among equal priorities, the user who uses less goes first; otherwise the older submission.
    per_user: bool = False
    #: A department above its fair share reclaims only from one that stays this many times as far above its own.
    reclaim_margin: float = 1.0
    #: Wait after which a workload gets a reservation: devices are held for it as they free. None = never.
    reserve_after: Seconds | None = HALF_AN_HOUR
    #: The most reservations at a time in each pool.
    reservations: int = 1
    #: Running training may be moved, so that a pending workload fits into scattered free devices.
    consolidate: bool = True
    #: Time below its smallest size after which a gang goes back to its queue.
    stale_after: Seconds = A_MINUTE
    #: Time since its start before which a run is not moved.
    moved_after: Seconds = TEN_MINUTES

    def __post_init__(self) -> None:
        """Raise `ValueError` if a number is too small."""
        if self.reservations < 0:
            raise ValueError(f"reservations is {self.reservations}; expected 0 or more.")
        if self.reclaim_margin < 1:
            raise ValueError(f"reclaim_margin is {self.reclaim_margin}; expected 1 or more.")
