"""A cluster that carries out what a scheduler decides, event after event."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Reserve
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy

from . import clusters


class LivingCluster:
    """A scheduler and the cluster that does what it says."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.scheduler = Scheduler(snapshot, Policy())
        self.now = clusters.NOW
        #: Evictions, and those for a job that had been evicted itself since the last event.
        self.evictions = self.cascades = 0
        self._evicted: set[str] = set()

    def event(self) -> None:
        """Something happens: time passes, and what follows from it is no cascade of what was before."""
        self.now = Instant(self.now + 60)
        self._evicted.clear()

    def decide(self) -> Decision:
        return self.scheduler.decide(self.now)

    def put(self, workload: Workload) -> None:
        self.workloads[workload.id] = workload
        self.scheduler.put(workload)

    def end(self, name: str) -> None:
        del self.workloads[name]
        self.scheduler.remove(name)

    def carry_out(self, decision: Decision) -> None:
        """Whoever is admitted runs, whoever is evicted waits again, at once; where room is kept is written down."""
        for instruction in sorted(decision.instructions, key=lambda each: not isinstance(each, Evict)):
            workload = self.workloads[instruction.workload]
            match instruction:
                case Evict(by=by):
                    self.evictions += 1
                    self.cascades += by in self._evicted
                    self._evicted.add(workload.id)
                    workload = replace(workload, state=State.PENDING, placement=(), started_at=None)
                case Admit(placement=placement):
                    workload = replace(
                        workload,
                        state=State.RUNNING,
                        placement=placement,
                        started_at=self.now,
                        reserved=(),
                        nominated=False,
                    )
                case Reserve(placement=placement, nominated=nominated):
                    workload = replace(workload, reserved=placement, nominated=nominated)
                case _:
                    raise SystemExit(f"The decision is wrong: {instruction} among work that cannot do that.")
            self.put(workload)

    def settle(self) -> None:
        for _ in range(20):
            decision = self.decide()
            if not decision.instructions:
                return
            self.carry_out(decision)
        raise SystemExit("The decision is wrong: the cluster does not come to rest.")

    def held(self) -> int:
        return sum(w.milli for w in self.workloads.values() if w.state is State.RUNNING)
