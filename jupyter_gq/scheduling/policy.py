"""The settings of a cycle: frozen values, made from the traits at the edge."""

from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.amount import Seconds

HALF_AN_HOUR = Seconds(1800)
TEN_MINUTES = Seconds(600)
AN_HOUR = Seconds(3600)
A_MOMENT = Seconds(90)
A_MINUTE = Seconds(60)
NO_TIME = Seconds(0)


class Placement(StrEnum):
    """How to choose among devices that fit."""

    PACK = "pack"
    SPREAD = "spread"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleRule:
    """When an idle notebook loses its share."""

    #: Idle for so long before the share is taken.
    after: Seconds = HALF_AN_HOUR
    #: Length of the countdown in the notebook, inside `after`.
    warning: Seconds = TEN_MINUTES
    #: No verdict so soon after the start.
    grace: Seconds = TEN_MINUTES
    #: A sample older than this is no sample.
    fresh: Seconds = A_MOMENT
    #: False: only when somebody waits for it. True: always.
    always: bool = False
    #: "Keep it" up to so long in all.
    keep_total: Seconds = AN_HOUR
    #: What one "Keep it" gives.
    keep_step: Seconds = HALF_AN_HOUR


class MinRuntimeMethod(StrEnum):
    """Whose word counts on how long a victim of another queue may run (see `min_runtime`, rule 2)."""

    QUEUE = "queue"
    LCA = "lca"


@dataclass(frozen=True, kw_only=True, slots=True)
class MinRuntimeRule:
    """How long what has started may run before it has to give way, where no queue on its path says otherwise."""

    method: MinRuntimeMethod = MinRuntimeMethod.LCA
    #: To a higher priority in its own queue.
    preempt: Seconds = NO_TIME
    #: To another queue.
    reclaim: Seconds = NO_TIME


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRule:
    """How past use bends the parts of the surplus (see `usage`)."""

    #: After so long half of what a queue has used is forgotten. None: past use does not count.
    half_life: Seconds | None = None
    #: How much it counts beside the weights of the queues; 0 = not at all.
    weight: float = 1.0
    #: What starts for the first time counts at once as if it had run so long.
    entry_cost: Seconds = NO_TIME


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Everything adjustable in a cycle."""

    #: Of whole devices, and of tasks without any.
    placement: Placement = Placement.PACK
    #: Of fractions of devices; None: the same.
    fraction_placement: Placement | None = Placement.FRAGMENTATION
    idle: IdleRule = field(default_factory=IdleRule)
    min_runtime: MinRuntimeRule = field(default_factory=MinRuntimeRule)
    usage: UsageRule = field(default_factory=UsageRule)
    #: Inside a queue, among equal priority, the user goes first who has less of it; otherwise the older submission.
    per_user: bool = False
    #: A department above its fair share takes from one that then still is so many times as far above its own.
    reclaim_margin: float = 1.0
    #: Who waits for longer gets a reservation: devices are held for him as they free. None = nobody does.
    reserve_after: Seconds | None = HALF_AN_HOUR
    #: So many of them at a time in each pool.
    reservations: int = 1
    #: Running training may be moved, so that one who waits fits into the room that was scattered.
    consolidate: bool = True
    #: A gang that has lost tasks goes back to its queue when it has been below its smallest size for so long.
    stale_after: Seconds = A_MINUTE
    #: What has not run so long since its start is not moved.
    moved_after: Seconds = TEN_MINUTES
