"""What the core decides now, and what it would decide if there were one workload more: asked of one scheduler.

Rules
-----
1. A scheduler that remembers is kept from question to question: each costs what has changed since the last one, not
   what there is. What it says is what `run_cycle` says of the same snapshot.
2. It is put back only when all went well: after a question that failed, the next one begins anew.
3. Who asks what would be changes nothing. Between taking it up and putting it back nothing is awaited.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.preview import admission


class Deciding:
    """Asked by the loop, and by requests beside it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: None before the first question, and after one that failed.
        self._scheduler: Scheduler | None = None

    def decide(self) -> Decision:
        """Return what is to be done now."""
        return self.of(self._context.snapshot())

    def of(self, snapshot: Snapshot) -> Decision:
        """Return what is to be done about that snapshot, which is one of now."""
        with self._knowing(snapshot) as scheduler:
            return scheduler.decide(self._context.clock.now())

    def outlooks(self, caller: Caller, workloads: Sequence[Workload]) -> list[admission.Outlook]:
        """What would happen to each of them if it alone were queued now, by the caller. Their ids are nobody's."""
        snapshot = self._context.snapshot()
        queues = {workload.queue for workload in workloads}
        if queues <= {queue.name for queue in snapshot.queues}:
            with self._knowing(snapshot) as scheduler:
                return self._each(scheduler, snapshot, workloads)
        # Another tree is counted anew: not by the scheduler that is kept, which would count the old one anew after it.
        snapshot = _only_rivals(self._context.snapshot([caller]), queues)
        return self._each(Scheduler(snapshot, self._context.settings.policy), snapshot, workloads)

    def _each(self, scheduler: Scheduler, snapshot: Snapshot, workloads: Sequence[Workload]) -> list[admission.Outlook]:
        now = self._context.clock.now()
        decisions = [scheduler.decide_with(admission.queued(workload), now) for workload in workloads]
        return [admission.outlook(snapshot, *each) for each in zip(workloads, decisions, strict=True)]

    @contextmanager
    def _knowing(self, snapshot: Snapshot) -> Iterator[Scheduler]:
        policy = self._context.settings.policy
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None:
            scheduler = Scheduler(snapshot, policy)
        else:
            scheduler.follow(snapshot, policy)
        yield scheduler
        self._scheduler = scheduler


def _only_rivals(snapshot: Snapshot, queues: Set[str]) -> Snapshot:
    """Without work of other pools: it neither helps nor hinders, the question costs as much as the pool is large."""
    pools = {queue.pool for queue in snapshot.queues if queue.name in queues}
    rivals = {queue.name for queue in snapshot.queues if queue.pool in pools}
    return replace(snapshot, workloads=tuple(w for w in snapshot.workloads if w.queue in rivals))
