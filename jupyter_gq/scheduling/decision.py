"""The core's output: instructions for the controller, and an explanation for whoever still waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import NO_GPU, Instant, MilliGpu
from jupyter_gq.domain.reasons import EvictReason, Explanation
from jupyter_gq.domain.workload import TaskPlacement


@dataclass(frozen=True, kw_only=True, slots=True)
class Admit:
    """Reserve quota and these devices for it, and start it."""

    workload: str
    placement: tuple[TaskPlacement, ...]
    #: Part of it that is above the queue's quota, and so can be reclaimed.
    over_quota: MilliGpu = NO_GPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Take its devices back. Training goes back to its queue; a notebook ends."""

    workload: str
    reason: EvictReason
    #: Id of the workload for which it is done; None when it is done for nobody in particular.
    by: str | None
    #: One sentence for the owner, with numbers.
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Grow:
    """Add these tasks to the run of an elastic workload."""

    workload: str
    placement: tuple[TaskPlacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shrink:
    """Take tasks from the run of an elastic workload; it goes on with the others."""

    workload: str
    #: The placements that it gives up, of those it has.
    placement: tuple[TaskPlacement, ...]
    reason: EvictReason
    #: Id of the workload for which it is done; None when it is done for nobody in particular.
    by: str | None
    #: One sentence for the owner, with numbers.
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """Remember where room is kept for it from now on; empty: nowhere any more."""

    workload: str
    placement: tuple[TaskPlacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """Move its GPU state to host memory; its bytes are lent. Only for suspendable workloads."""

    workload: str
    by: str | None
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """Give a suspended workload its bytes back."""

    workload: str
    placement: tuple[TaskPlacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Warn:
    """Tell the owner of an idle notebook that its share will be taken at `expire_at`."""

    workload: str
    expire_at: Instant
    by: str | None
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwarn:
    """Nobody needs the share any more, or it is used again: take the warning back."""

    workload: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """Still waits: its place among those who wait in its queue (from 1) and why."""

    workload: str
    position: int
    why: Explanation


Instruction = Admit | Grow | Shrink | Evict | Reserve | Suspend | Resume | Warn | Unwarn


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedNodes:
    """New nodes that would serve pending workloads."""

    #: Number of nodes by pool; a pool that is not named needs none.
    count: Mapping[str, int] = field(default_factory=dict)
    #: The pool whose new nodes would serve a workload, by id of the workload.
    served: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to do now, and why the others wait. Every workload that stays PENDING has exactly one `Pending`."""

    instructions: tuple[Instruction, ...]
    #: Empty if no explanation was asked for.
    pending: Sequence[Pending]
    #: Admissions that exceed the launch capacity, in the order in which to carry them out. Their workloads are pending.
    deferred: tuple[Admit, ...] = ()
    #: New nodes that the pending workloads need; none if no explanation was asked for.
    wanted_nodes: WantedNodes = field(default_factory=WantedNodes)
