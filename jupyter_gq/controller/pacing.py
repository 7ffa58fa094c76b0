"""Where many could start at once, no more of them do than the backend can begin soon.

The others stay in their queues until the next decisions: there they can still be passed and withdrawn, a step stays
short, and who is told that he starts does so within seconds.
"""

from jupyter_gq.backends.protocol import PacesLaunches
from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Decision

from .aside import put_aside
from .context import Context

SOON = Explanation(
    reason=PendingReason.STARTS_SOON,
    sentence="What it needs is free: it starts as soon as those before it have been begun.",
)


class Pacing:
    """Between decisions and the backend of jobs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Some were put aside by the last decision.
        self._more_to_come = False

    def paced(self, decision: Decision) -> Decision:
        """The decision without the jobs that their backend could not begin soon.

        Those before them start in the order of admission, so that no small job passes a gang; the last one may be
        larger than what is left, or a very large one would never start.
        """
        aside: set[str] = set()
        left = self._left()
        if left is not None:
            for each in decision.instructions:
                if isinstance(each, Admit) and self._is_job(each.workload):
                    if left <= 0:
                        aside.add(each.workload)
                    left -= max(1, len(each.placement))
        self._more_to_come = bool(aside)
        return put_aside(decision, aside, SOON, self._context.records)

    def has_room_again(self) -> bool:
        """Some were put aside, and could be begun by now."""
        return self._more_to_come and bool(self._left())

    def _left(self) -> int | None:
        backend = self._context.backend_of(Kind.TRAINING)
        return backend.launches_left() if isinstance(backend, PacesLaunches) else None

    def _is_job(self, workload: str) -> bool:
        record = self._context.records.alive(workload)
        return record is not None and record.workload.kind is Kind.TRAINING
