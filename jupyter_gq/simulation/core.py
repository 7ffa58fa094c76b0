"""The product's own scheduler as a policy of the replay.

The scheduler decides at every event and, while some job waits, every minute.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.decision import Admit, Evict, Instruction, Reserve
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy

from .replay import Move, Pause, Start
from .trace import TraceJob

#: While somebody waits, time alone may change a decision (what has run long enough may be moved, for one).
TICK = Seconds(60)


class Core:
    """A policy of the replay that runs the product's scheduler.

    Jobs are preemptible training workloads in guaranteed queues. A job that is told to stop stops at once
    and waits again.
    """

    def __init__(self, nodes: Iterable[Node], queues: Iterable[Queue], policy: Policy) -> None:
        self._empty = Snapshot(nodes=tuple(nodes), queues=tuple(queues), workloads=())
        self._scheduler = Scheduler(self._empty, policy)
        self.policy = policy
        self._workloads: dict[str, Workload] = {}
        self._waiting = 0

    def submitted(self, job: TraceJob) -> None:
        """Add a job as a pending workload."""
        self._put(workload_of(job))
        self._waiting += 1

    def ended(self, job: TraceJob) -> None:
        """Remove a job that has ended, so that its devices are free."""
        del self._workloads[job.id]
        self._scheduler.remove(job.id)

    def decide(self, now: Instant) -> Sequence[Move]:
        """Run one cycle, apply its instructions, and return the starts and pauses; nothing is done if no job waits."""
        if not self._waiting:
            return ()
        instructions = self._scheduler.decide(now, explain=False).instructions
        moves = [self._carry_out(instruction, now) for instruction in instructions]
        return [move for move in moves if move is not None]

    def snapshot(self) -> Snapshot:
        """Return the cluster with all jobs that have not ended, as this policy knows them."""
        return replace(self._empty, workloads=tuple(self._workloads.values()))

    def wake_at(self, now: Instant) -> Instant | None:
        """Return the time one minute from now if some job waits; None otherwise."""
        return Instant(now + TICK) if self._waiting else None

    def _carry_out(self, instruction: Instruction, now: Instant) -> Move | None:
        """Apply an instruction to the job that it names, and return the move of the replay; None for a reservation.

        Raises `TypeError` for an instruction that no job of a trace can get.
        """
        workload = self._workloads[instruction.workload]
        match instruction:
            case Admit(placement=placement):
                self._waiting -= 1
                run = workload.run + 1
                self._put(
                    replace(
                        workload,
                        state=State.RUNNING,
                        placement=placement,
                        reserved=(),
                        nominated=False,
                        started_at=now,
                        run=run,
                    )
                )
                return Start(job=workload.id)
            case Evict():
                self._waiting += 1
                self._put(replace(workload, state=State.PENDING, placement=(), started_at=None, requeued_at=now))
                return Pause(job=workload.id)
            case Reserve(placement=placement, nominated=nominated):
                self._put(replace(workload, reserved=placement, nominated=nominated))
                return None
        raise TypeError(f"no job of a trace can do this: {instruction}")

    def _put(self, workload: Workload) -> None:
        self._workloads[workload.id] = workload
        self._scheduler.put(workload)


def workload_of(job: TraceJob) -> Workload:
    """Return the workload that the scheduler sees for a job that was just submitted."""
    return Workload(
        id=job.id,
        kind=Kind.TRAINING,
        owner=job.owner,
        name=job.id,
        queue=job.queue,
        request=job.request,
        tasks=job.tasks,
        min_members=job.tasks,
        submitted_at=job.submitted,
    )
