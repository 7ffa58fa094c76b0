"""The output of a cycle: instructions for the controller, and an explanation for each pending workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.amount import NO_GPU, Instant, MilliGpu
from jupyter_gq.domain.reasons import EvictReason, Explanation
from jupyter_gq.domain.workload import TaskPlacement


@dataclass(frozen=True, kw_only=True, slots=True)
class Admit:
    """Reserve quota and these devices for a workload, and start it."""

    workload: str
    placement: tuple[TaskPlacement, ...]
    #: The amount of the workload that is above the quota of its queue, and so can be reclaimed.
    over_quota: MilliGpu = NO_GPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Take the devices of a workload back. Training work goes back to its queue; a notebook ends."""

    workload: str
    reason: EvictReason
    #: Id of the workload for which this is done; None if it is done for no workload in particular.
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
    """Take tasks from the run of an elastic workload, which goes on with the rest."""

    workload: str
    #: The placements of the workload that it gives up.
    placement: tuple[TaskPlacement, ...]
    reason: EvictReason
    #: Id of the workload for which this is done; None if it is done for no workload in particular.
    by: str | None
    #: One sentence for the owner, with numbers.
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """Record the place that is kept for a workload in later cycles; an empty place ends the record."""

    workload: str
    placement: tuple[TaskPlacement, ...]
    #: Other work was told to stop for the place (see `Workload.nominated`).
    nominated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """Move the GPU state of a suspendable workload to host memory, and lend its devices."""

    workload: str
    by: str | None
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """Give a suspended workload its devices back."""

    workload: str
    placement: tuple[TaskPlacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Warn:
    """Tell the owner of an idle notebook that its share will be taken at `expire_at`."""

    workload: str
    expire_at: Instant
    by: str | None
    sentence: str
    #: Whether the sentence says that the share is lent and nothing is lost.
    lends: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwarn:
    """Take a warning back, since the share is used again or no workload needs it any more."""

    workload: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """A workload that stays pending: its position among the pending work of its queue, from 1, and the reason."""

    workload: str
    position: int
    why: Explanation


class KeptOut(StrEnum):
    """The reasons for which the devices of a suspended notebook are not being freed for the cell that waits there."""

    UNOBSERVED = "UNOBSERVED"  # the backend of the notebook or of its borrowers cannot be observed
    MISSING = "MISSING"  # a device of the notebook is on no node of the cluster
    UNUSABLE = "UNUSABLE"  # a device of the notebook does not work, which is also told as trouble of the notebook
    WORK = "WORK"  # work that cannot give way uses its devices
    OLDER = "OLDER"  # older notebooks get their parts of the same devices first, and leave too little
    OTHER = "OTHER"  # something else is to come to its devices, such as a share whose state is being restored


@dataclass(frozen=True, kw_only=True, slots=True)
class Returning:
    """A suspended notebook in which a cell waits for the devices, and what it waits for."""

    workload: str
    #: Why its devices are not being freed for it; None = they are.
    kept_out: KeptOut | None = None
    #: Number of suspended notebooks that get some of the same devices back before it, since they are older.
    ahead: int = 0
    #: Ids of the work that was told to leave its devices, by name.
    leaving: tuple[str, ...] = ()
    #: Number of workloads on its devices that cannot give way.
    blockers: int = 0

    @property
    def is_coming(self) -> bool:
        """Whether its devices are being freed for it."""
        return self.kept_out is None


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
    """The decision of a cycle: instructions for now, and why the rest waits.

    Every workload that stays PENDING has exactly one `Pending`.
    """

    instructions: tuple[Instruction, ...]
    #: Empty if no explanation was asked for.
    pending: Sequence[Pending]
    #: Suspended notebooks in which a cell waits and that are not resumed yet, in the order in which they are served.
    returning: tuple[Returning, ...] = ()
    #: Admissions that exceed the launch capacity, in the order in which to carry them out. Their workloads are pending.
    deferred: tuple[Admit, ...] = ()
    #: New nodes that the pending workloads need; none if no explanation was asked for.
    wanted_nodes: WantedNodes = field(default_factory=WantedNodes)
