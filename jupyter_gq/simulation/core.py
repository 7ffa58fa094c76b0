"""The product as a policy of the replay: its own cycle, at every event."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Evict, Instruction, Reserve
from jupyter_gq.scheduling.policy import Policy

from .replay import Move, Pause, Start
from .trace import Job


class Core:
    """Jobs as preemptible training workloads in guaranteed queues; what is told to stop is gone at once."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[Queue], policy: Policy) -> None:
        self._empty = Snapshot(nodes=tuple(nodes), queues=tuple(queues), workloads=())
        self.policy = policy
        self._workloads: dict[str, Workload] = {}
        self._waiting = 0

    def submitted(self, job: Job) -> None:
        """It waits from now on."""
        self._workloads[job.id] = workload_of(job)
        self._waiting += 1

    def ended(self, job: Job) -> None:
        """Its devices are free."""
        del self._workloads[job.id]

    def decide(self, now: Instant) -> Sequence[Move]:
        """One cycle; none where nobody waits, for then there is nothing to decide."""
        if not self._waiting:
            return ()
        decision = run_cycle(self.snapshot(), self.policy, now)
        moves = [self._carry_out(instruction, now) for instruction in decision.instructions]
        return [move for move in moves if move is not None]

    def snapshot(self) -> Snapshot:
        """What it sees now."""
        return replace(self._empty, workloads=tuple(self._workloads.values()))

    def wake_at(self, now: Instant) -> Instant | None:
        """Time alone changes nothing."""
        return None

    def _carry_out(self, instruction: Instruction, now: Instant) -> Move | None:
        workload = self._workloads[instruction.workload]
        match instruction:
            case Admit(placement=placement):
                self._waiting -= 1
                started = replace(workload, state=State.RUNNING, placement=placement, started_at=now, reserved=())
                self._workloads[workload.id] = replace(started, run=workload.run + 1)
                return Start(job=workload.id)
            case Evict():
                self._waiting += 1
                self._workloads[workload.id] = replace(workload, state=State.PENDING, placement=(), started_at=None)
                return Pause(job=workload.id)
            case Reserve(placement=placement):
                self._workloads[workload.id] = replace(workload, reserved=placement)
                return None
        raise TypeError(f"no job of a trace can do this: {instruction}")


def workload_of(job: Job) -> Workload:
    """What the core sees of a job that was just submitted."""
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
