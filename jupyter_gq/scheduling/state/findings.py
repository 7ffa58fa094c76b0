"""Findings of a cycle about pending workloads: notes of the steps for the explanations."""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.min_runtime import ProtectedVictims


class Findings:
    """Reasons of pending workloads that later steps could not find out again."""

    def __init__(self) -> None:
        #: Idle notebooks whose shares a nominated workload waits for, by the id of that workload.
        self.awaited_notebooks: dict[str, tuple[Workload, ...]] = {}
        #: Victims that are still protected by their min runtime, by the id of the workload that waits for that.
        self.protected_victims: dict[str, ProtectedVictims] = {}
        #: Idle notebooks that keep their shares for a while, because they could not be suspended, by id.
        self.refused_notebooks: dict[str, Workload] = {}
