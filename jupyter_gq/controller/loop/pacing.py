"""Where many could start at once, no more of them do than the backend can begin soon.

The others stay in their queues, and follow in portions until the next step decides anew. So they can still be passed
and withdrawn, a step stays short, and who is told that he starts does so within seconds.
"""

from collections.abc import Sequence

from jupyter_gq.backends.capabilities import Pace
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Decision

from .deferred import put_aside

SOON = Explanation(
    reason=PendingReason.STARTS_SOON,
    sentence="What it needs is free: it starts as soon as those before it have been begun.",
)


class Pacing:
    """Between decisions and the backend of jobs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: What the last decision would start and its backend could not begin yet, in the order of admission.
        self._aside: list[Admit] = []

    def paced(self, decision: Decision) -> Decision:
        """The decision without the jobs that their backend could not begin soon. They are kept for `portion`."""
        jobs = [each for each in decision.instructions if isinstance(each, Admit) and self._waits(each)]
        now = _next(jobs, self._pace())
        self._aside = jobs[len(now) :]
        return put_aside(decision, {each.workload for each in self._aside}, SOON, self._context.records)

    def forget(self) -> None:
        """Something else is decided next."""
        self._aside = []

    def portion(self) -> tuple[Admit, ...]:
        """Those of them who can be begun by now, if it is a good part, and who still wait."""
        pace = self._pace() if self._aside else None
        if pace is None or not pace.is_easy:
            return ()
        now = _next(self._aside, pace)
        self._aside = self._aside[len(now) :]
        return tuple(each for each in now if self._waits(each))

    def _pace(self) -> Pace | None:
        return self._context.backend_of(Kind.TRAINING).capabilities.pace()

    def _waits(self, admit: Admit) -> bool:
        """It is a job that waits, as it did when that was decided."""
        record = self._context.records.alive(admit.workload)
        return record is not None and record.workload.kind is Kind.TRAINING and record.workload.state is State.PENDING


def _next(jobs: Sequence[Admit], pace: Pace | None) -> Sequence[Admit]:
    """The first of them for whom there is room.

    Strictly in their order, so that no small one passes a gang; and the last one may be larger than what is left, or a
    very large one would never start.
    """
    if pace is None:
        return jobs
    left, count = pace.left, 0
    while left > 0 and count < len(jobs):
        left -= max(1, len(jobs[count].placement))
        count += 1
    return jobs[:count]
