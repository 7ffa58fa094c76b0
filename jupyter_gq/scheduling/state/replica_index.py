"""Replicas of running elastic workloads: the surplus that they hold, and what they could still get."""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads.replicas import Replica

#: Replicas of one workload by their ids, the first one first.
ReplicasById = dict[str, Replica]


class ReplicaIndex:
    """The replicas of the elastic workloads that can be evicted, by the id of the workload."""

    def __init__(self) -> None:
        #: Surplus replicas that each workload holds; workloads without any are absent.
        self.surplus: dict[str, ReplicasById] = {}
        #: The smallest gang of each workload with surplus replicas, under the id of the workload.
        self.cores: dict[str, Workload] = {}
        #: Replicas that each workload could still get; workloads that have all are absent.
        self.wanted: dict[str, ReplicasById] = {}

    def add(self, core: Workload, surplus: list[Replica], wanted: list[Replica]) -> None:
        """Add an elastic workload, given as its smallest gang and its replicas."""
        if surplus:
            self.cores[core.id] = core
            self.surplus[core.id] = {replica.id: replica for replica in surplus}
        if wanted:
            self.wanted[core.id] = {replica.id: replica for replica in wanted}

    def remove(self, workload: str) -> list[Replica]:
        """Remove the workload of that id, if it is there, and return the replicas that it could still get."""
        self.cores.pop(workload, None)
        self.surplus.pop(workload, None)
        return list(self.wanted.pop(workload, {}).values())
