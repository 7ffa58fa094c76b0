"""Admissions that a decision deferred: they follow in portions until the next step decides anew.

The launch capacity of a backend is an input of the cycle, which defers what exceeds it. A deferred job stays in its
queue, so it can still be passed and withdrawn, a step stays short, and a job that is told that it starts does so within
seconds. See docs/decisions/0048-start-jobs-at-the-pace-of-the-cluster.md.
"""

from collections.abc import Sequence

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit
from jupyter_gq.scheduling.state.launch_capacity import split_by_capacity


class DeferredLaunches:
    """The deferred admissions of the last decision, in their order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._admissions: Sequence[Admit] = ()

    def replace(self, admissions: Sequence[Admit]) -> None:
        """Store the deferred admissions of a new decision in place of those of the last one."""
        self._admissions = admissions

    def take_portion(self) -> tuple[Admit, ...]:
        """Remove the next admissions that the backend can launch now; return those whose jobs still wait.

        The portion is empty until the backend has a good part of its capacity left: many small portions cost more.
        """
        pace = self._context.backend_of(Kind.TRAINING).capabilities.pace() if self._admissions else None
        if pace is None or not pace.is_easy:
            return ()
        portion, self._admissions = split_by_capacity(
            self._admissions, {Kind.TRAINING: pace.left}, lambda _: Kind.TRAINING
        )
        return tuple(each for each in portion if isinstance(each, Admit) and self._still_waits(each))

    def _still_waits(self, admission: Admit) -> bool:
        """Return whether the job of the admission is still pending."""
        record = self._context.records.find_unfinished(admission.workload)
        return record is not None and record.workload.state is State.PENDING
