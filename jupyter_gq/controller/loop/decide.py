"""Decisions about the present state, and previews of one workload more, by one scheduler that keeps its index.

Rules
-----
One scheduler: the scheduler is kept from question to question, so each question costs what has changed since the last
one, not the size of the cluster. The answers are those of `run_cycle` on the same snapshot.

Fresh after a failure: the scheduler is kept only if a question was answered. After a failure the next question indexes
the whole snapshot.

One workload: if no decision can be made because of one workload, the workload is set aside until it changes.

No effect: a preview changes nothing. Nothing is awaited while the scheduler is in use.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.preview import admission


class Decider:
    """The scheduler of the service, for the loop and for requests."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: None before the first question, and after a question that failed.
        self._scheduler: Scheduler | None = None

    def decide(self) -> Decision:
        """Return the decision about the present state.

        If the scheduler fails because of single workloads, these are excluded until they change. Raises the error if no
        single workload causes it.
        """
        snapshot, now = self._context.snapshot(), self._context.clock.now()
        try:
            return self.decide_on(snapshot, now)
        except Exception as error:
            culprits = self._find_culprits(snapshot, now)
            if not culprits:
                raise
            for culprit in culprits:
                self._context.exclude(culprit, error)
            return self.decide_on(self._context.snapshot(), now)

    def decide_on(self, snapshot: Snapshot, now: Instant) -> Decision:
        """Return the decision about this snapshot, which must be of the present state; nothing is recorded."""
        with self._borrow_scheduler(snapshot) as scheduler:
            return scheduler.decide(now)

    def preview(self, caller: Caller, workloads: Sequence[Workload]) -> list[admission.Outlook]:
        """Return what would happen to each workload if the caller queued it now, each without the others of the list.

        The ids must be unused. Nothing is stored.
        """
        snapshot = self._context.snapshot()
        workloads = [self._context.with_elasticity(workload) for workload in workloads]
        queues = {workload.queue for workload in workloads}
        if queues <= {queue.name for queue in snapshot.queues}:
            with self._borrow_scheduler(snapshot) as scheduler:
                return self._preview_each(scheduler, snapshot, workloads)
        # Another queue tree needs another index. The kept scheduler would have to index everything twice for it.
        snapshot = _only_same_pools(self._context.snapshot([caller]), queues)
        return self._preview_each(Scheduler(snapshot, self._context.settings.policy), snapshot, workloads)

    def _find_culprits(self, snapshot: Snapshot, now: Instant) -> Sequence[Workload]:
        """Return the workloads that each make every decision fail, found by halving; () if there are none.

        Each trial costs a cycle, of which `2 * log2(workloads)` are needed for one culprit.
        """
        policy = self._context.settings.policy

        def fails(some: Sequence[Workload]) -> bool:
            """Return whether a decision about the snapshot with only these workloads fails."""
            try:
                Scheduler(replace(snapshot, workloads=tuple(some)), policy).decide(now)
            except Exception:  # noqa: BLE001 - any failure counts
                return True
            return False

        def search(some: Sequence[Workload]) -> Sequence[Workload]:
            """Return the culprits among workloads for which decisions fail."""
            if len(some) <= 1:
                return some
            middle = len(some) // 2
            failing = [half for half in (some[:middle], some[middle:]) if fails(half)]
            return [culprit for half in failing for culprit in search(half)]

        return () if fails(()) else search(snapshot.workloads)

    def _preview_each(
        self, scheduler: Scheduler, snapshot: Snapshot, workloads: Sequence[Workload]
    ) -> list[admission.Outlook]:
        """Return what the scheduler would decide about each workload if only that one were added to the snapshot."""
        now = self._context.clock.now()
        decisions = [scheduler.decide_with(admission.queued(workload), now) for workload in workloads]
        policy = self._context.settings.policy
        return [admission.outlook(snapshot, policy, *each) for each in zip(workloads, decisions, strict=True)]

    @contextmanager
    def _borrow_scheduler(self, snapshot: Snapshot) -> Iterator[Scheduler]:
        """Provide a scheduler with the index of this snapshot: the kept one, brought up to date, or a new one.

        The scheduler is kept for the next call only if the block raises no error.
        """
        policy = self._context.settings.policy
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None:
            scheduler = Scheduler(snapshot, policy)
        else:
            scheduler.follow(snapshot, policy)
        yield scheduler
        self._scheduler = scheduler


def _only_same_pools(snapshot: Snapshot, queues: Set[str]) -> Snapshot:
    """Return the snapshot without the workloads in other pools than those of `queues`, which change nothing there."""
    pools = {queue.pool for queue in snapshot.queues if queue.name in queues}
    same = {queue.name for queue in snapshot.queues if queue.pool in pools}
    return replace(snapshot, workloads=tuple(w for w in snapshot.workloads if w.queue in same))
