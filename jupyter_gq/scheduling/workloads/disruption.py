"""Victim order: the workload that loses least goes first.

Rules
-----
1. Nothing lost. Work that was nominated or admitted in this cycle loses nothing; nor does work that has not started.
2. Order. Then the lower priority goes first; then surplus replicas of elastic work, which goes on without them; then
   the newest run; then the newest submission; then the last task of a workload; then the id.
3. Inside a queue. A priority counts only among the work of one queue. Between queues, the work that would go next in
   each is compared by the rest of the order.
4. Saved state. A workload that saves its state continues where it saved, so it loses less: its run counts as
   `SAVING_COUNTS` younger than it is. The bonus is bounded, so that a job that never saves goes before a much older job
   that does. The time of the save itself does not matter, so the order stays the same from cycle to cycle.

See docs/decisions/0105-compare-priorities-inside-a-queue-only.md.
"""

from collections.abc import Iterable, Iterator
from heapq import merge

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload

from .replicas import Replica

#: A run that has saved its state counts as that much younger.
SAVING_COUNTS = Seconds(3600)

Loss = tuple[bool, bool, bool, float, float, int, str]
Disruption = tuple[bool, bool, int, bool, float, float, int, str]


def disruption(workload: Workload) -> Disruption:
    """Return a sort key for the work of one queue that could be stopped; the work with the smallest key goes first.

    The key is that of `loss`, but the lower priority goes before whatever else is lost by running work.
    """
    lost = loss(workload)
    return (*lost[:2], workload.priority, *lost[2:])


def by_disruption(workloads: Iterable[Workload]) -> Iterator[Workload]:
    """Yield the workloads in the order in which they should stop: by `disruption` in each queue, by `loss` between."""
    queues: dict[str, list[Workload]] = {}
    for workload in workloads:
        queues.setdefault(workload.queue, []).append(workload)
    return merge(*(sorted(members, key=disruption) for members in queues.values()), key=loss)


def loss(workload: Workload) -> Loss:
    """Return a sort key of what is lost if work stops, for work of different queues; the smallest key goes first.

    Smaller keys have, in this order: work placed in this cycle, work not running yet, surplus replicas, newer runs,
    newer submissions. A saved state makes a run count as an hour newer. Work that was placed in this cycle must be
    given as PENDING with its placement.
    """
    started = workload.started_at if workload.started_at is not None else workload.submitted_at
    if workload.checkpointed_at is not None:
        started = Instant(started + SAVING_COUNTS)
    place = workload.index if isinstance(workload, Replica) else None
    return (
        workload.state is not State.PENDING,
        workload.state is State.RUNNING,
        place is None,
        -started,
        -workload.submitted_at,
        -(place or 0),
        workload.id,
    )
